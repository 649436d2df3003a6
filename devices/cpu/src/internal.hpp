// What the plugin's files share: the objects behind the ABI's opaque handles, and how a failure is told.
#pragma once

#include <hal/plugin.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "isa.hpp"
#include "kernel.hpp"

namespace cpu {

void set_host(const hal_host_api *api);

// Describes the failure to the host and gives `status` back.
hal_status fail(hal_status status, const std::string &text);

// Runs `body` so that no exception leaves the plugin. What kernels and allocations throw becomes a status with text.
template <class Body>
hal_status guarded(Body &&body) noexcept;

// The status and text of the exception in flight.
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

// One per table of the ABI.
extern const hal_device_api device_api;
extern const hal_memory_api memory_api;
extern const hal_stream_api stream_api;
extern const hal_event_api event_api;
extern const hal_kernel_api kernel_api;

}  // namespace cpu

struct hal_device {
  const cpu::Isa *isa = nullptr;
  // Streams that were destroyed while busy finish on their own threads; close waits for them.
  std::mutex mutex;
  std::condition_variable orphan_done;
  int orphans = 0;
};

struct hal_memory {
  char *data = nullptr;
  uint64_t size = 0;
  bool owned = false;  // not adopted
};

struct hal_executable {
  struct Operand {
    enum Kind : uint8_t { kTensor, kImmediate, kAbsent, kEmpty } kind;
    int64_t low, high;  // bytes that the operand reaches, [low, high), relative to its element [0, ..., 0]
  };
  std::unique_ptr<cpu::Kernel> kernel;
  std::vector<Operand> operands;
  std::string name;
};
