// trap: a device that does everything the ABI allows and nothing it doesn't promise. Memory can't be touched from outside its own work,
// work runs late and in any legal order, and faults come where the user of it asks. It computes with the kernels of the host plugin.
#pragma once

#include <hal/hal.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace trap {

struct Failure {
  hal_status status;
  const char *label;  // of the launch that failed, or nullptr
  std::string text;
};
using FailurePtr = std::shared_ptr<const Failure>;

// What an event stands for at one time. Guarded by State::mutex.
struct Point {
  bool done = false;
  FailurePtr failure;
  uint64_t nanoseconds = 0;
  uint32_t generation = 0;
};
using PointPtr = std::shared_ptr<Point>;

// The host plugin, whose kernels run on our memory.
struct Host {
  const hal_plugin_api *api = nullptr;
  hal_device *device = nullptr;
};

// Faults: each counts down with the calls of its kind, and fires when it reaches 0; then `times` calls in a row fail.
struct Fault {
  int64_t after = 0;  // 0: off
  int64_t times = 1;
  int64_t fired = 0;
  int64_t calls = 0;  // of this kind, ever
};
enum FaultKind { kAllocFault, kPrepareFault, kLaunchFault, kKernelFault, kCopyFault, kLoseFault, kFaultKinds };

// All state of the plugin; one lock and one condition for everything, since nothing here has to be fast.
struct State {
  std::mutex mutex;
  std::condition_variable changed;
  const hal_host_api *runtime = nullptr;
  uint32_t generation = 0;  // forks that this process is the child of
  uint64_t seed = 0;
  uint64_t next_serial = 0;
  uint64_t memory_limit = uint64_t(1) << 30;
  uint64_t memory_used = 0;
  uint32_t offset_alignment = 1;
  uint32_t devices = 2;
  bool hold_delays = false;  // no delays: work runs at once
  Fault faults[kFaultKinds];
  std::set<const void *> memories, streams, events, executables;  // live handles
  int64_t violations = 0;
  std::string violation_text;
};
State &state();

hal_status fail(hal_status status, const std::string &text);
hal_status current_exception_status(std::string &text) noexcept;

template <class Body>
hal_status guarded(Body &&body) noexcept {
  try {
    return body();
  } catch (...) {
    std::string text;
    const hal_status status = current_exception_status(text);
    return fail(status, text);
  }
}

// The runtime or an application broke a rule of the ABI. Never fatal: it is counted, for whoever asks. Takes the lock unless told not to.
void violation(const std::string &text);
void violation_locked(const std::string &text);

// True if this call is one that must fail. With the lock held.
bool fires(FaultKind kind);

// "key=value&key=value": throws std::invalid_argument on an unknown key.
void configure(const char *text);

// Opens the host plugin's device. Throws std::runtime_error if there is none.
Host open_host(const std::string &path);

extern const hal_device_api device_api;
extern const hal_memory_api memory_api;
extern const hal_stream_api stream_api;
extern const hal_event_api event_api;
extern const hal_kernel_api kernel_api;

struct Task {
  std::function<FailurePtr()> run;
  const char *label = nullptr;
  bool always = false;  // runs on a poisoned stream too (a record)
  PointPtr wait;        // a wait for this instead of a run
  std::vector<hal_memory *> uses;
  hal_executable *executable = nullptr;
  bool fails = false;  // an injected fault
};

// Appends to a stream's queue; checks what is used.
hal_status enqueue(hal_stream *stream, Task task);

// Memory may be touched while one of these lives.
class Access {
 public:
  explicit Access(std::vector<hal_memory *> memories);
  ~Access();
  Access(const Access &) = delete;
  Access &operator=(const Access &) = delete;

 private:
  std::vector<hal_memory *> memories_;
};

// Two submissions to one stream at once break the ABI's promise to plugins.
class Submission {
 public:
  explicit Submission(hal_stream *stream);
  ~Submission();
  Submission(const Submission &) = delete;
  Submission &operator=(const Submission &) = delete;

 private:
  hal_stream *stream_;
};

}  // namespace trap

struct hal_device {
  trap::Host host;
  uint32_t ordinal = 0;
  bool lost = false;
  int workers = 0;                  // threads, also those of destroyed streams
  uint32_t workers_generation = 0;  // a forked child has none of its parent's
};

struct hal_memory {
  hal_device *device = nullptr;
  char *map = nullptr;  // guard page, room, guard page
  uint64_t map_size = 0;
  char *data = nullptr;  // ends as near to the upper guard page as the alignment allows
  uint64_t size = 0;
  hal_memory *host = nullptr;  // the same bytes, as the host plugin sees them
  int open = 0;                // accesses going on
  int users = 0;               // queued or running tasks
};

struct hal_stream {
  hal_device *device = nullptr;
  hal_stream *host = nullptr;
  uint32_t generation = 0;
  uint64_t serial = 0;
  std::deque<trap::Task> queue;
  uint64_t submitted = 0, completed = 0;
  int waiters = 0;
  bool destroyed = false;
  bool started = false;
  bool submitting = false;
  trap::FailurePtr poison, last_error;
  uint64_t poison_ticket = 0;
};

struct hal_event {
  uint32_t flags = 0;
  trap::PointPtr point;
};

struct hal_executable {
  hal_executable *host = nullptr;
  std::string name;
  std::vector<bool> tensor;  // per operand: it comes as memory
  uint64_t workspace_size = 0;
  int in_flight = 0;
};
