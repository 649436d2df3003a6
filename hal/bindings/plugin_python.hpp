// Plugins written in Python: what the files plugin_*.cpp share. Each table entry of the ABI becomes a call of the plugin's hook.
//
// Streams and events are made here (plugin_queue.cpp): a hook runs on the thread that submits, at once if the stream has nothing before
// it, else on the thread that ends the wait. A plugin whose device works asynchronously adds the hooks of markers.
//
// Two locks, and one rule: the queues' mutex is never held while Python may run, nor while a reference to a Python object is dropped.
#pragma once

#include <hal/hal.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bindings.hpp"
#include "mutex.hpp"

// The interpreter's lock, for a hook. Stops the thread for good where the interpreter is gone (module.cpp says why).
class HookCall {
 public:
  HookCall();
  ~HookCall();
  HookCall(const HookCall &) = delete;
  HookCall &operator=(const HookCall &) = delete;

 private:
  bool main_;  // the thread that ends the interpreter: it isn't counted
  PyGILState_STATE state_;
  hal::HookScope scope_;
  PyObject *type_, *value_, *trace_;  // an exception that was on its way
};

// A reference that any thread may drop.
class PyRef {
 public:
  PyRef() = default;
  explicit PyRef(PyObject *steal) : p_(steal) {}
  PyRef(PyRef &&o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  PyRef &operator=(PyRef &&o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  PyRef(const PyRef &) = delete;
  PyRef &operator=(const PyRef &) = delete;
  ~PyRef() { reset(); }
  void reset();
  static PyRef borrow(PyObject *p) {
    Py_XINCREF(p);
    return PyRef(p);
  }
  PyObject *get() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject *p_ = nullptr;
};

// What went wrong in a hook. The exception becomes the __cause__ of the one that the user gets.
struct Failure {
  hal_status status = HAL_OK;
  std::string text;
  const char *label = nullptr;
  PyRef exception;
};

// Of the Python exception that is set, cleared: status and words; remembers it as cause.
hal_status take_exception(const char *hook);
// The same for work that nobody waits for at the moment.
Failure take_failure(const char *hook, const char *label);
// Drops what was remembered as cause on this thread: work has gone on since. Its frames would keep their variables alive.
void forget_cause();
// The exception that was remembered last on this thread. Call inside a HookCall.
PyRef take_cause();
// Turns the traceback of a failure that is kept into text: its frames reach their callers' variables, among them the stream or event
// that keeps the failure, a circle that no collection sees. Call inside a HookCall.
void detach(const Failure &failure);
// Announces a failure's words and cause on this thread.
void announce(const Failure &failure);

// The hooks of one plugin object: bound methods, nullptr if the plugin hasn't an optional one.
struct PluginHooks {
  PyObject *devices, *open, *close, *alloc, *free, *copy_from_host, *copy_to_host, *copy, *prepare;
  PyObject *memory_info, *synchronize, *host_address;
  PyObject *create_stream, *destroy_stream, *record, *marker_done, *wait_marker, *order_after, *marker_time;
};

struct PythonPlugin {
  std::string id, version;
  PluginHooks hooks{};
  std::vector<std::string> row_ops;
  std::vector<hal_kernel_info> rows;
  hal_plugin_api api{};
  hal_device_api device{};
  hal_memory_api memory{};
  bool asynchronous() const { return hooks.record != nullptr; }
};

struct hal_device {
  PythonPlugin *plugin;
  uint32_t ordinal;
  PyObject *object;  // what `open` returned
  hal_device_properties properties;
  std::atomic<uint64_t> allocated{0};
  std::atomic<bool> dirty{false};  // hooks ran since `synchronize` was called last
  const PluginHooks &hooks() const { return plugin->hooks; }
};

struct hal_memory {
  PyObject *object;
  uint64_t size;
};

// A call into Python that failed gives nullptr with the exception set.
inline PyObject *call(PyObject *hook, std::initializer_list<PyObject *> arguments) {
  return PyObject_Vectorcall(hook, arguments.begin(), arguments.size(), nullptr);
}

// --- queues (plugin_queue.cpp) -----------------------------------------------------------------------------------------------------

struct Queue;

// A point in a queue, which events stand for. Guarded by the queues' mutex until reached; constant after.
struct Point {
  bool reached = false;
  bool timed = false;
  Failure failure;
  PyRef marker;
  uint64_t host_ns = 0;
  hal_device *device = nullptr;
  std::vector<std::weak_ptr<Queue>> waiters;
  std::atomic<bool> done{false};  // the marker has been seen to be done
};

struct Item {
  std::function<hal_status()> work;  // or
  std::shared_ptr<Point> wait, record;
  const char *label = nullptr;
};

struct Queue : std::enable_shared_from_this<Queue> {
  hal_device *device = nullptr;
  PyObject *object = nullptr;  // what `create_stream` returned, else the device's object
  bool own_object = false;
  std::deque<Item> items;  // all from here on: guarded by the queues' mutex
  bool running = false;
  bool waiting = false;  // listed among the waiters of the point at the front
  std::thread::id runner;
  bool submitted = false;  // to the device, since it was last seen idle
  PyRef marker;            // behind all that was submitted, unless `unmarked`
  bool unmarked = false;
  Failure poison, last;
};

struct hal_stream {
  std::shared_ptr<Queue> queue;
};

struct hal_event {
  hal_device *device;
  uint32_t flags;
  std::shared_ptr<Point> point;
};

using Work = std::function<hal_status()>;
// True if work may run now. Else `later` has been made and queued.
bool enter_queue(Queue &queue, const char *label, const std::function<Work()> &later, bool &nested, bool &skip);
void leave_queue(Queue &queue);

// Runs `now` if nothing is before it, else makes `later`, which owns all that it needs, and queues that.
template <class Now, class Later>
hal_status submit(Queue &queue, const char *label, Now &&now, Later &&later) {
  bool nested = false, skip = false;
  if (!enter_queue(queue, label, later, nested, skip)) return HAL_OK;
  const hal_status status = skip ? HAL_OK : now();
  if (status == HAL_OK) forget_cause();
  if (!nested) leave_queue(queue);
  return status;
}

extern const hal_stream_api kPythonStreamApi;
extern const hal_event_api kPythonEventApi;
hal_status synchronize_device(hal_device *device);

// --- kernels (plugin_kernel.cpp) ---------------------------------------------------------------------------------------------------

extern const hal_kernel_api kPythonKernelApi;
