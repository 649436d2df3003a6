// Streams: see hal/stream.h, and stream.hpp for the idea.
#include "stream.hpp"

namespace cpu {
namespace {

constexpr const char *kForked = "the stream was made before fork() and its work doesn't go on in the child: make a new stream";

// Says that all up to `ticket` is done.
void complete(hal_stream *stream, uint64_t ticket) {
  // Sequentially consistent with the waiter's increment: either it sees the ticket or we see the waiter.
  stream->completed.store(ticket, std::memory_order_seq_cst);
  if (stream->waiters.load(std::memory_order_seq_cst) == 0) return;
  if (stream->forked()) return;  // waiters poll there
  std::lock_guard<std::mutex> lock(stream->mutex);
  stream->done.notify_all();
}

void set_poison(hal_stream *stream, FailurePtr failure, uint64_t ticket) {
  std::lock_guard<std::mutex> lock(stream->mutex);
  if (stream->poison) return;
  stream->poison = std::move(failure);
  stream->poison_ticket = ticket;
  stream->poisoned.store(true, std::memory_order_release);
}

FailurePtr current_poison(hal_stream *stream) {
  if (!stream->poisoned.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard<std::mutex> lock(stream->mutex);
  return stream->poison;
}

// The task that the worker runs now, so that a wait can poison at its own ticket.
thread_local uint64_t t_ticket = 0;

void run_task(hal_stream *stream, const Task &task, uint64_t ticket) {
  if (!task.always && stream->poisoned.load(std::memory_order_acquire)) return;
  t_ticket = ticket;
  try {
    DefaultFpMode mode;
    task.run();
  } catch (...) {
    std::string text;
    const hal_status status = current_exception_status(text);
    try {
      set_poison(stream, std::make_shared<Failure>(Failure{status, task.label, text}), ticket);
    } catch (...) {
      static const auto &no_memory = *new FailurePtr(std::make_shared<Failure>(Failure{HAL_ERROR_OUT_OF_MEMORY, nullptr, ""}));
      set_poison(stream, no_memory, ticket);
    }
  }
}

void finish_orphan(hal_stream *stream) {
  hal_device *device = stream->device;
  delete stream->worker;  // detached by destroy
  delete stream;
  std::lock_guard<std::mutex> lock(device->mutex);
  --device->orphans;
  device->orphan_done.notify_all();
}

void work(hal_stream *stream) {
  std::unique_lock<std::mutex> lock(stream->mutex);
  for (;;) {
    stream->queue_changed.wait(lock, [&] { return stream->stopping || stream->orphaned || !stream->queue.empty(); });
    if (stream->queue.empty()) break;
    {
      const Task task = std::move(stream->queue.front());
      stream->queue.pop_front();
      lock.unlock();
      // Only this thread completes tickets while the stream is busy.
      const uint64_t ticket = stream->completed.load(std::memory_order_relaxed) + 1;
      run_task(stream, task, ticket);
      lock.lock();
      stream->completed.store(ticket, std::memory_order_seq_cst);
      stream->done.notify_all();
    }
  }
  const bool orphaned = stream->orphaned;
  lock.unlock();
  if (orphaned) finish_orphan(stream);
}

}  // namespace

InlineWork::~InlineWork() { complete(stream_, ticket_); }

hal_status enqueue(hal_stream *stream, Task task) {
  if (stream->forked()) return fail(HAL_ERROR_UNAVAILABLE, kForked);
  return guarded([&]() -> hal_status {
    std::lock_guard<std::mutex> lock(stream->mutex);
    if (stream->worker == nullptr) try {
        stream->worker = new std::thread(work, stream);
      } catch (const std::system_error &e) {
        return fail(HAL_ERROR_UNAVAILABLE, std::string("can't start a stream's thread: ") + e.what());
      }
    stream->queue.push_back(std::move(task));
    stream->submitted.fetch_add(1, std::memory_order_release);
    stream->queue_changed.notify_one();
    return HAL_OK;
  });
}

hal_status record_point(hal_stream *stream, const PointPtr &point) {
  if (stream->idle()) {
    if (stream->poisoned.load(std::memory_order_acquire) && stream->forked()) return fail(HAL_ERROR_UNAVAILABLE, kForked);
    point->complete(current_poison(stream));
    return HAL_OK;
  }
  return enqueue(stream, Task{[stream, point] { point->complete(current_poison(stream)); }, nullptr, true});
}

namespace {

hal_status create(hal_device *device, int32_t, hal_stream **out) {
  return guarded([&] {
    *out = new hal_stream(device);
    return hal_status{HAL_OK};
  });
}

void destroy(hal_stream *stream) {
  if (stream->forked()) {  // its lock may be held by a thread that isn't here: left behind
    if (stream->worker == nullptr) delete stream;
    return;
  }
  std::unique_lock<std::mutex> lock(stream->mutex);
  if (stream->worker == nullptr) {
    lock.unlock();
    delete stream;
    return;
  }
  if (!stream->idle()) {  // may wait on an event that this very thread signals later: the worker finishes alone
    {
      std::lock_guard<std::mutex> device_lock(stream->device->mutex);
      ++stream->device->orphans;
    }
    stream->orphaned = true;
    stream->worker->detach();
    stream->queue_changed.notify_one();
    return;
  }
  stream->stopping = true;
  stream->queue_changed.notify_one();
  lock.unlock();
  stream->worker->join();
  delete stream->worker;
  delete stream;
}

hal_status query(hal_stream *stream) {
  const uint64_t ticket = stream->submitted.load(std::memory_order_acquire);
  return stream->completed.load(std::memory_order_acquire) >= ticket ? HAL_OK : HAL_NOT_READY;
}

// Waits for a ticket; HAL_OK or why not.
hal_status wait_ticket(hal_stream *stream, uint64_t ticket, uint64_t timeout_ns) {
  if (stream->completed.load(std::memory_order_acquire) >= ticket) return HAL_OK;
  if (stream->forked()) {
    // Work that runs inline on another thread of the child ends; what the parent had queued doesn't. Told apart by who is the last.
    return fail(HAL_ERROR_UNAVAILABLE, kForked);
  }
  const Deadline deadline(timeout_ns);
  std::unique_lock<std::mutex> lock(stream->mutex);
  stream->waiters.fetch_add(1, std::memory_order_seq_cst);
  const bool ready = wait_until(stream->done, lock, deadline, [&] { return stream->completed.load(std::memory_order_seq_cst) >= ticket; });
  stream->waiters.fetch_sub(1, std::memory_order_relaxed);
  return ready ? HAL_OK : fail(HAL_ERROR_TIMEOUT, "the stream's work wasn't done in time");
}

hal_status synchronize(hal_stream *stream, uint64_t timeout_ns) {
  const uint64_t ticket = stream->submitted.load(std::memory_order_acquire);
  const hal_status status = wait_ticket(stream, ticket, timeout_ns);
  if (status != HAL_OK) return status;
  if (!stream->poisoned.load(std::memory_order_acquire)) return HAL_OK;
  if (stream->forked()) return fail(HAL_ERROR_UNAVAILABLE, kForked);
  std::lock_guard<std::mutex> lock(stream->mutex);
  if (!stream->poison || stream->poison_ticket > ticket) return HAL_OK;  // of later work: for a later call
  stream->last_error = std::move(stream->poison);
  stream->poison = nullptr;
  stream->poisoned.store(false, std::memory_order_release);
  return fail(stream->last_error->status, stream->last_error->text);
}

hal_status get_error(hal_stream *stream, hal_error_info *out) {
  if (stream->forked()) {
    describe(nullptr, out);
    return HAL_OK;
  }
  std::lock_guard<std::mutex> lock(stream->mutex);
  describe(stream->last_error, out);
  return HAL_OK;
}

hal_status wait_event(hal_stream *stream, hal_event *event) {
  return guarded([&]() -> hal_status {
    const PointPtr point = current_point(event);
    if (!point) return HAL_OK;
    if (point->lost()) return fail(HAL_ERROR_UNAVAILABLE, "the event belongs to the parent process: its work doesn't go on after fork()");
    if (stream->idle() && point->done()) {
      if (!point->failure()) return HAL_OK;
      if (stream->forked()) return fail(HAL_ERROR_UNAVAILABLE, kForked);
      set_poison(stream, point->failure(), stream->submitted.load(std::memory_order_relaxed));
      return HAL_OK;
    }
    return enqueue(stream, Task{[stream, point] {
                                  point->wait(Deadline(HAL_TIMEOUT_INFINITE));
                                  if (point->failure()) set_poison(stream, point->failure(), t_ticket);
                                },
                                nullptr, true});
  });
}

}  // namespace

const hal_stream_api stream_api = {sizeof(hal_stream_api), create, destroy, query, synchronize, get_error, wait_event, nullptr, nullptr};

}  // namespace cpu
