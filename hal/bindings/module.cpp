// The module hal._core.
#include "bindings.hpp"
#include "device.hpp"

namespace {

// Calls of the runtime that may block give the interpreter lock away, whoever makes them.
void *enter_blocking() {
  if (!Py_IsInitialized() || !PyGILState_Check()) return nullptr;
  return PyEval_SaveThread();
}
void leave_blocking(void *token) { PyEval_RestoreThread(static_cast<PyThreadState *>(token)); }

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "Bindings of libhal; use it through the package hal.";
  hal::set_blocking_hooks(&enter_blocking, &leave_blocking);
  bind_errors(m);
  bind_device(m);
  bind_stream(m);
  bind_array(m);
  bind_run(m);
  bind_settings(m);
  bind_bench(m);
  bind_loader(m);
  m.def("shutdown", &hal::shutdown, "Waits for all work (some seconds at most) and closes all devices. Runs at exit.");
  py::module_::import("atexit").attr("register")(m.attr("shutdown"));
}
