// The floating-point mode that the numerics contract needs: round to nearest even, subnormals kept, no traps.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace hal {

// Sets the default mode for a scope and restores what the caller had (another library may have set flush-to-zero).
class DefaultFpMode {
 public:
  DefaultFpMode() : saved_(read()), changed_((saved_ & kModeBits) != kDefault) {
    if (changed_) write(kDefault);
  }
  ~DefaultFpMode() {
    if (changed_) write(saved_);
  }
  DefaultFpMode(const DefaultFpMode &) = delete;
  DefaultFpMode &operator=(const DefaultFpMode &) = delete;

 private:
#if defined(__x86_64__) || defined(__i386__)
  static constexpr uint64_t kDefault = 0x1f80;
  static constexpr uint64_t kModeBits = ~uint64_t{0x3f};  // all but the sticky exception flags
  static uint64_t read() { return _mm_getcsr(); }
  static void write(uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kDefault = 0;
  static constexpr uint64_t kModeBits = ~uint64_t{0};
  static uint64_t read() {
    uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(uint64_t value) { asm volatile("msr fpcr, %0" ::"r"(value)); }
#else
  static constexpr uint64_t kDefault = 0;
  static constexpr uint64_t kModeBits = 0;
  static uint64_t read() { return 0; }
  static void write(uint64_t) {}
#endif
  uint64_t saved_;
  bool changed_;
};

}  // namespace hal
