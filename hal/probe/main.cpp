// hal_probe PATH: loads one plugin the way the runtime would, in a process of its own, and writes to file descriptor 3 what it found.
// Lines: `stage NAME` before each step, then `fail TEXT` or facts as `key value` and at last `ok`. The runtime (probe.cpp) reads them;
// a plugin that crashes, exits or hangs leaves its stage behind.
#include <dlfcn.h>
#include <hal/plugin.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace {

constexpr int kReport = 3;
std::string error_text;

void report(const std::string &key, std::string value) {
  std::replace(value.begin(), value.end(), '\n', ' ');
  const std::string line = key + ' ' + value + '\n';
  const char *p = line.data();
  size_t left = line.size();
  while (left > 0) {
    const ssize_t n = write(kReport, p, left);
    if (n <= 0) _exit(2);
    p += n;
    left -= static_cast<size_t>(n);
  }
}

[[noreturn]] void fail(const std::string &text) {
  report("fail", text);
  _exit(0);
}

std::string reason(hal_status status) { return error_text.empty() ? "status " + std::to_string(status) : error_text; }

void set_error_text(const char *text) { error_text = text != nullptr ? text : ""; }
void parallel_for(int64_t n, int64_t, hal_loop_body body, void *context) {
  if (n > 0) body(context, 0, n);
}
int32_t num_threads() { return 1; }
void log_nothing(int32_t, const char *) {}

const hal_host_api host = {sizeof(hal_host_api), HAL_ABI_MAJOR, HAL_ABI_MINOR, set_error_text, parallel_for, num_threads, log_nothing};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: hal_probe PATH 3>REPORT (the runtime calls it)\n");
    return 2;
  }
  const rlimit no_core{0, 0};  // a crash here is an answer, not something to debug
  setrlimit(RLIMIT_CORE, &no_core);

  report("stage", "dlopen");
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(dlerror());
  auto entry = reinterpret_cast<hal_plugin_entry_fn>(dlsym(library, HAL_PLUGIN_ENTRY_NAME));
  if (entry == nullptr) fail("it doesn't export " HAL_PLUGIN_ENTRY_NAME ": not a hal plugin");

  report("stage", HAL_PLUGIN_ENTRY_NAME);
  const hal_plugin_api *api = nullptr;
  hal_status status = entry(&host, &api);
  if (status != HAL_OK) fail(std::string(HAL_PLUGIN_ENTRY_NAME) + ": " + reason(status));
  if (!HAL_HAS_FIELD(api, hal_plugin_api, deinit)) fail("its plugin table is NULL or too short");
  report("abi", std::to_string(api->abi_major) + "." + std::to_string(api->abi_minor));
  report("id", api->id != nullptr ? api->id : "");
  report("version", api->version != nullptr ? api->version : "");
  report("roles", std::to_string(api->roles));
  // Tables that the runtime will refuse with a better text must not be used here.
  if (api->abi_major != HAL_ABI_MAJOR || !HAL_HAS_FIELD(api, hal_plugin_api, device) ||
      !HAL_HAS_FIELD(api->device, hal_device_api, count) || api->device->count == nullptr) {
    report("ok", "");
    _exit(0);
  }

  report("stage", "init");
  if (api->init != nullptr) {
    status = api->init();
    if (status != HAL_OK) fail("init: " + reason(status));
  }
  report("stage", "device.count");
  uint32_t count = 0;
  status = api->device->count(&count);
  if (status != HAL_OK) fail("device.count: " + reason(status));
  report("devices", std::to_string(count));
  report("stage", "deinit");
  if (api->deinit != nullptr) api->deinit();
  report("ok", "");
  _exit(0);
}
