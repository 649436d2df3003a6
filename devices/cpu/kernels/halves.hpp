// f16 and bf16 to f32 and back, on runs of elements. Each conversion rounds once; F16C gives the same bits as hal/numerics/float16.h
// except in the payload of a NaN.
#pragma once

#include <hal/numerics/numerics.h>

#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace cpu {

inline void f16_to_f32(int64_t n, float *out, const uint16_t *in) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(in + i))));
#endif
  for (; i < n; ++i) out[i] = hal_f16_to_f32(in[i]);
}

inline void f32_to_f16(int64_t n, uint16_t *out, const float *in) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; ++i) out[i] = hal_f32_to_f16(in[i]);
}

inline void bf16_to_f32(int64_t n, float *out, const uint16_t *in) {
  for (int64_t i = 0; i < n; ++i) out[i] = hal_bf16_to_f32(in[i]);
}

inline void f32_to_bf16(int64_t n, uint16_t *out, const float *in) {
  for (int64_t i = 0; i < n; ++i) out[i] = hal_f32_to_bf16(in[i]);
}

}  // namespace cpu
