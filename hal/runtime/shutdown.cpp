// Orderly end: called once at exit, by the Python bindings or by whoever embeds the runtime.
#include <chrono>

#include "allocator.hpp"
#include "device_registry.hpp"
#include "dispatch_internal.hpp"

namespace hal {
namespace {

constexpr uint64_t kPatience = 5'000'000'000;  // ns for all streams together

}  // namespace

void DeviceRegistry::shutdown() {
  {
    std::unique_lock<Mutex> opening(open_mutex_, std::try_to_lock);
    if (!opening.owns_lock() || closed_) return;  // a plugin hangs in open: leave everything to the system
    closed_ = true;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatience);
  std::vector<Device *> devices = all();
  std::vector<std::string> busy;  // plugins whose work doesn't end
  for (auto it = devices.rbegin(); it != devices.rend(); ++it) {
    Device &device = **it;
    const Plugin &plugin = device.plugin();
    bool idle = true;
    for (auto &stream : device.streams()) {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now()).count();
      const hal_status status = plugin.stream.synchronize(stream->handle(), left > 0 ? uint64_t(left) : 0);
      if (status == HAL_ERROR_TIMEOUT) idle = false;
    }
    // Destroying what unfinished work uses would crash: such a device is left to the system.
    if (!idle) {
      device.closed_.store(true, std::memory_order_release);
      busy.push_back(device.id());
      continue;
    }
    device.executables().close();
    std::vector<std::shared_ptr<Stream>> streams = device.streams();
    device.closed_.store(true, std::memory_order_release);
    device.allocator().close();
    for (auto &stream : streams) {
      hal_stream *handle = stream->handle_;
      stream->handle_ = nullptr;
      if (handle) plugin.stream.destroy(handle);
    }
    {
      std::lock_guard<Mutex> lock(device.streams_mutex_);
      device.orphans_.clear();
    }
    plugin.device.close(device.handle_);
  }
  deinit_plugins(busy);
}

void shutdown() {
  BlockingScope blocking;
  close_fallback();
  DeviceRegistry::get().shutdown();
}

}  // namespace hal
