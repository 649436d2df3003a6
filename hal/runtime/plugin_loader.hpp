// Finding, probing, loading and negotiating with plugins.
#pragma once

#include <hal/plugin.h>

#include <memory>
#include <string>
#include <vector>

#include "error.hpp"

namespace hal {

// A plugin whose library is mapped and whose tables have been checked. Lives until the process ends.
// The tables here are complete copies: slots that the plugin's struct doesn't reach are NULL, so callers need no HAL_HAS_FIELD.
struct HAL_API Plugin {
  std::string id;
  std::string version;
  std::string origin;  // path of the library, or what registered it
  uint32_t roles = 0;
  uint32_t opset = 0;
  uint16_t abi_major = 0, abi_minor = 0;
  hal_device_api device{};
  hal_memory_api memory{};
  hal_stream_api stream{};
  hal_event_api event{};
  hal_kernel_api kernel{};
  bool has_layout = false, has_graph = false, has_peer = false, has_profiler = false, has_compiler = false, has_collective = false;
  hal_layout_api layout{};
  hal_graph_api graph{};
  hal_peer_api peer{};
  hal_profiler_api profiler{};
  hal_compiler_api compiler{};
  hal_collective_api collective{};
  hal_status (*init)() = nullptr;
  void (*deinit)() = nullptr;
};

// What is known of one discovered plugin, loaded or not.
struct PluginRecord {
  std::string id;      // from the entry point's name or the file name until loaded
  std::string origin;  // library path
  bool available = false;
  bool loaded = false;
  std::string reason;              // why it is unavailable; "" if available or not yet probed
  std::shared_ptr<Plugin> plugin;  // once loaded
  uint32_t device_count = 0;       // once loaded and initialised
  uint32_t roles = 0;              // once probed or loaded
};

// The libraries of HAL_PLUGIN_PATH register themselves at the first use of this header; what is found by other means (entry points)
// is registered by the discovery hook, see set_discovery in device.hpp.

// Registers a library found by discovery (entry point or HAL_PLUGIN_PATH) without loading it. A second library with an id already
// taken is kept and reported; HAL_PLUGIN_<ID>=<path> chooses between them.
HAL_API void register_library(const std::string &id, const std::string &path);
// Registers tables that live in this process (a plugin written in Python). `api` must outlive the process. Checked as a library is.
HAL_API void register_tables(const hal_plugin_api *api, const std::string &origin);

// Records a plugin that discovery found but that can't even be registered (its entry point fails to import), so that it is listed.
HAL_API void register_failure(const std::string &id, const std::string &origin, const std::string &reason);

// Loads and initialises the plugin with this id, probing an unknown library in a child process first. Throws Error with the reason.
HAL_API std::shared_ptr<Plugin> load_plugin(const std::string &id);
// All records, after trying to load each (load = true) or as they are.
HAL_API std::vector<PluginRecord> plugin_records(bool load);
// The plugin with HAL_ROLE_HOST. Throws if there is none or more than one.
HAL_API std::shared_ptr<Plugin> host_plugin();

// Calls deinit of every loaded plugin but those in `busy`, whose work is not done. Part of shutdown(): the other devices are closed.
HAL_API void deinit_plugins(const std::vector<std::string> &busy);

// The table handed to plugins.
HAL_API const hal_host_api *host_api();

}  // namespace hal
