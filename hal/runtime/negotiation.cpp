// Negotiation by struct_size: each side reads only what the other's struct reaches.
#include "negotiation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace hal {

namespace {

constexpr uint32_t kImplausibleSize = 1u << 16;  // no table of the ABI comes near: the field holds something else

[[noreturn]] void refuse(const std::string &id, const std::string &text) {
  throw Error(HAL_ERROR_UNAVAILABLE, "[plugin " + id + "] " + text);
}

// A slot that has been required since ABI 0.1, as a row of a table of such.
struct Slot {
  const char *name;
  size_t offset;
};

#define HAL_SLOT(type, field) {#field, offsetof(type, field)}

// Copies as many whole slots as both sides know and clears the rest. Slots are pointers, so `struct_size` is padded to one.
template <typename Table>
void copy_table(const std::string &id, const char *name, const Table *source, Table &copy) {
  constexpr size_t slot = sizeof(void *);
  const uint32_t size = source->struct_size;
  if (size < slot || size > kImplausibleSize)
    refuse(id, std::string("table ") + name + ": struct_size is " + std::to_string(size) + ", expected sizeof(hal_" + name +
                   "_api) of the headers that it was built with, here " + std::to_string(sizeof(Table)));
  std::memset(&copy, 0, sizeof copy);
  std::memcpy(&copy, source, std::min<size_t>(size, sizeof copy) / slot * slot);
  copy.struct_size = sizeof copy;
}

template <typename Table, size_t N>
void require_slots(const std::string &id, const char *name, const Table *source, const Table &copy, const Slot (&slots)[N]) {
  for (const Slot &slot : slots) {
    void *entry;
    std::memcpy(&entry, reinterpret_cast<const char *>(&copy) + slot.offset, sizeof entry);
    if (entry != nullptr) continue;
    const bool reached = source->struct_size >= slot.offset + sizeof(void *);
    refuse(id, std::string("table ") + name + ": " +
                   (reached ? std::string("slot ") + slot.name + " is NULL"
                            : "struct_size " + std::to_string(source->struct_size) + " doesn't reach slot " + slot.name) +
                   ", required since ABI 0.1");
  }
}

template <typename Table, size_t N>
void required_table(const std::string &id, const char *name, const Table *source, Table &copy, const Slot (&slots)[N]) {
  if (source == nullptr) refuse(id, std::string("table ") + name + " is NULL, required since ABI 0.1");
  copy_table(id, name, source, copy);
  require_slots(id, name, source, copy, slots);
}

// The parts of an optional table are all required once the table is given.
template <typename Table, size_t N>
bool optional_table(const std::string &id, const char *name, const Table *source, Table &copy, const Slot (&slots)[N]) {
  if (source == nullptr) return false;
  required_table(id, name, source, copy, slots);
  return true;
}

constexpr Slot kDevice[] = {HAL_SLOT(hal_device_api, count), HAL_SLOT(hal_device_api, open), HAL_SLOT(hal_device_api, close),
                            HAL_SLOT(hal_device_api, properties), HAL_SLOT(hal_device_api, memory_info)};
constexpr Slot kMemory[] = {HAL_SLOT(hal_memory_api, alloc), HAL_SLOT(hal_memory_api, free), HAL_SLOT(hal_memory_api, copy_from_host),
                            HAL_SLOT(hal_memory_api, copy_to_host), HAL_SLOT(hal_memory_api, copy)};
constexpr Slot kStream[] = {HAL_SLOT(hal_stream_api, create),    HAL_SLOT(hal_stream_api, destroy),
                            HAL_SLOT(hal_stream_api, query),     HAL_SLOT(hal_stream_api, synchronize),
                            HAL_SLOT(hal_stream_api, get_error), HAL_SLOT(hal_stream_api, wait_event)};
constexpr Slot kEvent[] = {HAL_SLOT(hal_event_api, create), HAL_SLOT(hal_event_api, destroy), HAL_SLOT(hal_event_api, record),
                           HAL_SLOT(hal_event_api, query), HAL_SLOT(hal_event_api, synchronize)};
constexpr Slot kKernel[] = {HAL_SLOT(hal_kernel_api, list), HAL_SLOT(hal_kernel_api, prepare), HAL_SLOT(hal_kernel_api, release),
                            HAL_SLOT(hal_kernel_api, launch)};
constexpr Slot kLayout[] = {HAL_SLOT(hal_layout_api, list), HAL_SLOT(hal_layout_api, name), HAL_SLOT(hal_layout_api, size),
                            HAL_SLOT(hal_layout_api, convert)};
constexpr Slot kGraph[] = {HAL_SLOT(hal_graph_api, begin_capture), HAL_SLOT(hal_graph_api, end_capture), HAL_SLOT(hal_graph_api, launch),
                           HAL_SLOT(hal_graph_api, destroy)};
constexpr Slot kPeer[] = {HAL_SLOT(hal_peer_api, can_access), HAL_SLOT(hal_peer_api, copy)};
constexpr Slot kProfiler[] = {HAL_SLOT(hal_profiler_api, start), HAL_SLOT(hal_profiler_api, stop), HAL_SLOT(hal_profiler_api, read)};
constexpr Slot kCompiler[] = {HAL_SLOT(hal_compiler_api, compile), HAL_SLOT(hal_compiler_api, release), HAL_SLOT(hal_compiler_api, launch)};
constexpr Slot kCollective[] = {HAL_SLOT(hal_collective_api, all_reduce)};

}  // namespace

bool valid_id(const std::string &id) {
  if (id.empty() || id.size() > 64 || id[0] < 'a' || id[0] > 'z') return false;
  for (const char c : id)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return true;
}

void negotiate(const hal_plugin_api *api, const std::string &known_as, Plugin &plugin) {
  std::string id = known_as;
  if (api == nullptr) refuse(id, HAL_PLUGIN_ENTRY_NAME " returned HAL_OK but no table");
  if (api->struct_size < offsetof(hal_plugin_api, id) || api->struct_size > kImplausibleSize)
    refuse(id, "struct_size of its plugin table is " + std::to_string(api->struct_size) + ", expected sizeof(hal_plugin_api), here " +
                   std::to_string(sizeof(hal_plugin_api)));
  const std::string theirs = std::to_string(api->abi_major) + "." + std::to_string(api->abi_minor);
  const std::string ours = std::to_string(HAL_ABI_MAJOR) + "." + std::to_string(HAL_ABI_MINOR);
  if (api->abi_major != HAL_ABI_MAJOR)
    throw Error(HAL_ERROR_ABI_MISMATCH, "[plugin " + id + "] it was built for ABI " + theirs + ", expected " +
                                            std::to_string(HAL_ABI_MAJOR) + ".x: this runtime speaks ABI " + ours +
                                            (api->abi_major > HAL_ABI_MAJOR ? "; update hal" : "; rebuild the plugin"));
  // Any minor will do: an older plugin's structs end earlier, of a newer one's we read what we know.
  hal_plugin_api copy{};
  std::memcpy(&copy, api, std::min<size_t>(api->struct_size, sizeof copy) / sizeof(void *) * sizeof(void *));
  if (!HAL_HAS_FIELD(api, hal_plugin_api, kernel))
    refuse(id, "struct_size of its plugin table doesn't reach the required tables: got " + std::to_string(api->struct_size) +
                   ", expected at least " + std::to_string(offsetof(hal_plugin_api, kernel) + sizeof(void *)));
  if (copy.id == nullptr || !valid_id(copy.id))
    refuse(id, std::string("its id is ") + (copy.id == nullptr ? "NULL" : "'" + std::string(copy.id).substr(0, 64) + "'") +
                   ", expected [a-z][a-z0-9_]*, at most 64 characters");
  id = copy.id;
  plugin.id = id;
  plugin.version = copy.version != nullptr ? copy.version : "";
  plugin.roles = copy.roles;
  plugin.opset = copy.opset;
  plugin.abi_major = api->abi_major;
  plugin.abi_minor = api->abi_minor;
  plugin.init = copy.init;
  plugin.deinit = copy.deinit;
  required_table(id, "device", copy.device, plugin.device, kDevice);
  required_table(id, "memory", copy.memory, plugin.memory, kMemory);
  required_table(id, "stream", copy.stream, plugin.stream, kStream);
  required_table(id, "event", copy.event, plugin.event, kEvent);
  required_table(id, "kernel", copy.kernel, plugin.kernel, kKernel);
  plugin.has_layout = optional_table(id, "layout", copy.layout, plugin.layout, kLayout);
  plugin.has_graph = optional_table(id, "graph", copy.graph, plugin.graph, kGraph);
  plugin.has_peer = optional_table(id, "peer", copy.peer, plugin.peer, kPeer);
  plugin.has_profiler = optional_table(id, "profiler", copy.profiler, plugin.profiler, kProfiler);
  plugin.has_compiler = optional_table(id, "compiler", copy.compiler, plugin.compiler, kCompiler);
  plugin.has_collective = optional_table(id, "collective", copy.collective, plugin.collective, kCollective);
  if ((plugin.memory.alloc_async == nullptr) != (plugin.memory.free_async == nullptr))
    refuse(id, "table memory: alloc_async and free_async go together, but only one is given");
}

}  // namespace hal
