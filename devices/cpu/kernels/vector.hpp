// One SIMD register of the compute type, with the few operations that chains need, and storage types that convert to it.
#pragma once

#include <hal/numerics/numerics.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define CPU_VECTOR_AVX2 1
#endif

namespace cpu {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

// Compute type of a storage type: halves compute in f32.
template <class S>
using compute_t = std::conditional_t<std::is_same_v<S, double>, double, float>;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(f16 x) { return hal_f16_to_f32(x.bits); }
inline float widen(bf16 x) { return hal_bf16_to_f32(x.bits); }

template <class S>
S narrow(compute_t<S> x) {
  if constexpr (std::is_same_v<S, f16>) {
    return f16{hal_f32_to_f16(x)};
  } else if constexpr (std::is_same_v<S, bf16>) {
    return bf16{hal_f32_to_bf16(x)};
  } else {
    return x;
  }
}

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class T>
struct Vec;

#ifdef CPU_VECTOR_AVX2

template <>
struct Vec<float> {
  using reg = __m256;
  static constexpr int lanes = 8;
  static reg zero() { return _mm256_setzero_ps(); }
  static reg load(const float *p) { return _mm256_loadu_ps(p); }
  static reg load(const f16 *p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))); }
  static reg load(const bf16 *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))), 16));
  }
  // The first n lanes, zeros in the others; nothing beyond them is read.
  static reg load_first(const float *p, int n) {
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
  }
  // Every second one of 16.
  static reg load_even(const float *p) {
    const reg even = _mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
  }
  static void store(float *p, reg v) { _mm256_storeu_ps(p, v); }
  static reg broadcast(const float *p) { return _mm256_broadcast_ss(p); }
  static reg fma(reg a, reg b, reg c) { return _mm256_fmadd_ps(a, b, c); }
  static reg add(reg a, reg b) { return _mm256_add_ps(a, b); }
  static void transpose(reg *r) {
    reg t[8];
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      const reg low = r[i], high = r[i + 4];
      r[i] = _mm256_permute2f128_ps(low, high, 0x20);
      r[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
  }
};

template <>
struct Vec<double> {
  using reg = __m256d;
  static constexpr int lanes = 4;
  static reg zero() { return _mm256_setzero_pd(); }
  static reg load(const double *p) { return _mm256_loadu_pd(p); }
  static void store(double *p, reg v) { _mm256_storeu_pd(p, v); }
  static reg broadcast(const double *p) { return _mm256_broadcast_sd(p); }
  static reg fma(reg a, reg b, reg c) { return _mm256_fmadd_pd(a, b, c); }
  static reg add(reg a, reg b) { return _mm256_add_pd(a, b); }
  static void transpose(reg *r) {
    const reg t0 = _mm256_unpacklo_pd(r[0], r[1]), t1 = _mm256_unpackhi_pd(r[0], r[1]);
    const reg t2 = _mm256_unpacklo_pd(r[2], r[3]), t3 = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(t0, t2, 0x20);
    r[1] = _mm256_permute2f128_pd(t1, t3, 0x20);
    r[2] = _mm256_permute2f128_pd(t0, t2, 0x31);
    r[3] = _mm256_permute2f128_pd(t1, t3, 0x31);
  }
};

#else

// The same shape in plain loops: any compiler, any machine; without an fma instruction libm's exact one.
template <class T>
struct Vec {
  static constexpr int lanes = 32 / sizeof(T);
  struct reg {
    T x[lanes];
  };
  template <class F>
  static reg each(F &&f) {
    reg r;
    for (int i = 0; i < lanes; ++i) r.x[i] = f(i);
    return r;
  }
  static reg zero() {
    return each([](int) { return T(0); });
  }
  template <class S>
  static reg load(const S *p) {
    return each([p](int i) { return widen(p[i]); });
  }
  static void store(T *p, const reg &v) { std::memcpy(p, v.x, sizeof v.x); }
  static reg broadcast(const T *p) {
    return each([p](int) { return *p; });
  }
  static reg fma(const reg &a, const reg &b, const reg &c) {
    return each([&](int i) { return fused(a.x[i], b.x[i], c.x[i]); });
  }
  static reg add(const reg &a, const reg &b) {
    return each([&](int i) { return a.x[i] + b.x[i]; });
  }
  static void transpose(reg *r) {
    for (int i = 0; i < lanes; ++i)
      for (int j = 0; j < i; ++j) std::swap(r[i].x[j], r[j].x[i]);
  }
};

#endif

}  // namespace cpu
