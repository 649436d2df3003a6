// Points: what an event stands for at one time. A point outlives its event as long as a stream waits on it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "internal.hpp"

namespace cpu {

struct Failure {
  hal_status status;
  const char *label;  // of the launch that failed, or nullptr
  std::string text;
};
using FailurePtr = std::shared_ptr<const Failure>;

void describe(const FailurePtr &failure, hal_error_info *out);

// Counts the forks that this process is the child of. What a parent's thread would have done never happens in the child.
uint32_t fork_generation();

// A moment `timeout_ns` from now; `infinite` beyond what the clock can say.
struct Deadline {
  explicit Deadline(uint64_t timeout_ns);
  bool infinite;
  std::chrono::steady_clock::time_point time;
};

// Waits on `cv` until `ready` or the deadline; gives ready().
template <class Ready>
bool wait_until(std::condition_variable &cv, std::unique_lock<std::mutex> &lock, const Deadline &deadline, Ready &&ready) {
  if (!deadline.infinite) return cv.wait_until(lock, deadline.time, ready);
  cv.wait(lock, ready);
  return true;
}

class Point {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }
  void complete(FailurePtr failure);
  // False on timeout.
  bool wait(const Deadline &deadline);
  // The parent process alone could complete it.
  bool lost() const { return !done() && generation_ != fork_generation(); }
  // Valid once done.
  const FailurePtr &failure() const { return failure_; }
  uint64_t nanoseconds() const { return nanoseconds_; }

 private:
  std::atomic<bool> done_{false};
  const uint32_t generation_ = fork_generation();
  FailurePtr failure_;
  uint64_t nanoseconds_ = 0;
  std::mutex mutex_;
  std::condition_variable cv_;
};
using PointPtr = std::shared_ptr<Point>;

// What `event` stands for now; nullptr if it was never recorded.
PointPtr current_point(hal_event *event);

}  // namespace cpu
