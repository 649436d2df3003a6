// One pool of workers that share one loop at a time.
//
// A loop is cut into chunks; `ticket` holds (number of chunks << 32 | next chunk), so one fetch_add claims a chunk and tells
// whether it exists. Whoever holds a chunk keeps the loop open (the caller waits for `done` to reach the number of chunks), so a
// worker that arrives late either claims a chunk of the loop running now, or none.
#include "thread_pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fp_mode.hpp"

namespace hal {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kMaxThreads = 1024;
constexpr int64_t kChunksPerThread = 4;
constexpr std::chrono::microseconds kSpin{50};

thread_local bool inside_loop = false;
std::atomic<uint32_t> forks{0};  // between this process and the first that loaded us

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int32_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return count;
  }
  const unsigned count = std::thread::hardware_concurrency();  // more CPUs than cpu_set_t holds
  return count > 0 ? static_cast<int32_t>(count) : 1;
}

int32_t default_threads() {
  const char *text = std::getenv("HAL_NUM_THREADS");
  if (text != nullptr && *text != '\0') {
    char *end = nullptr;
    errno = 0;
    const long value = std::strtol(text, &end, 10);
    if (errno == 0 && *end == '\0' && value >= 1 && value <= kMaxThreads) return static_cast<int32_t>(value);
    std::fprintf(stderr, "hal: ignoring HAL_NUM_THREADS=%s: expected an integer from 1 to %d\n", text, kMaxThreads);
  }
  return std::min(usable_cpus(), kMaxThreads);
}

class Pool {
 public:
  explicit Pool(int32_t threads) : threads_(threads), spin_(threads <= usable_cpus()) {}

  int32_t threads() const { return threads_.load(std::memory_order_relaxed); }

  void resize(int32_t threads) {
    std::lock_guard lock(loop_mutex_);
    stop_workers();
    threads_.store(threads, std::memory_order_relaxed);
    spin_.store(threads <= usable_cpus(), std::memory_order_relaxed);
  }

  // False if another thread's loop is running: the caller then works alone.
  bool run(int64_t n, int64_t chunks, hal_loop_body body, void *context) {
    std::unique_lock lock(loop_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    if (!started_) start_workers();
    body_ = body;
    context_ = context;
    quotient_ = n / chunks;
    remainder_ = n % chunks;
    error_ = nullptr;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(static_cast<uint64_t>(chunks) << 32, std::memory_order_release);
    const uint32_t generation = forks.load(std::memory_order_relaxed);
    wake(chunks - 1);
    work();
    if (forks.load(std::memory_order_relaxed) != generation)
      throw Error(HAL_ERROR_INTERNAL, "[parallel_for] the loop body forked: the child has no workers to finish the loop");
    wait_until_done(static_cast<uint32_t>(chunks));
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }

 private:
  void start_workers() {
    started_ = true;
    stop_.store(false, std::memory_order_relaxed);
    const uint64_t epoch = epoch_.load(std::memory_order_relaxed);
    sigset_t all, before;  // signals belong to the application's threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (int32_t i = 1; i < threads(); ++i) workers_.emplace_back([this, epoch] { worker(epoch); });
    } catch (const std::system_error &) {
      // No more threads to be had: the loop runs on those that there are.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void stop_workers() {
    stop_.store(true, std::memory_order_relaxed);
    wake(static_cast<int64_t>(workers_.size()));
    for (std::thread &thread : workers_) thread.join();
    workers_.clear();
    started_ = false;
  }

  void wake(int64_t count) {
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    const int64_t sleepers = sleepers_.load(std::memory_order_seq_cst);
    if (sleepers == 0) return;
    {
      std::lock_guard lock(sleep_mutex_);
    }
    if (count >= sleepers)
      wake_up_.notify_all();
    else
      for (int64_t i = 0; i < count; ++i) wake_up_.notify_one();
  }

  void worker(uint64_t seen) {
    inside_loop = true;
    DefaultFpMode mode;
    while (true) {
      wait_for_epoch(seen);
      seen = epoch_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      work();
    }
  }

  void wait_for_epoch(uint64_t seen) {
    if (spin_.load(std::memory_order_relaxed)) {
      const auto limit = Clock::now() + kSpin;
      do {
        for (int i = 0; i < 64; ++i) {
          if (epoch_.load(std::memory_order_acquire) != seen) return;
          pause();
        }
      } while (Clock::now() < limit);
    }
    std::unique_lock lock(sleep_mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_up_.wait(lock, [&] { return epoch_.load(std::memory_order_seq_cst) != seen; });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Claims and runs chunks until there are none.
  void work() {
    while (true) {
      const uint64_t ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
      const auto chunk = static_cast<int64_t>(ticket & 0xffffffffu);
      const auto chunks = static_cast<int64_t>(ticket >> 32);
      if (chunk >= chunks) return;
      const int64_t begin = chunk * quotient_ + std::min(chunk, remainder_);
      const int64_t end = begin + quotient_ + (chunk < remainder_ ? 1 : 0);
      try {
        DefaultFpMode mode;
        body_(context_, begin, end);
      } catch (...) {
        std::lock_guard lock(sleep_mutex_);
        if (!error_) error_ = std::current_exception();
      }
      if (done_.fetch_add(1, std::memory_order_seq_cst) + 1 == static_cast<uint32_t>(chunks) &&
          caller_sleeps_.load(std::memory_order_seq_cst)) {
        {
          std::lock_guard lock(sleep_mutex_);
        }
        all_done_.notify_one();
      }
    }
  }

  void wait_until_done(uint32_t chunks) {
    if (done_.load(std::memory_order_acquire) == chunks) return;
    if (spin_.load(std::memory_order_relaxed)) {
      const auto limit = Clock::now() + kSpin;
      do {
        for (int i = 0; i < 64; ++i) {
          if (done_.load(std::memory_order_acquire) == chunks) return;
          pause();
        }
      } while (Clock::now() < limit);
    }
    std::unique_lock lock(sleep_mutex_);
    caller_sleeps_.store(true, std::memory_order_seq_cst);
    all_done_.wait(lock, [&] { return done_.load(std::memory_order_seq_cst) == chunks; });
    caller_sleeps_.store(false, std::memory_order_relaxed);
  }

  std::mutex loop_mutex_;  // held by the caller of the running loop
  std::atomic<int32_t> threads_;
  std::atomic<bool> spin_;
  bool started_ = false;
  std::vector<std::thread> workers_;

  // The running loop.
  hal_loop_body body_ = nullptr;
  void *context_ = nullptr;
  int64_t quotient_ = 0, remainder_ = 0;
  std::exception_ptr error_;

  alignas(64) std::atomic<uint64_t> epoch_{0};
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<int64_t> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};
  std::mutex sleep_mutex_;
  std::condition_variable wake_up_, all_done_;
};

// Never destroyed: workers may still wait on it while the process exits.
std::atomic<Pool *> pool_pointer{nullptr};
std::atomic<int32_t> wanted_threads{0};  // 0: not asked yet

// The child has no workers and perhaps locked mutexes: it forgets the pool and builds one on demand.
void after_fork_in_child() {
  pool_pointer.store(nullptr, std::memory_order_relaxed);
  forks.fetch_add(1, std::memory_order_relaxed);
}

Pool &pool() {
  Pool *current = pool_pointer.load(std::memory_order_acquire);
  if (current != nullptr) return *current;
  static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
  (void)registered;
  int32_t threads = wanted_threads.load(std::memory_order_relaxed);
  if (threads == 0) {
    threads = default_threads();
    int32_t none = 0;
    if (!wanted_threads.compare_exchange_strong(none, threads)) threads = none;
  }
  auto *fresh = new Pool(threads);
  if (pool_pointer.compare_exchange_strong(current, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread was faster; ours has no workers yet
  return *current;
}

void run_alone(int64_t n, hal_loop_body body, void *context) {
  const bool outer = inside_loop;
  inside_loop = true;
  struct Restore {
    bool outer;
    ~Restore() { inside_loop = outer; }
  } restore{outer};
  DefaultFpMode mode;
  body(context, 0, n);
}

}  // namespace

void parallel_for(int64_t n, int64_t grain, hal_loop_body body, void *context) {
  if (n <= 0) return;
  if (inside_loop || n < 2 || grain >= n) return run_alone(n, body, context);
  Pool &p = pool();
  const int64_t threads = p.threads();
  const int64_t chunks = std::min(n / std::max<int64_t>(grain, 1), threads * kChunksPerThread);
  if (threads == 1 || chunks < 2) return run_alone(n, body, context);
  bool ran;
  {
    inside_loop = true;
    struct Restore {
      ~Restore() { inside_loop = false; }
    } restore;
    ran = p.run(n, chunks, body, context);
  }
  if (!ran) run_alone(n, body, context);
}

int32_t num_threads() { return pool().threads(); }

void set_num_threads(int32_t n) {
  if (n < 1 || n > kMaxThreads)
    throw Error(ErrorKind::Value,
                "[set_num_threads] got " + std::to_string(n) + ", expected an integer from 1 to " + std::to_string(kMaxThreads));
  if (inside_loop) throw Error(HAL_ERROR_INVALID_ARGUMENT, "[set_num_threads] called inside a loop body, which it would have to wait for");
  wanted_threads.store(n, std::memory_order_relaxed);
  pool().resize(n);
}

}  // namespace hal
