// fork() while other threads are inside the runtime: its locks are taken first, so that the child finds them free and what they guard
// whole.
#include "fork.hpp"

#include <pthread.h>

#include <chrono>
#include <thread>

#include "allocator_impl.hpp"
#include "device_registry.hpp"
#include "executable_cache.hpp"

namespace hal {

// A thread that holds one of the locks may be in a kernel for long, or be the one that forks (from a kernel): then fork goes on without it.
constexpr std::chrono::seconds kPatience{5};

class ForkLocks {
 public:
  static void prepare() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    auto *locks = new ForkLocks;
    while (!locks->take_all(false) && std::chrono::steady_clock::now() < deadline) {
      locks->release();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (!locks->whole_) {
      locks->release();
      locks->take_all(true);
    }
    held_ = locks;
  }

  // In the parent and in the child: the child's only thread is the one that took them.
  static void done() {
    ForkLocks *locks = held_;
    held_ = nullptr;
    if (!locks) return;
    locks->release();
    delete locks;
  }

 private:
  // All or, unless `partly`, nothing more after the first that another thread has: waiting with some of them held could deadlock.
  bool take_all(bool partly) {
    whole_ = true;
    const auto take = [&](Mutex &mutex) {
      std::unique_lock<Mutex> lock(mutex, std::try_to_lock);
      if (!lock.owns_lock()) return whole_ = false;
      locks_.push_back(std::move(lock));
      return true;
    };
    DeviceRegistry &registry = DeviceRegistry::get();
    if (!take(registry.mutex_)) return false;
    for (auto &entry : registry.devices_) {
      Device &device = *entry.second;
      if (!take(device.allocator().impl_->mutex) && !partly) return false;
      if (!take(device.executables().mutex_) && !partly) return false;
      if (!take(device.streams_mutex_)) {
        if (!partly) return false;
        continue;
      }
      for (const auto &weak : device.streams_) {
        std::shared_ptr<Stream> stream = weak.lock();
        if (!stream) continue;
        streams_.push_back(stream);
        if (!take(stream->mutex_) && !partly) return false;
      }
    }
    return whole_;
  }

  void release() {
    locks_.clear();
    streams_.clear();  // the last owner may be gone by now: that takes locks
  }

  static ForkLocks *held_;  // between prepare and done, which one thread runs
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<std::unique_lock<Mutex>> locks_;
  bool whole_ = false;
};

ForkLocks *ForkLocks::held_ = nullptr;

void hold_locks_at_fork() { pthread_atfork(ForkLocks::prepare, ForkLocks::done, ForkLocks::done); }

}  // namespace hal
