// Stores that bypass the caches, for outputs too large to stay in them: they save reading each line before it is overwritten.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace cpu {

// Bytes of output from which streaming pays: with its operands it no longer fits usual last-level caches.
constexpr int64_t kStreamFrom = int64_t(16) << 20;

// Copies; `to` needs no alignment.
inline void stream_copy(char *to, const char *from, int64_t bytes) {
#if defined(__SSE2__)
  const int64_t head = (-reinterpret_cast<intptr_t>(to)) & 31;
  if (bytes < 64 || head > bytes) {
    std::memcpy(to, from, size_t(bytes));
    return;
  }
  std::memcpy(to, from, size_t(head));
  int64_t i = head;
#if defined(__AVX__)
  for (; i + 32 <= bytes; i += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i *>(to + i), _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + i)));
#else
  for (; i + 16 <= bytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i *>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i)));
#endif
  std::memcpy(to + i, from + i, size_t(bytes - i));
#else
  std::memcpy(to, from, size_t(bytes));
#endif
}

// Orders streamed stores before what follows, for other threads.
inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace cpu
