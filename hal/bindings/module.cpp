// The module hal._core.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "bindings.hpp"
#include "device.hpp"

namespace {

// Calls of the runtime that may block give the interpreter lock away, whoever makes them.
//
// A daemon thread that wants the lock back while the interpreter ends would be unwound by pthread_exit, through C++ frames that can't be:
// the process would abort. So from exit on, such a thread stops where it would take the lock.
std::atomic<int> g_outside{0};  // threads that gave the lock away
std::atomic<int> g_hooks{0};    // threads inside hooks of plugins
std::atomic<bool> g_exiting{false}, g_closing{false};
std::thread::id g_exit_thread;

void *enter_blocking() {
  if (!Py_IsInitialized() || !PyGILState_Check() || g_closing) return nullptr;
  ++g_outside;
  return PyEval_SaveThread();
}

void leave_blocking(void *token) {
  if (g_exiting && std::this_thread::get_id() != g_exit_thread) {
    --g_outside;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(static_cast<PyThreadState *>(token));
  --g_outside;
}

bool other_threads() {
  PyThreadState *own = PyThreadState_Get();
  for (PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own)); t != nullptr; t = PyThreadState_Next(t))
    if (t != own) return true;
  return false;
}

// Closes the devices once no other thread is inside the runtime; with the lock held, so that none gets in. If one doesn't come back soon,
// all is left to the system.
void at_exit() {
  g_exit_thread = std::this_thread::get_id();
  g_exiting = true;
  PyThreadState *token = PyEval_SaveThread();
  for (int i = 0; i < 1000 && (g_outside > 0 || g_hooks > 0); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(token);
  if (g_outside > 0 || g_hooks > 0) return;
  // Hooks of a plugin written in Python may give the lock away; so nothing is closed beside daemon threads that could use it.
  if (open_python_devices() > 0 && other_threads()) return;
  g_closing = true;
  hal::shutdown();
}

}  // namespace

bool ends_interpreter() { return g_exiting && std::this_thread::get_id() == g_exit_thread; }
void stop_if_exiting() {
  if (ends_interpreter() || !(g_exiting || !Py_IsInitialized())) return;
  if (!Py_IsInitialized() || !PyGILState_Check())
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}
void count_hook(int change) { g_hooks += change; }

PYBIND11_MODULE(_core, m) {
  m.doc() = "Bindings of libhal; use it through the package hal.";
  hal::set_blocking_hooks(&enter_blocking, &leave_blocking);
  pthread_atfork(nullptr, nullptr, [] { g_outside = g_hooks = 0; });  // the other threads don't exist in the child
  bind_errors(m);
  bind_device(m);
  bind_stream(m);
  bind_array(m);
  bind_run(m);
  bind_settings(m);
  bind_bench(m);
  bind_loader(m);
  bind_plugin(m);
  bind_plugin_kernels(m);
  m.def("shutdown", &hal::shutdown, "Waits for all work (some seconds at most) and closes all devices. Runs at exit.");
  py::module_::import("atexit").attr("register")(py::cpp_function(&at_exit));
}
