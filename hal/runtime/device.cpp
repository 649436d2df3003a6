// The registry of open devices, device strings, and the hooks through which a host language takes part.
#include "device.hpp"

#include <algorithm>
#include <map>

#include "allocator.hpp"
#include "device_registry.hpp"
#include "executable_cache.hpp"
#include "fork.hpp"
#include "nearest.hpp"
#include "op_table.hpp"

namespace hal {
namespace {

std::mutex g_discovery_mutex;
std::function<void()> g_discovery;
std::atomic<bool> g_discovered{false};
thread_local bool t_discovering = false;

std::atomic<void *(*)()> g_enter{nullptr};
std::atomic<void (*)(void *)> g_leave{nullptr};

struct DeviceName {
  std::string id;
  uint32_t index = 0;
  std::string options;
};

[[noreturn]] void throw_malformed(const std::string &name) {
  throw Error(ErrorKind::Value,
              "[device] malformed device string '" + name + "': expected id, id:index or id:index?options with id as [a-z][a-z0-9_]*");
}

DeviceName parse(const std::string &name) {
  DeviceName out;
  const size_t question = name.find('?');
  if (question != std::string::npos) out.options = name.substr(question + 1);
  const std::string head = name.substr(0, question);
  const size_t colon = head.find(':');
  out.id = head.substr(0, colon);
  if (out.id.empty() || out.id[0] < 'a' || out.id[0] > 'z') throw_malformed(name);
  for (char c : out.id)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) throw_malformed(name);
  if (colon != std::string::npos) {
    const std::string digits = head.substr(colon + 1);
    if (digits.empty() || digits.size() > 6) throw_malformed(name);
    for (char c : digits) {
      if (c < '0' || c > '9') throw_malformed(name);
      out.index = out.index * 10 + uint32_t(c - '0');
    }
  }
  return out;
}

std::string join(const std::vector<std::string> &parts) {
  std::string out;
  for (const std::string &p : parts) out += (out.empty() ? "" : ", ") + p;
  return out.empty() ? "none" : out;
}

[[noreturn]] void throw_unknown(const std::string &name, const std::string &id) {
  std::vector<std::string> ids;
  for (const PluginRecord &record : plugin_records(false)) ids.push_back(record.id);
  std::string text = "[device] unknown device '" + name + "': available: " + join(available_devices());
  const std::string nearest = nearest_names(id, ids, 1);
  if (!nearest.empty()) text += "; did you mean '" + nearest + "'?";
  throw Error(ErrorKind::Value, text);
}

}  // namespace

void set_discovery(std::function<void()> discover) {
  std::lock_guard<std::mutex> lock(g_discovery_mutex);
  g_discovery = std::move(discover);
  g_discovered = false;
}

void run_discovery() {
  if (g_discovered.load(std::memory_order_acquire) || t_discovering) return;
  std::function<void()> discover;
  {
    std::lock_guard<std::mutex> lock(g_discovery_mutex);
    discover = g_discovery;
  }
  if (!discover) return;
  // No lock while it runs: it may need the interpreter's lock, which a waiting thread could hold. Two threads may both run it.
  t_discovering = true;
  try {
    discover();
  } catch (...) {
    t_discovering = false;
    throw;
  }
  t_discovering = false;
  g_discovered.store(true, std::memory_order_release);
}

void set_blocking_hooks(void *(*enter)(), void (*leave)(void *)) {
  g_leave.store(leave, std::memory_order_release);
  g_enter.store(enter, std::memory_order_release);
}

BlockingScope::BlockingScope() {
  auto *enter = g_enter.load(std::memory_order_acquire);
  token_ = enter ? enter() : nullptr;
}

BlockingScope::~BlockingScope() {
  auto *leave = g_leave.load(std::memory_order_acquire);
  if (token_ && leave) leave(token_);
}

DeviceRegistry &DeviceRegistry::get() {
  static DeviceRegistry *registry = [] {
    hold_locks_at_fork();
    return new DeviceRegistry;  // never destroyed: threads may outlive static destruction
  }();
  return *registry;
}

Device *DeviceRegistry::find(const std::string &name) {
  std::lock_guard<Mutex> lock(mutex_);
  auto it = devices_.find(name);
  return it == devices_.end() ? nullptr : it->second;
}

std::vector<Device *> DeviceRegistry::all() {
  std::lock_guard<Mutex> lock(mutex_);
  std::vector<Device *> out(devices_.size());
  for (auto &entry : devices_) out[entry.second->slot()] = entry.second;
  return out;
}

Device &DeviceRegistry::open(std::shared_ptr<Plugin> plugin, uint32_t index, const std::string &options) {
  const std::string name = plugin->id + ":" + std::to_string(index);
  BlockingScope blocking;
  std::lock_guard<Mutex> opening(open_mutex_);
  if (Device *known = find(name)) return *known;
  if (closed_) throw Error(HAL_ERROR_UNAVAILABLE, "[device] the runtime has been shut down");
  uint32_t count = 0;
  take_error_text();
  check(plugin->device.count(&count), (plugin->id + ".count").c_str());
  if (index >= count)
    throw Error(ErrorKind::Value, "[device] '" + name + "' does not exist: '" + plugin->id + "' has " + std::to_string(count) +
                                      (count == 1 ? " device" : " devices") + ": " + join(available_devices()));
  std::unique_ptr<Device> device(new Device);
  device->plugin_ = plugin;
  device->index_ = index;
  device->name_ = name;
  device->options_ = options;
  device->is_host_ = (plugin->roles & HAL_ROLE_HOST) != 0;
  check(plugin->device.open(index, options.c_str(), &device->handle_), name.c_str());
  try {
    device->properties_.struct_size = sizeof(hal_device_properties);
    check(plugin->device.properties(device->handle_, &device->properties_), (name + " properties").c_str());
    device->properties_.memory_alignment = std::max(device->properties_.memory_alignment, 1u);
    device->properties_.offset_alignment = std::max(device->properties_.offset_alignment, 1u);
    device->async_ = (device->properties_.capabilities & HAL_CAP_ASYNC) != 0;
    const hal_kernel_info *rows = nullptr;
    uint32_t num_rows = 0;
    check(plugin->kernel.list(device->handle_, &rows, &num_rows), (name + " kernel.list").c_str());
    // Rows of a plugin built against another minor may be shorter or longer than ours: step by their own size.
    const char *row = reinterpret_cast<const char *>(rows);
    for (uint32_t i = 0; i < num_rows; ++i) {
      hal_kernel_info info{};
      const uint32_t size = reinterpret_cast<const hal_kernel_info *>(row)->struct_size;
      if (size < offsetof(hal_kernel_info, dtypes) || size > 4096)
        throw Error(HAL_ERROR_INTERNAL,
                    "[" + name + "] kernel.list: row " + std::to_string(i) + " has struct_size " + std::to_string(size));
      std::copy_n(row, std::min<size_t>(size, sizeof(info)), reinterpret_cast<char *>(&info));
      if (!info.op) throw Error(HAL_ERROR_INTERNAL, "[" + name + "] kernel.list: row " + std::to_string(i) + " has no op");
      intern_op(info.op);
      device->kernels_.push_back(info);
      row += size;
    }
    device->slot_ = uint32_t(all().size());
    device->allocator_ = std::make_unique<CachingAllocator>(*device);
    device->executables_ = std::make_unique<ExecutableCache>(*device);
    device->default_stream_ = Stream::create(*device, 0);
  } catch (...) {
    device->default_stream_.reset();
    device->executables_.reset();
    device->allocator_.reset();
    plugin->device.close(device->handle_);
    throw;
  }
  Device *opened = device.release();
  std::lock_guard<Mutex> lock(mutex_);
  devices_[name] = opened;
  return *opened;
}

Device &device(const std::string &text) {
  const DeviceName name = parse(text);
  Device *known = DeviceRegistry::get().find(name.id + ":" + std::to_string(name.index));
  if (!known) {
    run_discovery();
    BlockingScope blocking;
    bool registered = false;
    for (const PluginRecord &record : plugin_records(false)) registered |= record.id == name.id;
    if (!registered) throw_unknown(text, name.id);
    known = &DeviceRegistry::get().open(load_plugin(name.id), name.index, name.options);
  }
  if (!name.options.empty() && name.options != known->options())
    throw Error(ErrorKind::Value, "[device] " + known->name() + " is already open with options '" + known->options() + "': got '" +
                                      name.options + "'; options count at the first use");
  return *known;
}

Device &host_device() {
  static std::atomic<Device *> host{nullptr};
  Device *known = host.load(std::memory_order_acquire);
  if (known) return *known;
  run_discovery();
  BlockingScope blocking;
  known = &DeviceRegistry::get().open(host_plugin(), 0, "");
  host.store(known, std::memory_order_release);
  return *known;
}

std::vector<Device *> open_devices() { return DeviceRegistry::get().all(); }

std::vector<std::string> available_devices() {
  run_discovery();
  BlockingScope blocking;
  std::vector<std::string> out;
  for (const PluginRecord &record : plugin_records(true))
    for (uint32_t i = 0; record.available && i < record.device_count; ++i) out.push_back(record.id + ":" + std::to_string(i));
  return out;
}

}  // namespace hal
