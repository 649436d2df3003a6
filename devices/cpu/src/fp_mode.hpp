// Kernels run in the default floating-point mode: round to nearest even, subnormals kept. Another library may have set flush-to-zero on
// the calling thread; the mode is put back afterwards.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace cpu {

class DefaultFpMode {
 public:
#if defined(__SSE__)
  DefaultFpMode() : saved_(_mm_getcsr()) {
    if (differs()) _mm_setcsr(kDefault);
  }
  ~DefaultFpMode() {
    if (differs()) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80, kStickyFlags = 0x3f;
  bool differs() const { return (saved_ & ~kStickyFlags) != kDefault; }
  unsigned saved_;
#elif defined(__aarch64__)
  DefaultFpMode() {
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(saved_));
    if (saved_ != 0) set(0);
  }
  ~DefaultFpMode() {
    if (saved_ != 0) set(saved_);
  }

 private:
  static void set(uint64_t value) { __asm__ __volatile__("msr fpcr, %0" : : "r"(value)); }
  uint64_t saved_;
#else
#error "say how this architecture sets its floating-point mode"
#endif
 public:
  DefaultFpMode(const DefaultFpMode &) = delete;
  DefaultFpMode &operator=(const DefaultFpMode &) = delete;
};

}  // namespace cpu
