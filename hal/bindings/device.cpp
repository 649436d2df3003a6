// hal.Device.
#include "device.hpp"

#include "bindings.hpp"

namespace {

const char *const kCapabilities[] = {
    "fma",      "subnormals",     "rounded_div_sqrt", "f64", "host_visible", "event_timing", "async", "host_signal",
    "emulated", "simulated_time", "concurrent_submit"};

py::dict properties(const hal::Device &device) {
  const hal_device_properties &p = device.properties();
  py::dict out;
  out["name"] = std::string(p.name, strnlen(p.name, sizeof(p.name)));
  out["vendor"] = std::string(p.vendor, strnlen(p.vendor, sizeof(p.vendor)));
  out["driver"] = std::string(p.driver, strnlen(p.driver, sizeof(p.driver)));
  out["compute_units"] = p.compute_units;
  out["total_memory"] = p.total_memory;
  out["max_allocation"] = p.max_allocation;
  out["memory_alignment"] = p.memory_alignment;
  out["offset_alignment"] = p.offset_alignment;
  py::list capabilities;
  for (size_t i = 0; i < sizeof(kCapabilities) / sizeof(kCapabilities[0]); ++i)
    if (p.capabilities >> i & 1) capabilities.append(kCapabilities[i]);
  out["capabilities"] = capabilities;
  return out;
}

py::dict memory_stats(hal::Device &device) {
  const hal::AllocatorStats s = device.allocator().stats();
  py::dict out;
  out["allocated"] = s.allocated;
  out["reserved"] = s.reserved;
  out["peak_allocated"] = s.peak_allocated;
  out["peak_reserved"] = s.peak_reserved;
  out["allocations"] = s.allocations;
  out["raw_allocations"] = s.raw_allocations;
  out["retries"] = s.retries;
  return out;
}

}  // namespace

hal::Device &device_argument(const py::object &device) {
  if (device.is_none()) return hal::host_device();
  if (py::isinstance<py::str>(device)) return hal::device(device.cast<std::string>());
  if (py::isinstance<hal::Device>(device)) return device.cast<hal::Device &>();
  throw hal::Error(hal::ErrorKind::Type, "[device] expected a device string, a hal.Device or None, got " +
                                             std::string(py::str(py::type::of(device).attr("__name__"))));
}

void bind_device(py::module_ &m) {
  py::class_<hal::Device, std::unique_ptr<hal::Device, py::nodelete>>(m, "Device",
                                                                      "An open device. The same name always gives the same object.")
      .def_property_readonly("name", &hal::Device::name)
      .def_property_readonly("id", &hal::Device::id)
      .def_property_readonly("type", &hal::Device::id)
      .def_property_readonly("index", &hal::Device::index)
      .def_property_readonly("is_host", &hal::Device::is_host)
      .def_property_readonly("properties", &properties)
      .def_property_readonly("default_stream", [](hal::Device &d) { return d.default_stream().shared_from_this(); })
      .def_property_readonly("current_stream", [](hal::Device &d) { return d.current_stream().shared_from_this(); })
      .def("synchronize", &hal::Device::synchronize, "Waits for all streams; raises the first failure behind them.")
      .def("memory_stats", &memory_stats, "Bytes and counts of the caching allocator.")
      .def(
          "memory_info",
          [](hal::Device &d) {
            uint64_t free_bytes = 0, total = 0;
            d.memory_info(free_bytes, total);
            return py::make_tuple(free_bytes, total);
          },
          "(free, total) bytes, as the device sees them.")
      .def(
          "empty_cache", [](hal::Device &d) { d.allocator().empty_cache(); }, "Gives cached memory back to the device.")
      .def(
          "set_memory_limit", [](hal::Device &d, uint64_t n) { d.allocator().set_limit(n); }, py::arg("bytes"),
          "Most bytes that the allocator may take from the device; 0: no limit.")
      .def(
          "_fail_allocation", [](hal::Device &d, uint64_t n) { d.allocator().fail_allocation(n); }, py::arg("n"),
          "For tests: the n-th allocation from now on raises OutOfMemoryError (1: the next); 0 forgets it.")
      .def("reset_peak_memory_stats", [](hal::Device &d) { d.allocator().reset_peak(); })
      .def("executable_cache_stats",
           [](hal::Device &d) {
             const hal::ExecutableCacheStats s = hal::executable_cache_stats(d);
             py::dict out;
             out["hits"] = s.hits;
             out["misses"] = s.misses;
             out["evictions"] = s.evictions;
             out["size"] = s.size;
             out["capacity"] = s.capacity;
             return out;
           })
      .def(
          "set_executable_cache_capacity", [](hal::Device &d, uint64_t n) { hal::set_executable_cache_capacity(d, n); },
          py::arg("capacity"))
      .def("__repr__", [](const hal::Device &d) { return "hal.device('" + d.name() + "')"; })
      .def("__str__", &hal::Device::name);
  m.def(
      "device", [](const py::object &name) -> hal::Device & { return device_argument(name); }, py::arg("name"),
      py::return_value_policy::reference,
      "Opens (once) the device with this name: 'id', 'id:index' or 'id:index?options'. ValueError names what exists.");
  m.def("host_device", &hal::host_device, py::return_value_policy::reference,
        "The device that serves as host: default, and target of fallback.");
}
