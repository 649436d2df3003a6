// Streams: work runs on the calling thread while a stream is idle; once something must be waited for, a worker thread of the stream runs
// the queue in order. So a small op on an idle stream pays no hand-off.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "event.hpp"
#include "fp_mode.hpp"

namespace cpu {

struct Task {
  std::function<void()> run;
  const char *label = nullptr;
  bool always = false;  // runs on a poisoned stream too (a wait, a record)
};

}  // namespace cpu

struct hal_stream {
  explicit hal_stream(hal_device *owner) : device(owner) {}

  hal_device *const device;
  const uint32_t generation = cpu::fork_generation();
  // Tickets: work number `submitted` was the last to come, all up to `completed` is done. Submitters are serialised by the runtime.
  std::atomic<uint64_t> submitted{0}, completed{0};
  std::atomic<uint32_t> waiters{0};
  std::atomic<bool> poisoned{false};

  std::mutex mutex;  // guards all below
  std::condition_variable queue_changed, done;
  std::deque<cpu::Task> queue;
  std::thread *worker = nullptr;  // started by the first queued task
  bool stopping = false;
  bool orphaned = false;  // destroyed while busy: the worker deletes the stream
  cpu::FailurePtr poison, last_error;
  uint64_t poison_ticket = 0;

  bool idle() const { return completed.load(std::memory_order_acquire) == submitted.load(std::memory_order_relaxed); }
  // In a forked child the stream's worker and the state of its lock are unknown.
  bool forked() const { return generation != cpu::fork_generation(); }
};

namespace cpu {

// For an idle stream only: marks work as running on this thread, and as done at the end of the scope.
class InlineWork {
 public:
  explicit InlineWork(hal_stream *stream) : stream_(stream), ticket_(stream->submitted.load(std::memory_order_relaxed) + 1) {
    stream->submitted.store(ticket_, std::memory_order_release);
  }
  ~InlineWork();
  InlineWork(const InlineWork &) = delete;
  InlineWork &operator=(const InlineWork &) = delete;

 private:
  hal_stream *stream_;
  uint64_t ticket_;
  DefaultFpMode mode_;
};

// Appends to the queue of a stream.
hal_status enqueue(hal_stream *stream, Task task);

// Completes `point` when all work submitted so far is done.
hal_status record_point(hal_stream *stream, const PointPtr &point);

// Runs `now` on this thread if the stream is idle, else queues what `later` makes. Skipped on a poisoned stream.
template <class Now, class Later>
hal_status submit(hal_stream *stream, const char *label, Now &&now, Later &&later) {
  return guarded([&]() -> hal_status {
    if (stream->idle()) {
      if (stream->poisoned.load(std::memory_order_acquire)) return HAL_OK;
      InlineWork work(stream);
      now();
      return HAL_OK;
    }
    return enqueue(stream, Task{later(), label, false});
  });
}

}  // namespace cpu
