// Devices: as many as asked for, each with the host's arithmetic.
#include <cstdio>
#include <cstring>

#include "trap.hpp"

namespace trap {
namespace {

hal_status count(uint32_t *out) {
  *out = state().devices;
  return HAL_OK;
}

hal_status open(uint32_t ordinal, const char *options, hal_device **out) {
  if (ordinal >= state().devices) return fail(HAL_ERROR_INVALID_ARGUMENT, "[trap] no such device: got trap:" + std::to_string(ordinal));
  return guarded([&] {
    configure(options == nullptr ? "" : options);
    auto device = std::make_unique<hal_device>();
    try {
      device->host = open_host("");
    } catch (const std::runtime_error &e) {
      return fail(HAL_ERROR_UNAVAILABLE, e.what());
    }
    device->ordinal = ordinal;
    *out = device.release();
    return hal_status{HAL_OK};
  });
}

void close(hal_device *device) {
  State &s = state();
  {
    std::unique_lock<std::mutex> lock(s.mutex);
    s.changed.wait(lock, [&] { return device->workers == 0 || device->workers_generation != s.generation; });
  }
  device->host.api->device->close(device->host.device);
  delete device;
}

hal_status properties(hal_device *device, hal_device_properties *out) {
  hal_device_properties p{};
  p.struct_size = sizeof p;
  const hal_status status = device->host.api->device->properties(device->host.device, &p);
  if (status != HAL_OK) return status;
  p.struct_size = out->struct_size;
  std::snprintf(p.name, sizeof p.name, "trap");
  std::snprintf(p.vendor, sizeof p.vendor, "hal");
  std::snprintf(p.driver, sizeof p.driver, "kernels of %s %s", device->host.api->id, device->host.api->version);
  p.capabilities &= HAL_CAP_FMA | HAL_CAP_SUBNORMALS | HAL_CAP_ROUNDED_DIV_SQRT | HAL_CAP_F64;
  p.capabilities |= HAL_CAP_ASYNC | HAL_CAP_HOST_SIGNAL | HAL_CAP_EVENT_TIMING | HAL_CAP_EMULATED;
  p.total_memory = state().memory_limit;
  p.max_allocation = 0;
  p.memory_alignment = 64;
  p.offset_alignment = state().offset_alignment;
  std::memcpy(out, &p, out->struct_size < sizeof p ? out->struct_size : sizeof p);
  return HAL_OK;
}

hal_status memory_info(hal_device *, uint64_t *free_bytes, uint64_t *total_bytes) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  *total_bytes = s.memory_limit;
  *free_bytes = s.memory_limit > s.memory_used ? s.memory_limit - s.memory_used : 0;
  return HAL_OK;
}

}  // namespace

const hal_device_api device_api = {sizeof(hal_device_api), count, open, close, properties, memory_info, nullptr, nullptr};

}  // namespace trap
