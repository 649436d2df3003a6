/* Reads and writes the calling thread's flush-to-zero and denormals-are-zero bits. */
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
static const uint32_t kFlush = 0x8040; /* FTZ, DAZ */
static uint32_t get(void) { return _mm_getcsr(); }
static void set(uint32_t mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
static const uint32_t kFlush = 1u << 24; /* FZ */
static uint32_t get(void) {
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return (uint32_t)mode;
}
static void set(uint32_t mode) {
  uint64_t wide = mode;
  __asm__ volatile("msr fpcr, %0" ::"r"(wide));
}
#else
#error "flush-to-zero of this processor isn't known here"
#endif

int flushes(void) { return (get() & kFlush) == kFlush; }
void set_flush(int on) { set(on ? get() | kFlush : get() & ~kFlush); }
