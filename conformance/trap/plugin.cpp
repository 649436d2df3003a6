// The entry, the shared state, and the controls that tests use.
#include <hal/ops.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "trap.hpp"

namespace trap {

State &state() {
  static State &s = *new State;  // never destroyed: worker threads may outlive static destruction
  return s;
}

hal_status fail(hal_status status, const std::string &text) {
  if (state().runtime != nullptr) state().runtime->set_error_text(text.c_str());
  return status;
}

hal_status current_exception_status(std::string &text) noexcept {
  try {
    try {
      throw;
    } catch (const std::invalid_argument &e) {
      text = e.what();
      return HAL_ERROR_INVALID_ARGUMENT;
    } catch (const std::bad_alloc &) {
      text = "out of host memory";
      return HAL_ERROR_OUT_OF_MEMORY;
    } catch (const std::exception &e) {
      text = e.what();
      return HAL_ERROR_INTERNAL;
    }
  } catch (...) {
    return HAL_ERROR_INTERNAL;
  }
}

void violation_locked(const std::string &text) {
  State &s = state();
  ++s.violations;
  if (s.violation_text.size() < 4096) s.violation_text += (s.violation_text.empty() ? "" : "; ") + text;
  if (s.runtime != nullptr && s.runtime->log != nullptr) s.runtime->log(3, ("trap: " + text).c_str());
}

void violation(const std::string &text) {
  std::lock_guard<std::mutex> lock(state().mutex);
  violation_locked(text);
}

bool fires(FaultKind kind) {
  Fault &fault = state().faults[kind];
  ++fault.calls;
  if (fault.after == 0) return false;
  if (fault.after > 1) {
    --fault.after;
    return false;
  }
  ++fault.fired;
  if (--fault.times <= 0) fault.after = 0, fault.times = 1;
  return true;
}

namespace {

const char *const kFaultNames[kFaultKinds] = {"alloc", "prepare", "launch", "kernel", "copy", "lose"};

uint64_t parse_number(const std::string &item, const std::string &value) {
  char *end = nullptr;
  const unsigned long long number = std::strtoull(value.c_str(), &end, 10);
  if (value.empty() || *end != 0) throw std::invalid_argument("[trap] expected a number: got '" + item + "'");
  return number;
}

void set(const std::string &item, const std::string &key, const std::string &value) {
  State &s = state();
  const uint64_t number = parse_number(item, value);
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    Fault &fault = s.faults[kind];
    if (key == kFaultNames[kind]) {
      fault.after = int64_t(number);
      fault.times = 1;
      fault.fired = 0;
      return;
    }
    if (key == std::string(kFaultNames[kind]) + "_times") {
      fault.times = int64_t(number);
      return;
    }
  }
  if (key == "seed")
    s.seed = number;
  else if (key == "delays")
    s.hold_delays = number == 0;
  else if (key == "memory")
    s.memory_limit = number;
  else if (key == "offset_alignment" && number != 0 && (number & (number - 1)) == 0)
    s.offset_alignment = uint32_t(number);
  else if (key == "devices" && number >= 1 && number <= 16)
    s.devices = uint32_t(number);
  else
    throw std::invalid_argument("[trap] unknown setting: got '" + item +
                                "', expected seed, delays, memory, offset_alignment (a power of two), devices (1 to 16), or one of alloc, "
                                "prepare, launch, kernel, copy, lose (n: the n-th call fails) and their _times");
}

// A forked child has none of the threads, and the lock must be in a known state there.
void before_fork() { state().mutex.lock(); }
void after_fork_in_parent() { state().mutex.unlock(); }
void after_fork_in_child() {
  State &s = state();
  ++s.generation;
  s.mutex.unlock();
  new (&s.changed) std::condition_variable;  // the parent's waiters aren't here
}

hal_status init() {
  static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)registered;
  return guarded([] {
    const char *settings = std::getenv("HAL_TRAP");
    if (settings != nullptr) configure(settings);
    return hal_status{HAL_OK};
  });
}

const hal_plugin_api plugin_api = {
    sizeof(hal_plugin_api),
    HAL_ABI_MAJOR,
    HAL_ABI_MINOR,
    "trap",
    "0.1.0",
    0,
    HAL_OPSET_VERSION,
    init,
    nullptr,
    &device_api,
    &memory_api,
    &stream_api,
    &event_api,
    &kernel_api,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

void configure(const char *text) {
  std::lock_guard<std::mutex> lock(state().mutex);
  std::string rest = text;
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string item = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    const size_t equals = item.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("[trap] expected key=value: got '" + item + "'");
    set(item, item.substr(0, equals), item.substr(equals + 1));
  }
}

}  // namespace trap

extern "C" {

// Controls beside the ABI, for tests in the same process (ctypes).
HAL_EXPORT int hal_trap_set(const char *settings) {
  return trap::guarded([&] {
    trap::configure(settings);
    return hal_status{HAL_OK};
  });
}

// A count by name: violations, memories, streams, events, executables, and <fault>_calls or <fault>_fired; -1 for another name.
HAL_EXPORT int64_t hal_trap_get(const char *name) {
  trap::State &s = trap::state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const std::string key = name;
  if (key == "violations") return s.violations;
  if (key == "memories") return int64_t(s.memories.size());
  if (key == "streams") return int64_t(s.streams.size());
  if (key == "events") return int64_t(s.events.size());
  if (key == "executables") return int64_t(s.executables.size());
  for (int kind = 0; kind < trap::kFaultKinds; ++kind) {
    if (key == std::string(trap::kFaultNames[kind]) + "_calls") return s.faults[kind].calls;
    if (key == std::string(trap::kFaultNames[kind]) + "_fired") return s.faults[kind].fired;
  }
  return -1;
}

// Writes what rules were broken so far, and forgets it.
HAL_EXPORT void hal_trap_take_violations(char *out, size_t size) {
  trap::State &s = trap::state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const size_t n = s.violation_text.size() < size ? s.violation_text.size() : size - 1;
  std::memcpy(out, s.violation_text.data(), n);
  out[n] = 0;
  s.violation_text.clear();
  s.violations = 0;
}

HAL_EXPORT hal_status hal_plugin_entry(const hal_host_api *host, const hal_plugin_api **out) {
  if (out == nullptr || !HAL_HAS_FIELD(host, hal_host_api, log) || host->abi_major != HAL_ABI_MAJOR) return HAL_ERROR_ABI_MISMATCH;
  trap::state().runtime = host;
  *out = &trap::plugin_api;
  return HAL_OK;
}
}
