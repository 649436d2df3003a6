// Finds the plugin that serves as host: by path, among the libraries of this process, or beside us in a folder devices/.
#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <cstdlib>
#include <stdexcept>

#include "trap.hpp"

namespace trap {
namespace {

std::string path_of(const void *symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// The tables behind a library, if it is a plugin with the host's role; nullptr else.
const hal_plugin_api *host_tables(const std::string &path, int flags, std::string &reason) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (library == nullptr) {
    reason = dlerror();
    return nullptr;
  }
  const auto entry = reinterpret_cast<hal_plugin_entry_fn>(dlsym(library, HAL_PLUGIN_ENTRY_NAME));
  const hal_plugin_api *api = nullptr;
  if (entry == nullptr || path_of(reinterpret_cast<const void *>(entry)) == path_of(reinterpret_cast<const void *>(&path_of)) ||
      entry(state().runtime, &api) != HAL_OK || (api->roles & HAL_ROLE_HOST) == 0) {
    reason = path + " is no plugin with the host's role";
    return nullptr;
  }
  return api;
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *out) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/')
          static_cast<std::vector<std::string> *>(out)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

std::vector<std::string> neighbours() {
  std::vector<std::string> paths;
  const std::string own = path_of(reinterpret_cast<const void *>(&path_of));
  const std::string folder = own.substr(0, own.rfind('/'));
  glob_t found{};
  if (glob((folder + "/../../devices/*/libhal_*.so").c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  return paths;
}

const hal_plugin_api *find_host(const std::string &path) {
  std::string reason;
  if (!path.empty()) {
    const hal_plugin_api *api = host_tables(path, 0, reason);
    if (api == nullptr) throw std::runtime_error("[trap] no host plugin: " + reason);
    return api;
  }
  for (const std::string &loaded : loaded_libraries())
    if (const hal_plugin_api *api = host_tables(loaded, RTLD_NOLOAD, reason)) return api;
  for (const std::string &neighbour : neighbours()) {
    const hal_plugin_api *api = host_tables(neighbour, 0, reason);
    if (api == nullptr) continue;
    if (api->init == nullptr || api->init() == HAL_OK) return api;
  }
  throw std::runtime_error("[trap] no host plugin found: load one first, or name its library in HAL_TRAP_HOST");
}

}  // namespace

Host open_host(const std::string &path) {
  const char *environment = std::getenv("HAL_TRAP_HOST");
  Host host;
  host.api = find_host(!path.empty() ? path : environment != nullptr ? environment : "");
  if (!HAL_HAS_FIELD(host.api->memory, hal_memory_api, adopt) || host.api->memory->adopt == nullptr)
    throw std::runtime_error("[trap] the host plugin can't adopt memory");
  if (host.api->device->open(0, "", &host.device) != HAL_OK) throw std::runtime_error("[trap] the host plugin's device can't be opened");
  return host;
}

}  // namespace trap
