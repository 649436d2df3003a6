// hal::Error as Python exceptions. The translator is registered for the process, so other extension modules that link libhal get it too.
#include "bindings.hpp"

namespace {

PyObject *g_by_status[HAL_ERROR_INDEX + 1];
PyObject *g_error;

PyObject *make(py::module_ &m, const char *attribute, const char *name, PyObject *builtin, const char *doc) {
  py::tuple bases = py::make_tuple(py::handle(g_error));
  if (builtin) bases = py::make_tuple(py::handle(g_error), py::handle(builtin));
  PyObject *type = PyErr_NewExceptionWithDoc(name, doc, bases.ptr(), nullptr);
  if (!type) throw py::error_already_set();
  m.add_object(attribute, py::reinterpret_borrow<py::object>(type));
  return type;  // one reference is kept for good
}

PyObject *python_type(const hal::Error &error) {
  switch (error.kind()) {
    case hal::ErrorKind::Value:  // a ValueError and, as PyTorch's users expect, a RuntimeError
      return g_by_status[HAL_ERROR_INVALID_ARGUMENT];
    case hal::ErrorKind::Type:
      return PyExc_TypeError;
    case hal::ErrorKind::Index:
      return PyExc_IndexError;
    case hal::ErrorKind::NotImplemented:
      return PyExc_NotImplementedError;
    case hal::ErrorKind::Status:
      break;
  }
  const hal_status s = error.status();
  return s > 0 && s <= HAL_ERROR_INDEX && g_by_status[s] ? g_by_status[s] : g_error;
}

}  // namespace

hal_status status_of_python_type(PyObject *type) {
  for (hal_status s = 0; s <= HAL_ERROR_ABI_MISMATCH; ++s)
    if (g_by_status[s] && PyObject_IsSubclass(type, g_by_status[s]) == 1) return s;
  return HAL_OK;
}

void bind_errors(py::module_ &m) {
  g_error = PyErr_NewExceptionWithDoc("hal.Error", "What a device or the runtime reports.", PyExc_RuntimeError, nullptr);
  if (!g_error) throw py::error_already_set();
  m.add_object("Error", py::reinterpret_borrow<py::object>(g_error));
  auto add = [&](hal_status status, const char *attribute, const char *name, PyObject *builtin, const char *doc) {
    g_by_status[status] = make(m, attribute, name, builtin, doc);
  };
  add(HAL_ERROR_INVALID_ARGUMENT, "InvalidArgumentError", "hal.InvalidArgumentError", PyExc_ValueError, "The caller broke the contract.");
  add(HAL_ERROR_OUT_OF_MEMORY, "OutOfMemoryError", "hal.OutOfMemoryError", PyExc_MemoryError,
      "No device memory, or the set limit is reached.");
  add(HAL_ERROR_UNSUPPORTED, "UnsupportedError", "hal.UnsupportedError", PyExc_NotImplementedError,
      "A legal request that the device doesn't serve.");
  add(HAL_ERROR_DEVICE_LOST, "DeviceLostError", "hal.DeviceLostError", nullptr, "The device is gone until it is reset.");
  add(HAL_ERROR_TIMEOUT, "TimeoutError_", "hal.TimeoutError", PyExc_TimeoutError, "A wait ran past its limit; the work goes on.");
  add(HAL_ERROR_LAUNCH_FAILED, "LaunchFailedError", "hal.LaunchFailedError", nullptr, "Asynchronous work failed.");
  add(HAL_ERROR_UNAVAILABLE, "UnavailableError", "hal.UnavailableError", nullptr, "Driver, library or hardware is missing.");
  add(HAL_ERROR_INTERNAL, "InternalError", "hal.InternalError", nullptr, "A fault of the plugin itself.");
  add(HAL_ERROR_ABI_MISMATCH, "AbiMismatchError", "hal.AbiMismatchError", nullptr, "Plugin and runtime can't work together.");
  add(HAL_ERROR_INDEX, "OutOfRangeError", "hal.OutOfRangeError", PyExc_IndexError, "An index or target points outside of what it indexes.");
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const hal::Error &error) {
      if (!raise_with_cause(python_type(error), error.what())) PyErr_SetString(python_type(error), error.what());
    }
  });
}
