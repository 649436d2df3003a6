#include "mutex.hpp"

#include <vector>

#include "device.hpp"
#include "thread_state.hpp"

namespace hal {
namespace {

__thread int t_hooks = 0;

struct PutOff {
  std::mutex mutex;  // never held while anything else runs
  std::atomic<bool> any{false};
  std::vector<std::function<void()>> work;
};

PutOff &put_off_work() {
  static auto *instance = new PutOff;  // never destroyed: the runtime outlives static destruction
  return *instance;
}

}  // namespace

const void *Mutex::self() { return &t_hooks; }

void Mutex::wait() {
  if (owner_.load(std::memory_order_relaxed) == self())
    throw Error(HAL_ERROR_INTERNAL, "a plugin's hook called back into the runtime where it can't: the call that runs the hook is not done");
  // The lock isn't kept while the interpreter's lock is waited for: a thread that stops there (at exit) must not own it.
  do {
    BlockingScope blocking;
    mutex_.lock();
    mutex_.unlock();
  } while (!mutex_.try_lock());
}

HookScope::HookScope() { ++t_hooks; }
HookScope::~HookScope() { --t_hooks; }
bool in_hook() { return t_hooks > 0; }

void put_off(std::function<void()> work) {
  PutOff &p = put_off_work();
  std::lock_guard<std::mutex> lock(p.mutex);
  p.work.push_back(std::move(work));
  p.any.store(true, std::memory_order_release);
}

void run_put_off() {
  PutOff &p = put_off_work();
  if (__builtin_expect(!p.any.load(std::memory_order_acquire), 1) || in_hook()) return;
  std::vector<std::function<void()>> work;
  {
    std::lock_guard<std::mutex> lock(p.mutex);
    work.swap(p.work);
    p.any.store(false, std::memory_order_release);
  }
  for (auto &w : work) w();
}

}  // namespace hal
