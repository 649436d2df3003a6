// Locks that a host language's own lock can live beside, and what a thread inside a plugin's hook may not do.
//
// A plugin written in Python takes the interpreter's lock inside calls that the runtime makes with a lock held. So nobody may wait for
// such a lock while holding the interpreter's: Mutex gives it away first. And a garbage collection inside a hook may destroy buffers,
// streams or executables while the same thread holds the lock that their destruction needs: such work is put off.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "plugin_loader.hpp"

namespace hal {

// For std::lock_guard and std::unique_lock. Locking it twice from one thread throws Error(HAL_ERROR_INTERNAL): a hook called back.
class HAL_API Mutex {
 public:
  void lock() {
    if (__builtin_expect(!mutex_.try_lock(), 0)) wait();
    owner_.store(self(), std::memory_order_relaxed);
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    owner_.store(self(), std::memory_order_relaxed);
    return true;
  }
  void unlock() {
    owner_.store(nullptr, std::memory_order_relaxed);
    mutex_.unlock();
  }

 private:
  static const void *self();
  void wait();  // returns with mutex_ held
  std::mutex mutex_;
  std::atomic<const void *> owner_{nullptr};
};

// Around a call into a plugin's hook that may run arbitrary code.
class HAL_API HookScope {
 public:
  HookScope();
  ~HookScope();
  HookScope(const HookScope &) = delete;
  HookScope &operator=(const HookScope &) = delete;
};

// True if this thread is inside a hook.
HAL_API bool in_hook();
// Runs `work` later, on a thread that is in no hook and holds no lock.
HAL_API void put_off(std::function<void()> work);
// Runs what was put off; nothing inside a hook. Call without locks.
HAL_API void run_put_off();

}  // namespace hal
