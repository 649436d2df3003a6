// Streams and events of plugins written in Python: in-order queues that run hooks, points in them, and the poison of failures.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "device.hpp"
#include "plugin_python.hpp"

namespace {

using Clock = std::chrono::steady_clock;

std::mutex g_mutex;  // of all queues and points: it is held for a few instructions
std::condition_variable g_changed;

uint64_t now_ns() { return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count()); }

Failure copy_of(const Failure &from) {  // call inside a HookCall, or with the interpreter's lock
  Failure out;
  out.status = from.status;
  out.text = from.text;
  out.label = from.label;
  out.exception = PyRef::borrow(from.exception.get());
  return out;
}

// --- what the device does by itself ------------------------------------------------------------------------------------------------

// Waits for what the plugin's hooks have submitted. False and a failure if it went wrong. Call inside a HookCall.
bool flush_device(hal_device *device, Failure &failure) {
  if (device->hooks().synchronize == nullptr || !device->dirty.exchange(false)) return true;
  PyObject *result = call(device->hooks().synchronize, {device->object});
  if (result == nullptr) {
    failure = take_failure("synchronize", nullptr);
    failure.status = failure.status == HAL_ERROR_DEVICE_LOST ? failure.status : HAL_ERROR_LAUNCH_FAILED;
    return false;
  }
  Py_DECREF(result);
  return true;
}

// Failures that come up behind the host's back count as failed launches, unless they say more.
void set_poison(Queue &queue, Failure failure) {
  detach(failure);
  if (failure.status != HAL_ERROR_DEVICE_LOST && failure.status != HAL_ERROR_OUT_OF_MEMORY) failure.status = HAL_ERROR_LAUNCH_FAILED;
  std::lock_guard<std::mutex> lock(g_mutex);
  if (queue.poison.status == HAL_OK) std::swap(queue.poison, failure);
}

enum class Progress { Done, Running };

// Whether the device has done what `marker` stands for; waits if asked. Call inside a HookCall.
Progress check_marker(const PluginHooks &hooks, PyObject *marker, bool wait, Failure &failure) {
  PyObject *result = call(wait ? hooks.wait_marker : hooks.marker_done, {marker});
  const int done = result == nullptr ? -1 : wait ? 1 : PyObject_IsTrue(result);
  Py_XDECREF(result);
  if (done >= 0) return done ? Progress::Done : Progress::Running;
  failure = take_failure(wait ? "wait_marker" : "marker_done", nullptr);
  failure.status = failure.status == HAL_ERROR_DEVICE_LOST ? failure.status : HAL_ERROR_LAUNCH_FAILED;
  return Progress::Done;
}

// Whether the device is done with what the queue submitted. Failures poison the queue.
Progress check_queue(Queue &queue, bool wait) {
  const PluginHooks &hooks = queue.device->hooks();
  if (!queue.device->plugin->asynchronous()) {
    if (hooks.synchronize == nullptr) return Progress::Done;
    HookCall hook;
    Failure failure;
    if (!flush_device(queue.device, failure)) set_poison(queue, std::move(failure));
    return Progress::Done;
  }
  HookCall hook;
  PyObject *marker;
  bool record;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!queue.submitted) return Progress::Done;
    record = queue.unmarked;
    queue.unmarked = false;
    marker = queue.marker.get();
    Py_XINCREF(marker);
  }
  Failure failure;
  if (record) {
    Py_XDECREF(marker);
    marker = call(hooks.record, {queue.object});
    if (marker == nullptr) failure = take_failure("record", nullptr);
    PyRef fresh = PyRef::borrow(marker);
    std::lock_guard<std::mutex> lock(g_mutex);
    std::swap(queue.marker, fresh);
  }
  Progress progress = Progress::Done;
  if (marker != nullptr) progress = check_marker(hooks, marker, wait, failure);
  Py_XDECREF(marker);
  if (progress == Progress::Done) {
    PyRef old;
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!queue.unmarked) {
      queue.submitted = false;
      std::swap(queue.marker, old);
    }
  }
  if (failure.status != HAL_OK) set_poison(queue, std::move(failure));
  return progress;
}

// --- running queues ----------------------------------------------------------------------------------------------------------------

void note_submission(Queue &queue) {
  queue.submitted = queue.unmarked = true;
  queue.device->dirty.store(true, std::memory_order_relaxed);
}

// Call with the mutex held.
void reach(Point &point, std::vector<std::shared_ptr<Queue>> &ready) {
  point.reached = true;
  for (auto &weak : point.waiters)
    if (auto waiter = weak.lock()) {
      waiter->waiting = false;
      ready.push_back(std::move(waiter));
    }
  point.waiters.clear();
}

// Queues that wait for a point that `item` reaches are added to `ready`.
void run_item(Queue &queue, Item &item, std::vector<std::shared_ptr<Queue>> &ready) {
  bool poisoned;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    poisoned = queue.poison.status != HAL_OK;
  }
  const PluginHooks &hooks = queue.device->hooks();
  if (item.work) {
    if (poisoned) return;
    hal::take_error_text();
    const hal_status status = item.work();
    if (status == HAL_OK) return;
    HookCall hook;
    Failure failure;
    failure.status = status;
    failure.text = hal::take_error_text();
    failure.label = item.label;
    failure.exception = take_cause();
    set_poison(queue, std::move(failure));
    return;
  }
  if (item.wait) {
    Point &point = *item.wait;
    if (poisoned || (point.failure.status == HAL_OK && (!point.marker || point.done))) return;
    HookCall hook;
    if (point.failure.status != HAL_OK) return set_poison(queue, copy_of(point.failure));
    PyObject *result = point.device == queue.device && hooks.order_after != nullptr
                           ? call(hooks.order_after, {queue.object, point.marker.get()})
                           : call(point.device->hooks().wait_marker, {point.marker.get()});
    if (result == nullptr) return set_poison(queue, take_failure("order_after", nullptr));
    Py_DECREF(result);
    std::lock_guard<std::mutex> lock(g_mutex);
    note_submission(queue);
    return;
  }
  // Record.
  Point &point = *item.record;
  Failure failure;
  PyRef marker;
  {
    HookCall hook;
    if (poisoned) {
      std::unique_lock<std::mutex> lock(g_mutex);
      PyObject *exception = queue.poison.exception.get();  // stays: only this thread, which runs the queue, could replace it
      failure.status = queue.poison.status;
      failure.text = queue.poison.text;
      failure.label = queue.poison.label;
      Py_XINCREF(exception);
      lock.unlock();
      failure.exception = PyRef(exception);
    } else if (hooks.record != nullptr) {
      PyObject *recorded = call(hooks.record, {queue.object});
      if (recorded == nullptr) failure = take_failure("record", nullptr);
      marker = PyRef(recorded);
    } else if (point.timed) {
      flush_device(queue.device, failure);
    }
    detach(failure);
  }
  std::lock_guard<std::mutex> lock(g_mutex);
  point.failure = std::move(failure);
  point.marker = std::move(marker);
  point.host_ns = now_ns();
  reach(point, ready);
}

void drain_one(Queue &queue, std::vector<std::shared_ptr<Queue>> &ready) {
  for (;;) {
    Item item;
    {
      std::lock_guard<std::mutex> lock(g_mutex);
      if (queue.running || queue.items.empty()) return;
      Item &front = queue.items.front();
      if (front.wait && !front.wait->reached) {
        if (!queue.waiting) front.wait->waiters.push_back(queue.weak_from_this());
        queue.waiting = true;
        return;
      }
      item = std::move(front);
      queue.items.pop_front();
      queue.running = true;
      queue.runner = std::this_thread::get_id();
    }
    run_item(queue, item, ready);
    std::lock_guard<std::mutex> lock(g_mutex);
    if (item.work) note_submission(queue);
    queue.running = false;
  }
}

// Runs what may run, of these queues and of those that wait for them. One thread at a time runs a queue; others leave their items to it.
void drain(std::vector<std::shared_ptr<Queue>> ready) {
  while (!ready.empty()) {
    const std::shared_ptr<Queue> queue = std::move(ready.back());
    ready.pop_back();
    drain_one(*queue, ready);
  }
  g_changed.notify_all();
}

void enqueue(Queue &queue, Item item) {
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    queue.items.push_back(std::move(item));
  }
  drain({queue.shared_from_this()});
}

// Waits until `ready` holds, with the interpreter's lock given away. HAL_ERROR_TIMEOUT if it doesn't in time.
template <class Ready>
hal_status wait_for(Clock::time_point deadline, Ready &&ready) {
  const hal::BlockingScope blocking;
  std::unique_lock<std::mutex> lock(g_mutex);
  if (deadline == Clock::time_point::max()) {
    g_changed.wait(lock, ready);
    return HAL_OK;
  }
  return g_changed.wait_until(lock, deadline, ready) ? HAL_OK : HAL_ERROR_TIMEOUT;
}

Clock::time_point deadline_after(uint64_t timeout_ns) {
  if (timeout_ns > uint64_t(1) << 60) return Clock::time_point::max();
  return Clock::now() + std::chrono::nanoseconds(timeout_ns);
}

// Asks `check(wait)` until it says Done or the time is over.
template <class Check>
hal_status poll(Clock::time_point deadline, Check &&check) {
  if (deadline == Clock::time_point::max()) {
    check(true);
    return HAL_OK;
  }
  for (auto pause = std::chrono::microseconds(20);; pause = std::min(2 * pause, std::chrono::microseconds(1000))) {
    if (check(false) == Progress::Done) return HAL_OK;
    if (Clock::now() >= deadline) return HAL_ERROR_TIMEOUT;
    const hal::BlockingScope blocking;
    std::this_thread::sleep_for(pause);
  }
}

void write_error(const Failure &failure, hal_error_info *out) {
  hal_error_info info{};
  info.struct_size = out->struct_size;
  info.status = failure.status;
  info.label = failure.label;
  std::snprintf(info.text, sizeof info.text, "%s", failure.text.c_str());
  std::memcpy(static_cast<void *>(out), &info, std::min<size_t>(out->struct_size, sizeof info));
}

// --- the stream table --------------------------------------------------------------------------------------------------------------

hal_status stream_create(hal_device *device, int32_t priority, hal_stream **out) {
  auto queue = std::make_shared<Queue>();
  queue->device = device;
  queue->object = device->object;
  if (device->hooks().create_stream != nullptr) {
    HookCall hook;
    PyObject *level = PyLong_FromLong(priority);
    queue->object = call(device->hooks().create_stream, {device->object, level});
    Py_DECREF(level);
    if (queue->object == nullptr) return take_exception("create_stream");
    queue->own_object = true;
  }
  *out = new hal_stream{std::move(queue)};
  return HAL_OK;
}

void stream_destroy(hal_stream *stream) {
  const std::shared_ptr<Queue> queue = std::move(stream->queue);
  delete stream;
  std::deque<Item> dropped;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    dropped.swap(queue->items);
  }
  HookCall hook;
  if (queue->own_object && queue->device->hooks().destroy_stream != nullptr) {
    PyObject *result = call(queue->device->hooks().destroy_stream, {queue->object});
    if (result == nullptr) PyErr_WriteUnraisable(queue->device->hooks().destroy_stream);
    Py_XDECREF(result);
  }
  if (queue->own_object) Py_DECREF(queue->object);
  queue->object = nullptr;
}

hal_status stream_query(hal_stream *stream) {
  Queue &queue = *stream->queue;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (queue.running || !queue.items.empty()) return HAL_NOT_READY;
    if (!queue.submitted) return HAL_OK;
    if (!queue.device->plugin->asynchronous()) queue.submitted = false;
  }
  return check_queue(queue, false) == Progress::Done ? HAL_OK : HAL_NOT_READY;
}

hal_status stream_synchronize(hal_stream *stream, uint64_t timeout_ns) {
  const std::shared_ptr<Queue> kept = stream->queue;
  Queue &queue = *kept;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (queue.running && queue.runner == std::this_thread::get_id()) {
      hal::set_error_text("a plugin's hook waits for the stream that it runs on: it would never end");
      return HAL_ERROR_INVALID_ARGUMENT;
    }
  }
  const Clock::time_point deadline = deadline_after(timeout_ns);
  hal_status status = wait_for(deadline, [&] { return !queue.running && queue.items.empty(); });
  if (status == HAL_OK) status = poll(deadline, [&](bool wait) { return check_queue(queue, wait); });
  if (status != HAL_OK) return status;
  Failure old;  // dropped without the mutex
  std::lock_guard<std::mutex> lock(g_mutex);
  if (queue.poison.status == HAL_OK) return HAL_OK;
  std::swap(queue.last, queue.poison);
  std::swap(old, queue.poison);
  return queue.last.status;
}

hal_status stream_get_error(hal_stream *stream, hal_error_info *out) {
  HookCall hook;
  Failure last;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    last = copy_of(stream->queue->last);
  }
  write_error(last, out);
  if (last.status != HAL_OK) announce(last);
  hal::take_error_text();
  return HAL_OK;
}

hal_status stream_wait_event(hal_stream *stream, hal_event *event) {
  Item item;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    item.wait = event->point;
  }
  if (item.wait) enqueue(*stream->queue, std::move(item));
  return HAL_OK;
}

// --- the event table ---------------------------------------------------------------------------------------------------------------

std::shared_ptr<Point> point_of(hal_event *event) {
  std::lock_guard<std::mutex> lock(g_mutex);
  return event->point;
}

// HAL_OK, HAL_NOT_READY or the poison.
hal_status point_status(Point &point, bool wait) {
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!point.reached) return HAL_NOT_READY;
    if (point.failure.status != HAL_OK) return point.failure.status;
  }
  if (point.done) return HAL_OK;
  Failure failure;
  HookCall hook;
  if (point.marker) {
    if (check_marker(point.device->hooks(), point.marker.get(), wait, failure) == Progress::Running) return HAL_NOT_READY;
  } else if (!point.device->plugin->asynchronous()) {
    flush_device(point.device, failure);
  }
  detach(failure);
  std::lock_guard<std::mutex> lock(g_mutex);
  std::swap(point.failure, failure);
  point.done = true;
  return point.failure.status;
}

hal_status event_create(hal_device *device, uint32_t flags, hal_event **out) {
  if ((flags & ~(HAL_EVENT_TIMING | HAL_EVENT_HOST_SIGNALLED)) != 0) {
    hal::set_error_text("unknown event flags");
    return HAL_ERROR_UNSUPPORTED;
  }
  auto *event = new hal_event{device, flags, nullptr};
  if ((flags & HAL_EVENT_HOST_SIGNALLED) != 0) {
    event->point = std::make_shared<Point>();
    event->point->device = device;
  }
  *out = event;
  return HAL_OK;
}

void event_destroy(hal_event *event) { delete event; }

hal_status event_record(hal_event *event, hal_stream *stream) {
  if ((event->flags & HAL_EVENT_HOST_SIGNALLED) != 0) {
    hal::set_error_text("a host-signalled event can't be recorded");
    return HAL_ERROR_INVALID_ARGUMENT;
  }
  Item item;
  item.record = std::make_shared<Point>();
  item.record->device = event->device;
  item.record->timed = (event->flags & HAL_EVENT_TIMING) != 0;
  std::shared_ptr<Point> old = item.record;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    std::swap(old, event->point);
  }
  enqueue(*stream->queue, std::move(item));
  return HAL_OK;
}

hal_status event_query(hal_event *event) {
  const std::shared_ptr<Point> point = point_of(event);
  return point ? point_status(*point, false) : HAL_OK;
}

hal_status event_synchronize(hal_event *event, uint64_t timeout_ns) {
  const std::shared_ptr<Point> point = point_of(event);
  if (!point) return HAL_OK;
  const Clock::time_point deadline = deadline_after(timeout_ns);
  hal_status status = wait_for(deadline, [&] { return point->reached; });
  if (status == HAL_OK)
    status = poll(deadline, [&](bool wait) { return point_status(*point, wait) == HAL_NOT_READY ? Progress::Running : Progress::Done; });
  return status == HAL_OK ? point_status(*point, false) : status;
}

bool point_time(Point &point, uint64_t &ns, hal_status &status) {
  status = point_status(point, false);
  if (status != HAL_OK) return false;
  ns = point.host_ns;
  if (!point.marker) return true;
  HookCall hook;
  PyObject *result = call(point.device->hooks().marker_time, {point.marker.get()});
  if (result != nullptr) ns = PyLong_AsUnsignedLongLong(result);
  if (result == nullptr || PyErr_Occurred()) status = take_exception("marker_time");
  Py_XDECREF(result);
  return status == HAL_OK;
}

hal_status event_elapsed(hal_event *start, hal_event *end, uint64_t *nanoseconds) {
  uint64_t times[2] = {};
  for (hal_event *event : {start, end}) {
    const std::shared_ptr<Point> point = point_of(event);
    hal_status status = HAL_NOT_READY;
    if (!point || !point->timed || !point_time(*point, times[event == end], status)) return status;
  }
  *nanoseconds = times[1] > times[0] ? times[1] - times[0] : 0;
  return HAL_OK;
}

hal_status event_signal(hal_event *event, hal_status status) {
  std::vector<std::shared_ptr<Queue>> ready;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    if ((event->flags & HAL_EVENT_HOST_SIGNALLED) == 0 || event->point->reached) {
      hal::set_error_text((event->flags & HAL_EVENT_HOST_SIGNALLED) == 0 ? "only a host-signalled event can be signalled"
                                                                         : "the event has been signalled already");
      return HAL_ERROR_INVALID_ARGUMENT;
    }
    event->point->failure.status = status;
    if (status != HAL_OK) event->point->failure.text = "a host-signalled event was signalled with an error";
    event->point->host_ns = now_ns();
    event->point->done = true;
    reach(*event->point, ready);
  }
  drain(std::move(ready));
  return HAL_OK;
}

hal_status event_get_error(hal_event *event, hal_error_info *out) {
  const std::shared_ptr<Point> point = point_of(event);
  HookCall hook;
  Failure failure;
  if (point) {
    std::lock_guard<std::mutex> lock(g_mutex);
    failure = copy_of(point->failure);
  }
  write_error(failure, out);
  if (failure.status != HAL_OK) announce(failure);
  hal::take_error_text();
  return HAL_OK;
}

}  // namespace

bool enter_queue(Queue &queue, const char *label, const std::function<Work()> &later, bool &nested, bool &skip) {
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    // A hook that submits to the stream that it runs on means "now": it is part of the work that runs.
    nested = queue.running && queue.runner == std::this_thread::get_id();
    if (nested) return true;
    if (!queue.running && queue.items.empty()) {
      skip = queue.poison.status != HAL_OK;
      queue.running = true;
      queue.runner = std::this_thread::get_id();
      return true;
    }
  }
  Item item;
  item.work = later();
  item.label = label;
  enqueue(queue, std::move(item));
  return false;
}

void leave_queue(Queue &queue) {
  bool more;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    note_submission(queue);
    queue.running = false;
    more = !queue.items.empty();
  }
  if (more)
    drain({queue.shared_from_this()});
  else
    g_changed.notify_all();
}

hal_status synchronize_device(hal_device *device) {
  Failure failure;
  HookCall hook;
  if (flush_device(device, failure)) return HAL_OK;
  announce(failure);
  return failure.status;
}

const hal_stream_api kPythonStreamApi = {sizeof(hal_stream_api), stream_create,     stream_destroy, stream_query, stream_synchronize,
                                         stream_get_error,       stream_wait_event, nullptr,        nullptr};
const hal_event_api kPythonEventApi = {sizeof(hal_event_api), event_create,  event_destroy, event_record,   event_query,
                                       event_synchronize,     event_elapsed, event_signal,  event_get_error};
