// Bindings of the loader, the op table as the runtime sees it, and the thread pool.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "ceiling.hpp"
#include "device.hpp"
#include "op_table.hpp"
#include "plugin_loader.hpp"
#include "thread_pool.hpp"

namespace py = pybind11;

namespace {

py::list dtype_names(uint32_t mask) {
  py::list names;
  for (hal_dtype d = 1; d < HAL_DTYPE_COUNT; ++d)
    if ((mask & HAL_DTYPE_BIT(d)) != 0) names.append(hal::dtype_name(d));
  return names;
}

py::list optional_tables(const hal::Plugin &plugin) {
  py::list names;
  const std::pair<const char *, bool> tables[] = {{"layout", plugin.has_layout},     {"graph", plugin.has_graph},
                                                  {"peer", plugin.has_peer},         {"profiler", plugin.has_profiler},
                                                  {"compiler", plugin.has_compiler}, {"collective", plugin.has_collective}};
  for (const auto &[name, present] : tables)
    if (present) names.append(name);
  return names;
}

py::dict to_dict(const hal::PluginRecord &record) {
  py::dict out;
  out["id"] = record.id;
  out["origin"] = record.origin;
  out["available"] = record.available;
  out["loaded"] = record.loaded;
  out["reason"] = record.reason;
  out["device_count"] = record.device_count;
  out["is_host"] = (record.roles & HAL_ROLE_HOST) != 0;
  if (record.plugin == nullptr) return out;
  const hal::Plugin &plugin = *record.plugin;
  out["version"] = plugin.version;
  out["abi"] = std::to_string(plugin.abi_major) + "." + std::to_string(plugin.abi_minor);
  out["opset"] = plugin.opset;
  out["optional_tables"] = optional_tables(plugin);
  return out;
}

py::list plugin_records(bool load) {
  hal::run_discovery();
  std::vector<hal::PluginRecord> records;
  {
    const hal::BlockingScope release;
    records = hal::plugin_records(load);
  }
  py::list out;
  for (const hal::PluginRecord &record : records) out.append(to_dict(record));
  return out;
}

py::list device_kernels(const std::string &name) {
  hal::Device &device = hal::device(name);
  py::list out;
  for (const hal_kernel_info &row : device.kernels()) {
    py::dict entry;
    entry["op"] = row.op;
    entry["dtypes"] = dtype_names(row.dtypes);
    entry["numerics"] = row.numerics == HAL_NUMERICS_REPRODUCIBLE ? "reproducible" : "fast";
    entry["origin"] = row.origin == HAL_KERNEL_NATIVE ? "native" : "portable";
    out.append(entry);
  }
  return out;
}

py::list op_table() {
  py::list out;
  for (uint32_t id = 0; id < hal::op_count(); ++id) {
    const hal::OpInfo &op = hal::op_info(id);
    py::dict entry;
    entry["name"] = op.name;
    entry["category"] = op.category;
    entry["numerics"] = op.numerics;
    entry["dtypes"] = dtype_names(op.dtypes);
    entry["primary"] = op.primary;
    out.append(entry);
  }
  return out;
}

// The callable lives as long as the process: the runtime may outlive the interpreter.
void set_discovery(const py::function &discover) {
  auto *kept = new py::function(discover);
  hal::set_discovery([kept] {
    py::gil_scoped_acquire gil;
    (*kept)();
  });
}

}  // namespace

void bind_loader(py::module_ &m) {
  m.attr("ABI_VERSION") = std::to_string(HAL_ABI_MAJOR) + "." + std::to_string(HAL_ABI_MINOR);
  m.def("set_discovery", &set_discovery, py::arg("discover"),
        "Callable without arguments that registers what it finds; called once, late.");
  m.def("register_library", &hal::register_library, py::arg("id"), py::arg("path"), py::call_guard<hal::BlockingScope>(),
        "Registers a plugin library without loading it.");
  m.def("register_failure", &hal::register_failure, py::arg("id"), py::arg("origin"), py::arg("reason"),
        py::call_guard<hal::BlockingScope>(), "Lists a plugin that was found but can't be registered.");
  m.def(
      "register_tables",
      [](uintptr_t api, const std::string &origin) { hal::register_tables(reinterpret_cast<const hal_plugin_api *>(api), origin); },
      py::arg("api"), py::arg("origin"), py::call_guard<hal::BlockingScope>(),
      "Registers a hal_plugin_api at this address; it must stay valid as long as the process.");
  m.def("plugin_records", &plugin_records, py::arg("load") = true, "What is known of each plugin; load=True tries to load each.");
  m.def("device_kernels", &device_kernels, py::arg("name"), "The kernel registry of a device (opens it).");
  m.def("op_table", &op_table, "Ops that the runtime knows, plugins' own included.");
  m.def("set_num_threads", &hal::set_num_threads, py::arg("n"), py::call_guard<hal::BlockingScope>(),
        "Size of the thread pool for host kernels, n >= 1; waits for running loops.");
  m.def("get_num_threads", &hal::num_threads, "Size of the thread pool: HAL_NUM_THREADS, else the CPUs that this process may use.");
  m.def("host_bandwidth", &host_bandwidth, py::arg("pattern"), py::arg("bytes"), py::arg("repeats"), py::call_guard<hal::BlockingScope>(),
        "Bytes per second of host memory, the best of `repeats`: pattern 'read', 'copy' (read + write) or 'triad' (2 reads + write) over\n"
        "arrays of `bytes` each, on the thread pool. A loop of its own, no plugin takes part.");
  m.def("host_flops", &host_flops, py::arg("dtype"), py::arg("repeats"), py::call_guard<hal::BlockingScope>(),
        "Floating-point operations per second of independent multiply-adds ('f32' or 'f64') in registers, the best of `repeats`,\n"
        "with the widest instructions of this CPU, on the thread pool.");
}
