// Devices and memory of plugins written in Python, and their registration: the tables that the runtime sees.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <hal/ops.h>
#include "device.hpp"
#include "plugin_loader.hpp"

#include "plugin_python.hpp"

HookCall::HookCall() : main_(ends_interpreter()) {
  stop_if_exiting();
  if (!main_) count_hook(1);
  state_ = PyGILState_Ensure();
  PyErr_Fetch(&type_, &value_, &trace_);
}

HookCall::~HookCall() {
  PyErr_Restore(type_, value_, trace_);
  PyGILState_Release(state_);
  if (!main_) count_hook(-1);
}

void PyRef::reset() {
  if (p_ == nullptr) return;
  if (!Py_IsInitialized()) return;
  HookCall hook;
  Py_DECREF(std::exchange(p_, nullptr));
}

namespace {

constexpr size_t kMaxPlugins = 256;
PythonPlugin *g_plugins[kMaxPlugins];
size_t g_plugin_count = 0;
std::atomic<int> g_open{0};  // devices

using Object = py::object;
Object steal(PyObject *p) { return py::reinterpret_steal<Object>(p); }
Object number(uint64_t x) { return steal(PyLong_FromUnsignedLongLong(x)); }

// --- the device table: count and open come without a handle, so each plugin has entries of its own -----------------------------------

const char *const kCapabilities[] = {"fma",          "subnormals", "rounded_div_sqrt", "f64",      "host_visible",
                                     "event_timing", "async",      "host_signal",      "emulated", "simulated_time"};

void copy_text(const py::dict &from, const char *key, char *to, size_t size) {
  if (!from.contains(key)) return;
  const std::string text = py::str(from[key]);
  std::snprintf(to, size, "%s", text.c_str());
}

template <class T>
void copy_number(const py::dict &from, const char *key, T &to) {
  if (from.contains(key)) to = from[key].cast<T>();
}

// What the hook `devices` says, one dict per device.
py::list describe_devices(const PythonPlugin &plugin) {
  Object result = steal(call(plugin.hooks.devices, {}));
  if (!result) throw py::error_already_set();
  return py::list(result);
}

hal_device_properties read_properties(const PythonPlugin &plugin, const py::dict &from) {
  hal_device_properties p{};
  p.struct_size = sizeof p;
  p.memory_alignment = p.offset_alignment = 1;
  copy_text(from, "name", p.name, sizeof p.name);
  copy_text(from, "vendor", p.vendor, sizeof p.vendor);
  copy_text(from, "driver", p.driver, sizeof p.driver);
  copy_number(from, "compute_units", p.compute_units);
  copy_number(from, "total_memory", p.total_memory);
  copy_number(from, "max_allocation", p.max_allocation);
  copy_number(from, "memory_alignment", p.memory_alignment);
  copy_number(from, "offset_alignment", p.offset_alignment);
  // What the queues here give to every plugin.
  p.capabilities = HAL_CAP_ASYNC | HAL_CAP_HOST_SIGNAL | HAL_CAP_CONCURRENT_SUBMIT;
  if (!plugin.asynchronous() || plugin.hooks.marker_time != nullptr) p.capabilities |= HAL_CAP_EVENT_TIMING;
  if (plugin.hooks.host_address != nullptr) p.capabilities |= HAL_CAP_HOST_VISIBLE;
  if (from.contains("capabilities"))
    for (const auto &item : from["capabilities"].cast<py::sequence>()) {
      const std::string name = item.cast<std::string>();
      const auto *found = std::find(std::begin(kCapabilities), std::end(kCapabilities), name);
      if (found == std::end(kCapabilities)) throw py::value_error("devices(): unknown capability '" + name + "'");
      p.capabilities |= uint64_t(1) << (found - kCapabilities);
    }
  return p;
}

// Runs `body` as a hook; whatever Python or pybind11 throws becomes the status.
template <class Body>
hal_status guarded(const char *hook_name, Body &&body) {
  HookCall hook;
  try {
    body();
    return HAL_OK;
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return take_exception(hook_name);
}

template <size_t I>
hal_status device_count(uint32_t *out) {
  return guarded("devices", [&] { *out = uint32_t(describe_devices(*g_plugins[I]).size()); });
}

hal_status open_device(PythonPlugin &plugin, uint32_t ordinal, const char *options, hal_device **out) {
  return guarded("open", [&] {
    const py::list all = describe_devices(plugin);
    if (ordinal >= all.size()) throw py::index_error("device " + std::to_string(ordinal) + " of " + std::to_string(all.size()));
    auto device = std::make_unique<hal_device>();
    device->plugin = &plugin;
    device->ordinal = ordinal;
    device->properties = read_properties(plugin, all[ordinal].cast<py::dict>());
    const Object index = number(ordinal);
    const py::str text(options);
    device->object = call(plugin.hooks.open, {index.ptr(), text.ptr()});
    if (device->object == nullptr) throw py::error_already_set();
    *out = device.release();
    ++g_open;
  });
}

template <size_t I>
hal_status device_open(uint32_t ordinal, const char *options, hal_device **out) {
  return open_device(*g_plugins[I], ordinal, options, out);
}

using CountFn = hal_status (*)(uint32_t *);
using OpenFn = hal_status (*)(uint32_t, const char *, hal_device **);

template <size_t... I>
constexpr std::array<CountFn, sizeof...(I)> count_entries(std::index_sequence<I...>) {
  return {device_count<I>...};
}
template <size_t... I>
constexpr std::array<OpenFn, sizeof...(I)> open_entries(std::index_sequence<I...>) {
  return {device_open<I>...};
}
constexpr auto kCount = count_entries(std::make_index_sequence<kMaxPlugins>{});
constexpr auto kOpen = open_entries(std::make_index_sequence<kMaxPlugins>{});

// A hook whose failure nobody can be told about.
void call_for_effect(PyObject *hook, std::initializer_list<PyObject *> arguments) {
  PyObject *result = call(hook, arguments);
  if (result == nullptr) PyErr_WriteUnraisable(hook);
  Py_XDECREF(result);
}

void device_close(hal_device *device) {
  HookCall hook;
  call_for_effect(device->hooks().close, {device->object});
  Py_DECREF(device->object);
  delete device;
  --g_open;
}

hal_status device_properties(hal_device *device, hal_device_properties *out) {
  const uint32_t size = out->struct_size;
  hal_device_properties copy = device->properties;
  copy.struct_size = size;
  std::memcpy(static_cast<void *>(out), &copy, std::min<size_t>(size, sizeof copy));
  return HAL_OK;
}

hal_status device_memory_info(hal_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  if (device->hooks().memory_info == nullptr) {
    const uint64_t total = device->properties.total_memory, used = device->allocated;
    *total_bytes = total;
    *free_bytes = total > used ? total - used : 0;
    return HAL_OK;
  }
  return guarded("memory_info", [&] {
    Object result = steal(call(device->hooks().memory_info, {device->object}));
    if (!result) throw py::error_already_set();
    const auto [free_, total] = result.cast<std::pair<uint64_t, uint64_t>>();
    *free_bytes = free_;
    *total_bytes = total;
  });
}

// --- the memory table --------------------------------------------------------------------------------------------------------------

hal_status memory_alloc(hal_device *device, hal_memory_kind kind, uint64_t size, uint64_t alignment, hal_memory **out) {
  if (kind != HAL_MEMORY_DEVICE) {
    hal::set_error_text("plugins written in Python give device memory only");
    return HAL_ERROR_UNSUPPORTED;
  }
  HookCall hook;
  const Object bytes = number(size), align = number(alignment);
  PyObject *object = call(device->hooks().alloc, {device->object, bytes.ptr(), align.ptr()});
  if (object == nullptr) return take_exception("alloc");
  *out = new hal_memory{object, size};
  device->allocated += size;
  return HAL_OK;
}

void memory_free(hal_device *device, hal_memory *memory) {
  HookCall hook;
  call_for_effect(device->hooks().free, {device->object, memory->object});
  device->allocated -= memory->size;
  Py_DECREF(memory->object);
  delete memory;
}

// A view of host memory for the time of one call. Views that a hook keeps become invalid, unless it may copy late.
class HostView {
 public:
  HostView(void *data, uint64_t size, bool writable, bool keep)
      : view_(PyMemoryView_FromMemory(static_cast<char *>(data), Py_ssize_t(size), writable ? PyBUF_WRITE : PyBUF_READ)), keep_(keep) {}
  ~HostView() {
    if (view_ == nullptr) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!keep_) {
      Py_XDECREF(PyObject_CallMethod(view_, "release", nullptr));
      PyErr_Clear();  // an array made of it is still alive: nothing to be done
    }
    Py_DECREF(view_);
    PyErr_Restore(type, value, trace);
  }
  PyObject *get() const { return view_; }

 private:
  PyObject *view_;
  bool keep_;
};

hal_status finish(PyObject *result, const char *hook) {
  if (result == nullptr) return take_exception(hook);
  Py_DECREF(result);
  return HAL_OK;
}

hal_status call_from_host(Queue &queue, hal_buffer dst, const void *src, uint64_t size) {
  HookCall hook;
  const HostView view(const_cast<void *>(src), size, false, false);
  const Object offset = number(dst.offset);
  return finish(call(queue.device->hooks().copy_from_host, {queue.object, dst.memory->object, offset.ptr(), view.get()}), "copy_from_host");
}

hal_status call_to_host(Queue &queue, void *dst, hal_buffer src, uint64_t size) {
  HookCall hook;
  const HostView view(dst, size, true, queue.device->plugin->asynchronous());
  const Object offset = number(src.offset);
  return finish(call(queue.device->hooks().copy_to_host, {queue.object, view.get(), src.memory->object, offset.ptr()}), "copy_to_host");
}

hal_status call_copy(Queue &queue, hal_buffer dst, hal_buffer src, uint64_t size) {
  HookCall hook;
  const Object to = number(dst.offset), from = number(src.offset), bytes = number(size);
  return finish(call(queue.device->hooks().copy, {queue.object, dst.memory->object, to.ptr(), src.memory->object, from.ptr(), bytes.ptr()}),
                "copy");
}

hal_status memory_copy_from_host(hal_stream *stream, hal_buffer dst, const void *src, uint64_t size) {
  Queue &queue = *stream->queue;
  return submit(
      queue, nullptr, [&] { return call_from_host(queue, dst, src, size); },
      [&]() -> Work {
        const char *bytes = static_cast<const char *>(src);
        auto staged = std::make_shared<std::vector<char>>(bytes, bytes + size);
        return [&queue, dst, staged] { return call_from_host(queue, dst, staged->data(), staged->size()); };
      });
}

hal_status memory_copy_to_host(hal_stream *stream, void *dst, hal_buffer src, uint64_t size) {
  Queue &queue = *stream->queue;
  const auto work = [&queue, dst, src, size] { return call_to_host(queue, dst, src, size); };
  return submit(queue, nullptr, work, [&]() -> Work { return work; });
}

hal_status memory_copy(hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size) {
  Queue &queue = *stream->queue;
  const auto work = [&queue, dst, src, size] { return call_copy(queue, dst, src, size); };
  return submit(queue, nullptr, work, [&]() -> Work { return work; });
}

hal_status memory_host_pointer(hal_device *device, hal_memory *memory, void **out) {
  HookCall hook;
  const Object address = steal(call(device->hooks().host_address, {device->object, memory->object}));
  void *value = address ? PyLong_AsVoidPtr(address.ptr()) : nullptr;
  if (PyErr_Occurred()) return take_exception("host_address");
  *out = value;
  return HAL_OK;
}

// --- registration ------------------------------------------------------------------------------------------------------------------

PyObject *take_hook(const py::dict &hooks, const char *name) {
  if (!hooks.contains(name)) return nullptr;
  Object hook = hooks[name];
  return hook.release().ptr();  // kept for good, as the plugin is
}

void fill_tables(PythonPlugin &plugin, size_t slot, bool with_kernels) {
  plugin.device = {sizeof(hal_device_api), kCount[slot],       kOpen[slot], device_close,
                   device_properties,      device_memory_info, nullptr,     nullptr};
  if (plugin.hooks.synchronize != nullptr) plugin.device.synchronize = synchronize_device;
  plugin.memory = {};
  plugin.memory.struct_size = sizeof(hal_memory_api);
  plugin.memory.alloc = memory_alloc;
  plugin.memory.free = memory_free;
  plugin.memory.copy_from_host = memory_copy_from_host;
  plugin.memory.copy_to_host = memory_copy_to_host;
  plugin.memory.copy = memory_copy;
  if (plugin.hooks.host_address != nullptr) plugin.memory.host_pointer = memory_host_pointer;
  hal_plugin_api &api = plugin.api;
  api.struct_size = sizeof api;
  api.abi_major = HAL_ABI_MAJOR;
  api.abi_minor = HAL_ABI_MINOR;
  api.id = plugin.id.c_str();
  api.version = plugin.version.c_str();
  api.opset = with_kernels ? HAL_OPSET_VERSION : 0;
  api.device = &plugin.device;
  api.memory = &plugin.memory;
  api.stream = &kPythonStreamApi;
  api.event = &kPythonEventApi;
  api.kernel = &kPythonKernelApi;
}

// rows: (op, dtype names, fast, contiguous, portable) of each kernel. The plugin lives as long as the process.
void register_plugin(const std::string &id, const std::string &version, const py::dict &hooks, const py::list &rows,
                     const std::string &origin) {
  if (g_plugin_count == kMaxPlugins)
    throw hal::Error(hal::ErrorKind::Value, "[register_plugin] at most 256 plugins written in Python fit into a process");
  auto plugin = std::make_unique<PythonPlugin>();
  plugin->id = id;
  plugin->version = version;
  PluginHooks &h = plugin->hooks;
  const std::pair<const char *, PyObject **> slots[] = {{"devices", &h.devices},
                                                        {"open", &h.open},
                                                        {"close", &h.close},
                                                        {"alloc", &h.alloc},
                                                        {"free", &h.free},
                                                        {"copy_from_host", &h.copy_from_host},
                                                        {"copy_to_host", &h.copy_to_host},
                                                        {"copy", &h.copy},
                                                        {"prepare", &h.prepare},
                                                        {"memory_info", &h.memory_info},
                                                        {"synchronize", &h.synchronize},
                                                        {"host_address", &h.host_address},
                                                        {"create_stream", &h.create_stream},
                                                        {"destroy_stream", &h.destroy_stream},
                                                        {"record", &h.record},
                                                        {"marker_done", &h.marker_done},
                                                        {"wait_marker", &h.wait_marker},
                                                        {"order_after", &h.order_after},
                                                        {"marker_time", &h.marker_time}};
  for (const auto &[name, slot] : slots) *slot = take_hook(hooks, name);
  plugin->row_ops.reserve(rows.size());
  for (const auto &item : rows) {
    const auto row = item.cast<py::tuple>();
    plugin->row_ops.push_back(row[0].cast<std::string>());
    hal_kernel_info info{};
    info.struct_size = sizeof info;
    info.op = plugin->row_ops.back().c_str();
    for (const auto &dtype : row[1].cast<py::sequence>()) info.dtypes |= HAL_DTYPE_BIT(hal::dtype_from_name(dtype.cast<std::string>()));
    info.numerics = row[2].cast<bool>() ? HAL_NUMERICS_FAST : HAL_NUMERICS_REPRODUCIBLE;
    info.flags = row[3].cast<bool>() ? HAL_KERNEL_CONTIGUOUS : 0;
    info.origin = row[4].cast<bool>() ? HAL_KERNEL_PORTABLE : HAL_KERNEL_NATIVE;
    plugin->rows.push_back(info);
  }
  const size_t slot = g_plugin_count;
  fill_tables(*plugin, slot, !plugin->rows.empty());
  g_plugins[slot] = plugin.get();
  {
    const hal::BlockingScope blocking;
    hal::register_tables(&plugin->api, origin);
  }
  ++g_plugin_count;
  plugin.release();
}

}  // namespace

int open_python_devices() { return g_open; }

void bind_plugin(py::module_ &m) {
  m.def("register_python_plugin", &register_plugin, py::arg("id"), py::arg("version"), py::arg("hooks"), py::arg("rows"), py::arg("origin"),
        "Makes a plugin of bound methods; hal.plugin does this. rows: (op, dtypes, fast, contiguous, portable) of each kernel.");
}
