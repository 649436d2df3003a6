// Events: see hal/event.h.
#include "event.hpp"

#include <pthread.h>

#include <cstdio>

#include "stream.hpp"

struct hal_event {
  uint32_t flags = 0;
  std::mutex mutex;  // guards `point`: a record may run beside a query
  cpu::PointPtr point;
};

namespace cpu {
namespace {

std::atomic<uint32_t> g_generation{0};

}  // namespace

uint32_t fork_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { g_generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return g_generation.load(std::memory_order_relaxed);
}

Deadline::Deadline(uint64_t timeout_ns)
    : infinite(timeout_ns > uint64_t(INT64_MAX) / 4),
      time(infinite ? std::chrono::steady_clock::time_point::max()
                    : std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns)) {}

void describe(const FailurePtr &failure, hal_error_info *out) {
  if (HAL_HAS_FIELD(out, hal_error_info, status)) out->status = failure ? failure->status : HAL_OK;
  if (HAL_HAS_FIELD(out, hal_error_info, label)) out->label = failure ? failure->label : nullptr;
  if (HAL_HAS_FIELD(out, hal_error_info, text)) std::snprintf(out->text, sizeof out->text, "%s", failure ? failure->text.c_str() : "");
}

void Point::complete(FailurePtr failure) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = std::move(failure);
  nanoseconds_ = uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  done_.store(true, std::memory_order_release);
  cv_.notify_all();
}

bool Point::wait(const Deadline &deadline) {
  if (done()) return true;
  std::unique_lock<std::mutex> lock(mutex_);
  return wait_until(cv_, lock, deadline, [this] { return done(); });
}

PointPtr current_point(hal_event *event) {
  std::lock_guard<std::mutex> lock(event->mutex);
  return event->point;
}

namespace {

hal_status create(hal_device *, uint32_t flags, hal_event **out) {
  if ((flags & ~(HAL_EVENT_TIMING | HAL_EVENT_HOST_SIGNALLED)) != 0)
    return fail(HAL_ERROR_UNSUPPORTED, "unknown event flags: got " + std::to_string(flags));
  return guarded([&] {
    auto event = std::make_unique<hal_event>();
    event->flags = flags;
    if (flags & HAL_EVENT_HOST_SIGNALLED) event->point = std::make_shared<Point>();
    *out = event.release();
    return hal_status{HAL_OK};
  });
}

void destroy(hal_event *event) {
  // Nobody can signal it any more: better that its waiters fail than that they hang.
  if ((event->flags & HAL_EVENT_HOST_SIGNALLED) && !event->point->done() && !event->point->lost() && event->point.use_count() > 1) try {
      event->point->complete(std::make_shared<Failure>(
          Failure{HAL_ERROR_LAUNCH_FAILED, nullptr, "a host-signalled event was destroyed before it was signalled"}));
    } catch (...) {
      event->point->complete(nullptr);
    }
  delete event;
}

hal_status record(hal_event *event, hal_stream *stream) {
  if (event->flags & HAL_EVENT_HOST_SIGNALLED) return fail(HAL_ERROR_INVALID_ARGUMENT, "a host-signalled event can't be recorded");
  return guarded([&] {
    auto point = std::make_shared<Point>();
    const hal_status status = record_point(stream, point);
    if (status != HAL_OK) return status;
    std::lock_guard<std::mutex> lock(event->mutex);
    event->point.swap(point);
    return hal_status{HAL_OK};
  });
}

hal_status status_of(const Point &point) {
  return point.failure() ? fail(point.failure()->status, point.failure()->text) : hal_status{HAL_OK};
}

hal_status lost(const Point &) {
  return fail(HAL_ERROR_UNAVAILABLE, "the event belongs to the parent process: its work doesn't go on after fork()");
}

hal_status query(hal_event *event) {
  const PointPtr point = current_point(event);
  if (!point) return HAL_OK;
  if (point->done()) return status_of(*point);
  return point->lost() ? lost(*point) : hal_status{HAL_NOT_READY};
}

hal_status synchronize(hal_event *event, uint64_t timeout_ns) {
  const PointPtr point = current_point(event);
  if (!point) return HAL_OK;
  if (!point->done()) {
    if (point->lost()) return lost(*point);
    if (!point->wait(Deadline(timeout_ns))) return fail(HAL_ERROR_TIMEOUT, "the event wasn't ready in time");
  }
  return status_of(*point);
}

hal_status elapsed(hal_event *start, hal_event *end, uint64_t *nanoseconds) {
  if (!(start->flags & end->flags & HAL_EVENT_TIMING)) return fail(HAL_NOT_READY, "an event was made without HAL_EVENT_TIMING");
  const PointPtr from = current_point(start), to = current_point(end);
  if (!from || !to || !from->done() || !to->done()) return HAL_NOT_READY;
  *nanoseconds = to->nanoseconds() > from->nanoseconds() ? to->nanoseconds() - from->nanoseconds() : 0;
  return HAL_OK;
}

hal_status signal(hal_event *event, hal_status status) {
  if (!(event->flags & HAL_EVENT_HOST_SIGNALLED)) return fail(HAL_ERROR_INVALID_ARGUMENT, "only a host-signalled event can be signalled");
  return guarded([&] {
    std::lock_guard<std::mutex> lock(event->mutex);  // of two signals at once, one is the second
    if (event->point->done()) return fail(HAL_ERROR_INVALID_ARGUMENT, "the event has been signalled already");
    if (event->point->lost()) return lost(*event->point);
    FailurePtr failure;
    if (status != HAL_OK)
      failure = std::make_shared<Failure>(Failure{status, nullptr, "the host signalled a failure, status " + std::to_string(status)});
    event->point->complete(std::move(failure));
    return hal_status{HAL_OK};
  });
}

hal_status get_error(hal_event *event, hal_error_info *out) {
  const PointPtr point = current_point(event);
  describe(point && point->done() ? point->failure() : nullptr, out);
  return HAL_OK;
}

}  // namespace

const hal_event_api event_api = {sizeof(hal_event_api), create, destroy, record, query, synchronize, elapsed, signal, get_error};

}  // namespace cpu
