// Streams: a worker thread each, which runs the queue in order and late, by a delay that seed, stream and ticket decide. So two streams
// run in every order that events allow.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "trap.hpp"

namespace trap {
namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr const char *kForked = "the stream was made before fork() and its work doesn't go on in the child: make a new stream";

uint64_t mix(uint64_t x) {  // splitmix64, public domain, S. Vigna
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

// Half of the tasks run at once; some later; some not before somebody waits for the stream, or a moment has gone.
void delay(hal_stream *stream, uint64_t ticket, Lock &lock) {
  State &s = state();
  if (s.hold_delays) return;
  const uint64_t draw = mix(mix(s.seed) ^ mix(stream->serial << 32 ^ ticket)) % 16;
  if (draw < 8) return;
  if (draw == 15) {
    s.changed.wait_for(lock, std::chrono::milliseconds(2), [&] { return stream->waiters > 0 || stream->device->lost; });
    return;
  }
  lock.unlock();
  if (draw < 11)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(draw < 13 ? 10 : 80));
  lock.lock();
}

void set_poison(hal_stream *stream, FailurePtr failure, uint64_t ticket) {
  if (stream->poison) return;
  stream->poison = std::move(failure);
  stream->poison_ticket = ticket;
}

FailurePtr lost_failure() { return std::make_shared<Failure>(Failure{HAL_ERROR_DEVICE_LOST, nullptr, "injected: the device is lost"}); }

FailurePtr run(const Task &task) {
  if (task.fails)
    return std::make_shared<Failure>(Failure{HAL_ERROR_LAUNCH_FAILED, task.label,
                                             task.executable ? "injected: this kernel fails late" : "injected: this copy fails late"});
  try {
    return task.run();
  } catch (...) {
    std::string text;
    const hal_status status = current_exception_status(text);
    return std::make_shared<Failure>(Failure{status, task.label, text});
  }
}

void run_next(hal_stream *stream, Lock &lock) {
  State &s = state();
  const Task task = std::move(stream->queue.front());
  stream->queue.pop_front();
  const uint64_t ticket = stream->completed + 1;
  delay(stream, ticket, lock);
  if (task.wait) {
    s.changed.wait(lock, [&] { return task.wait->done || stream->device->lost; });
    if (task.wait->done && task.wait->failure) set_poison(stream, task.wait->failure, ticket);
  } else if (task.always) {
    task.run();  // with the lock: it touches points only
  } else if (!stream->poison && !stream->device->lost) {
    lock.unlock();
    FailurePtr failure = run(task);
    lock.lock();
    if (failure) set_poison(stream, std::move(failure), ticket);
  }
  for (hal_memory *memory : task.uses) --memory->users;
  if (task.executable) --task.executable->in_flight;
  stream->completed = ticket;
  s.changed.notify_all();
}

void end(hal_stream *stream) {
  stream->device->host.api->stream->destroy(stream->host);
  delete stream;
}

void work(hal_stream *stream) {
  State &s = state();
  Lock lock(s.mutex);
  for (;;) {
    s.changed.wait(lock, [&] { return stream->destroyed || !stream->queue.empty(); });
    if (stream->queue.empty()) break;
    run_next(stream, lock);
  }
  hal_device *device = stream->device;
  lock.unlock();
  end(stream);
  lock.lock();
  --device->workers;
  s.changed.notify_all();
}

bool forked(const hal_stream *stream) { return stream->generation != state().generation; }

bool known(hal_stream *stream) {
  if (state().streams.count(stream) != 0) return true;
  violation_locked("a call on a stream that is not there");
  return false;
}

}  // namespace

Submission::Submission(hal_stream *stream) : stream_(stream) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!known(stream)) throw std::invalid_argument("[trap] no such stream");
  if (stream->submitting && !forked(stream)) violation_locked("two threads submit to one stream at once");
  stream->submitting = true;
}

Submission::~Submission() {
  std::lock_guard<std::mutex> lock(state().mutex);
  stream_->submitting = false;
}

hal_status enqueue(hal_stream *stream, Task task) {
  State &s = state();
  Submission submission(stream);
  std::this_thread::yield();  // gives a second submitter the time to be caught
  Lock lock(s.mutex);
  if (forked(stream)) return fail(HAL_ERROR_UNAVAILABLE, kForked);
  const bool work_item = !task.wait && !task.always;
  if (work_item && fires(kLoseFault)) {
    stream->device->lost = true;
    s.changed.notify_all();
  }
  if (stream->device->lost) return fail(HAL_ERROR_DEVICE_LOST, "injected: the device is lost");
  if (work_item) task.fails = fires(task.executable ? kKernelFault : kCopyFault);
  for (hal_memory *memory : task.uses)
    if (s.memories.count(memory) == 0) {
      violation_locked("work submitted on memory that is not allocated");
      return fail(HAL_ERROR_INVALID_ARGUMENT, "[trap] the memory is not allocated");
    }
  if (!stream->started) {
    hal_device &device = *stream->device;
    if (device.workers_generation != s.generation) device.workers = 0, device.workers_generation = s.generation;
    try {
      ++device.workers;
      std::thread(work, stream).detach();
    } catch (const std::system_error &e) {
      --device.workers;
      return fail(HAL_ERROR_UNAVAILABLE, std::string("can't start a stream's thread: ") + e.what());
    }
    stream->started = true;
  }
  for (hal_memory *memory : task.uses) ++memory->users;
  if (task.executable) ++task.executable->in_flight;
  stream->queue.push_back(std::move(task));
  ++stream->submitted;
  s.changed.notify_all();
  return HAL_OK;
}

namespace {

hal_status create(hal_device *device, int32_t, hal_stream **out) {
  return guarded([&] {
    auto stream = std::make_unique<hal_stream>();
    stream->device = device;
    const hal_status status = device->host.api->stream->create(device->host.device, 0, &stream->host);
    if (status != HAL_OK) return status;
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    stream->generation = s.generation;
    stream->serial = s.next_serial++;
    s.streams.insert(stream.get());
    *out = stream.release();
    return hal_status{HAL_OK};
  });
}

void destroy(hal_stream *stream) {
  State &s = state();
  Lock lock(s.mutex);
  if (s.streams.erase(stream) == 0) return violation_locked("a stream destroyed twice");
  if (stream->started && forked(stream)) return;  // its thread isn't here, and what it held is unknown: left behind
  stream->destroyed = true;
  s.changed.notify_all();
  if (stream->started) return;  // the worker finishes what was submitted, and deletes it
  lock.unlock();
  end(stream);
}

hal_status query(hal_stream *stream) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!known(stream)) return HAL_ERROR_INVALID_ARGUMENT;
  return stream->completed == stream->submitted ? HAL_OK : HAL_NOT_READY;
}

bool wait_until(Lock &lock, uint64_t timeout_ns, const std::function<bool()> &ready) {
  State &s = state();
  if (timeout_ns > uint64_t(INT64_MAX) / 4) {
    s.changed.wait(lock, ready);
    return true;
  }
  return s.changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ready);
}

hal_status synchronize(hal_stream *stream, uint64_t timeout_ns) {
  State &s = state();
  Lock lock(s.mutex);
  if (!known(stream)) return HAL_ERROR_INVALID_ARGUMENT;
  const uint64_t ticket = stream->submitted;
  if (stream->completed < ticket) {
    if (forked(stream)) return fail(HAL_ERROR_UNAVAILABLE, kForked);
    ++stream->waiters;
    s.changed.notify_all();
    const bool ready = wait_until(lock, timeout_ns, [&] { return stream->completed >= ticket; });
    --stream->waiters;
    if (!ready) return fail(HAL_ERROR_TIMEOUT, "the stream's work wasn't done in time");
  }
  if (stream->device->lost) {
    stream->last_error = lost_failure();
    return fail(HAL_ERROR_DEVICE_LOST, stream->last_error->text);
  }
  if (!stream->poison || stream->poison_ticket > ticket) return HAL_OK;
  stream->last_error = std::move(stream->poison);
  stream->poison = nullptr;
  return fail(stream->last_error->status, stream->last_error->text);
}

void describe(const FailurePtr &failure, hal_error_info *out) {
  if (HAL_HAS_FIELD(out, hal_error_info, status)) out->status = failure ? failure->status : HAL_OK;
  if (HAL_HAS_FIELD(out, hal_error_info, label)) out->label = failure ? failure->label : nullptr;
  if (HAL_HAS_FIELD(out, hal_error_info, text)) std::snprintf(out->text, sizeof out->text, "%s", failure ? failure->text.c_str() : "");
}

hal_status get_error(hal_stream *stream, hal_error_info *out) {
  std::lock_guard<std::mutex> lock(state().mutex);
  describe(stream->last_error, out);
  return HAL_OK;
}

bool live(hal_event *event) {
  if (state().events.count(event) != 0) return true;
  violation_locked("a call on an event that is not there");
  return false;
}

hal_status wait_event(hal_stream *stream, hal_event *event) {
  return guarded([&]() -> hal_status {
    Task task;
    {
      std::lock_guard<std::mutex> lock(state().mutex);
      if (!live(event)) return HAL_ERROR_INVALID_ARGUMENT;
      if (!event->point) return HAL_OK;
      if (!event->point->done && event->point->generation != state().generation)
        return fail(HAL_ERROR_UNAVAILABLE, "the event belongs to the parent process: its work doesn't go on after fork()");
      task.wait = event->point;
    }
    return enqueue(stream, std::move(task));
  });
}

// --- events ---------------------------------------------------------------------------------------------------------------------------

uint64_t now() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// With the lock.
void complete(Point &point, FailurePtr failure) {
  point.done = true;
  point.failure = std::move(failure);
  point.nanoseconds = now();
  state().changed.notify_all();
}

PointPtr new_point() {
  auto point = std::make_shared<Point>();
  point->generation = state().generation;
  return point;
}

hal_status create_event(hal_device *, uint32_t flags, hal_event **out) {
  if ((flags & ~(HAL_EVENT_TIMING | HAL_EVENT_HOST_SIGNALLED)) != 0) return fail(HAL_ERROR_UNSUPPORTED, "[trap] unknown event flags");
  return guarded([&] {
    auto event = std::make_unique<hal_event>();
    event->flags = flags;
    std::lock_guard<std::mutex> lock(state().mutex);
    if (flags & HAL_EVENT_HOST_SIGNALLED) event->point = new_point();
    state().events.insert(event.get());
    *out = event.release();
    return hal_status{HAL_OK};
  });
}

void destroy_event(hal_event *event) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (state().events.erase(event) == 0) return violation_locked("an event destroyed twice");
  if ((event->flags & HAL_EVENT_HOST_SIGNALLED) && !event->point->done && event->point.use_count() > 1)  // better failed than hung
    complete(*event->point, std::make_shared<Failure>(
                                Failure{HAL_ERROR_LAUNCH_FAILED, nullptr, "a host-signalled event was destroyed before it was signalled"}));
  delete event;
}

hal_status record(hal_event *event, hal_stream *stream) {
  if (event->flags & HAL_EVENT_HOST_SIGNALLED) return fail(HAL_ERROR_INVALID_ARGUMENT, "a host-signalled event can't be recorded");
  return guarded([&]() -> hal_status {
    PointPtr point;
    {
      std::lock_guard<std::mutex> lock(state().mutex);
      if (!live(event)) return HAL_ERROR_INVALID_ARGUMENT;
      point = new_point();
    }
    Task task;
    task.always = true;
    task.run = [point, stream]() -> FailurePtr {
      complete(*point, stream->device->lost ? lost_failure() : stream->poison);
      return nullptr;
    };
    const hal_status status = enqueue(stream, std::move(task));
    if (status != HAL_OK) return status;
    std::lock_guard<std::mutex> lock(state().mutex);
    event->point = point;
    return HAL_OK;
  });
}

hal_status status_of(const hal_event *event, const Point &point) {
  (void)event;
  if (point.done) return point.failure ? fail(point.failure->status, point.failure->text) : hal_status{HAL_OK};
  if (point.generation != state().generation)
    return fail(HAL_ERROR_UNAVAILABLE, "the event belongs to the parent process: its work doesn't go on after fork()");
  return HAL_NOT_READY;
}

hal_status query_event(hal_event *event) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!live(event)) return HAL_ERROR_INVALID_ARGUMENT;
  return event->point ? status_of(event, *event->point) : hal_status{HAL_OK};
}

hal_status synchronize_event(hal_event *event, uint64_t timeout_ns) {
  Lock lock(state().mutex);
  if (!live(event)) return HAL_ERROR_INVALID_ARGUMENT;
  const PointPtr point = event->point;
  if (!point) return HAL_OK;
  if (!point->done && point->generation == state().generation && !wait_until(lock, timeout_ns, [&] { return point->done; }))
    return fail(HAL_ERROR_TIMEOUT, "the event wasn't ready in time");
  return status_of(event, *point);
}

hal_status elapsed(hal_event *start, hal_event *end, uint64_t *nanoseconds) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!(start->flags & end->flags & HAL_EVENT_TIMING)) return fail(HAL_NOT_READY, "an event was made without HAL_EVENT_TIMING");
  if (!start->point || !end->point || !start->point->done || !end->point->done) return HAL_NOT_READY;
  const uint64_t from = start->point->nanoseconds, to = end->point->nanoseconds;
  *nanoseconds = to > from ? to - from : 0;
  return HAL_OK;
}

hal_status signal(hal_event *event, hal_status status) {
  if (!(event->flags & HAL_EVENT_HOST_SIGNALLED)) return fail(HAL_ERROR_INVALID_ARGUMENT, "only a host-signalled event can be signalled");
  return guarded([&]() -> hal_status {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (!live(event)) return HAL_ERROR_INVALID_ARGUMENT;
    if (event->point->done) return fail(HAL_ERROR_INVALID_ARGUMENT, "the event has been signalled already");
    if (event->point->generation != state().generation) return status_of(event, *event->point);
    FailurePtr failure;
    if (status != HAL_OK)
      failure = std::make_shared<Failure>(Failure{status, nullptr, "the host signalled a failure, status " + std::to_string(status)});
    complete(*event->point, std::move(failure));
    return HAL_OK;
  });
}

hal_status get_event_error(hal_event *event, hal_error_info *out) {
  std::lock_guard<std::mutex> lock(state().mutex);
  describe(event->point && event->point->done ? event->point->failure : nullptr, out);
  return HAL_OK;
}

}  // namespace

const hal_stream_api stream_api = {sizeof(hal_stream_api), create, destroy, query, synchronize, get_error, wait_event, nullptr, nullptr};
const hal_event_api event_api = {sizeof(hal_event_api), create_event, destroy_event, record,         query_event,
                                 synchronize_event,     elapsed,      signal,        get_event_error};

}  // namespace trap
