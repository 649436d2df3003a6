// The one device: this machine's CPUs and memory.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "internal.hpp"

namespace cpu {
namespace {

uint64_t total_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? uint64_t(pages) * uint64_t(size) : 0;
}

// The value of the first line of /proc that starts with `key`, or "".
std::string proc_value(const char *file, const std::string &key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

uint64_t free_memory() {
  const std::string text = proc_value("/proc/meminfo", "MemAvailable");
  unsigned long long kib = 0;
  if (std::sscanf(text.c_str(), "%llu", &kib) == 1) return uint64_t(kib) * 1024;
  const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? uint64_t(pages) * uint64_t(size) : 0;
}

hal_status count(uint32_t *out) {
  *out = 1;
  return HAL_OK;
}

// The value of isa=..., the only option; "" if it isn't given.
std::string parse_options(const char *options) {
  std::string isa;
  std::string rest = options == nullptr ? "" : options;
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string item = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (item.compare(0, 4, "isa=") != 0 || item.size() == 4)
      throw Invalid("unknown device option: got '" + item + "', expected isa=<instruction set>");
    isa = item.substr(4);
  }
  return isa;
}

hal_status open(uint32_t ordinal, const char *options, hal_device **out) {
  if (ordinal != 0) return fail(HAL_ERROR_INVALID_ARGUMENT, "no such device: got cpu:" + std::to_string(ordinal) + ", expected cpu:0");
  return guarded([&] {
    auto device = std::make_unique<hal_device>();
    try {
      device->isa = &select_isa(parse_options(options));
    } catch (const IsaUnavailable &e) {
      return fail(HAL_ERROR_UNAVAILABLE, e.what());
    }
    *out = device.release();
    return hal_status{HAL_OK};
  });
}

void close(hal_device *device) {
  {
    std::unique_lock<std::mutex> lock(device->mutex);
    device->orphan_done.wait(lock, [&] { return device->orphans == 0; });
  }
  delete device;
}

void copy_text(char *out, size_t size, const std::string &text) { std::snprintf(out, size, "%s", text.c_str()); }

hal_status properties(hal_device *device, hal_device_properties *out) {
  return guarded([&] {
    hal_device_properties p{};
    p.struct_size = out->struct_size;
    const long units = sysconf(_SC_NPROCESSORS_ONLN);
    p.compute_units = units > 0 ? uint32_t(units) : 1;
    std::string name = proc_value("/proc/cpuinfo", "model name");
    copy_text(p.name, sizeof p.name, name.empty() ? "CPU" : name);
    const std::string vendor = proc_value("/proc/cpuinfo", "vendor_id");
    copy_text(p.vendor, sizeof p.vendor, vendor.empty() ? "unknown" : vendor);
    copy_text(p.driver, sizeof p.driver, "kernels: " + device->isa->name);
    p.capabilities = HAL_CAP_FMA | HAL_CAP_SUBNORMALS | HAL_CAP_ROUNDED_DIV_SQRT | HAL_CAP_F64 | HAL_CAP_HOST_VISIBLE |
                     HAL_CAP_EVENT_TIMING | HAL_CAP_ASYNC | HAL_CAP_HOST_SIGNAL;
    p.total_memory = total_memory();
    p.max_allocation = 0;
    p.memory_alignment = 64;
    p.offset_alignment = 1;
    std::memcpy(out, &p, out->struct_size < sizeof p ? out->struct_size : sizeof p);
    return hal_status{HAL_OK};
  });
}

hal_status memory_info(hal_device *, uint64_t *free_bytes, uint64_t *total_bytes) {
  return guarded([&] {
    *free_bytes = free_memory();
    *total_bytes = total_memory();
    return hal_status{HAL_OK};
  });
}

}  // namespace

const hal_device_api device_api = {sizeof(hal_device_api), count, open, close, properties, memory_info, nullptr, nullptr};

}  // namespace cpu
