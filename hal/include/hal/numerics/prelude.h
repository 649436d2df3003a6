/* Numerics prelude: one set of names under which C11, C++17, CUDA C (nvcc, NVRTC) and OpenCL C 1.2 compile
 * the same functions, so that every device computes the same bits.
 *
 * The bits hold only under these flags (round to nearest even, subnormals kept, no contraction):
 *   gcc/clang  -ffp-contract=off, no -ffast-math; for speed: -O3 -mfma -fno-math-errno -fno-trapping-math
 *   CUDA       --fmad=false -ftz=false -prec-div=true -prec-sqrt=true
 *   OpenCL     -cl-fp32-correctly-rounded-divide-sqrt (FP_CONTRACT is switched off below)
 * -fno-trapping-math only drops exception flags, which nothing here reads; it lets gcc vectorise the selects.
 * Without -mfma gcc calls libm's fma, which is exact: slow, but the same bits.
 * Compile for SSE2 or later on x86: x87 keeps excess precision (refused below).
 *
 * HAL_NO_F64: define it to leave out everything that needs double (set here where OpenCL lacks it).
 */
#ifndef HAL_NUMERICS_PRELUDE_H
#define HAL_NUMERICS_PRELUDE_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "hal/numerics needs IEEE-754 semantics: compile without -ffast-math / -ffinite-math-only"
#endif

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define HAL_LANG_OPENCL 1
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HAL_LANG_CUDA 1
#else
#define HAL_LANG_C 1
#endif

/* ---- types ---- */
#if defined(HAL_LANG_OPENCL)
#pragma OPENCL FP_CONTRACT OFF
#if defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#elif !defined(HAL_NO_F64) && (!defined(__OPENCL_C_VERSION__) || __OPENCL_C_VERSION__ < 300)
#define HAL_NO_F64 1
#endif
typedef char hal_i8;
typedef short hal_i16;
typedef int hal_i32;
typedef long hal_i64;
typedef uchar hal_u8;
typedef ushort hal_u16;
typedef uint hal_u32;
typedef ulong hal_u64;
#elif defined(__CUDACC_RTC__)
typedef signed char hal_i8;
typedef short hal_i16;
typedef int hal_i32;
typedef long long hal_i64;
typedef unsigned char hal_u8;
typedef unsigned short hal_u16;
typedef unsigned int hal_u32;
typedef unsigned long long hal_u64;
#else
#include <stdint.h>
#include <string.h>
typedef int8_t hal_i8;
typedef int16_t hal_i16;
typedef int32_t hal_i32;
typedef int64_t hal_i64;
typedef uint8_t hal_u8;
typedef uint16_t hal_u16;
typedef uint32_t hal_u32;
typedef uint64_t hal_u64;
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "hal/numerics needs float and double without excess precision (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
#endif
typedef float hal_f32;
#ifndef HAL_NO_F64
typedef double hal_f64;
#endif

/* ---- function qualifier: always inlined, so that a plain loop over any function can be vectorised ---- */
#if defined(HAL_LANG_OPENCL)
#define HAL_FN
#elif defined(__CUDACC_RTC__)
#define HAL_FN static __device__ __forceinline__
#elif defined(HAL_LANG_CUDA)
#define HAL_FN static __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define HAL_FN static inline __attribute__((always_inline, unused))
#else
#define HAL_FN static inline
#endif

/* ---- the two operations that no operator gives; both correctly rounded ---- */
#if defined(HAL_LANG_OPENCL)
#define HAL_FMA_F32(a, b, c) fma((hal_f32)(a), (hal_f32)(b), (hal_f32)(c))
#define HAL_SQRT_F32(a) sqrt((hal_f32)(a))
#define HAL_FMA_F64(a, b, c) fma((hal_f64)(a), (hal_f64)(b), (hal_f64)(c))
#define HAL_SQRT_F64(a) sqrt((hal_f64)(a))
#elif defined(HAL_LANG_CUDA) && defined(__CUDA_ARCH__)
#define HAL_FMA_F32(a, b, c) __fmaf_rn((a), (b), (c))
#define HAL_SQRT_F32(a) __fsqrt_rn(a)
#define HAL_FMA_F64(a, b, c) __fma_rn((a), (b), (c))
#define HAL_SQRT_F64(a) __dsqrt_rn(a)
#elif defined(__GNUC__)
#define HAL_FMA_F32(a, b, c) __builtin_fmaf((a), (b), (c))
#define HAL_SQRT_F32(a) __builtin_sqrtf(a)
#define HAL_FMA_F64(a, b, c) __builtin_fma((a), (b), (c))
#define HAL_SQRT_F64(a) __builtin_sqrt(a)
#else
#include <math.h>
#define HAL_FMA_F32(a, b, c) fmaf((a), (b), (c))
#define HAL_SQRT_F32(a) sqrtf(a)
#define HAL_FMA_F64(a, b, c) fma((a), (b), (c))
#define HAL_SQRT_F64(a) sqrt(a)
#endif

/* A 64-bit constant from its halves: no suffix means 64 bits in all four languages. */
#define HAL_U64(hi, lo) ((((hal_u64)(hi)) << 32) | (hal_u64)(lo))

/* ---- bit casts ---- */
HAL_FN hal_u32 hal_f32_to_bits(hal_f32 x) {
#if defined(HAL_LANG_OPENCL)
  return as_uint(x);
#elif defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  hal_u32 u;
  memcpy(&u, &x, sizeof u);
  return u;
#endif
}

HAL_FN hal_f32 hal_f32_from_bits(hal_u32 u) {
#if defined(HAL_LANG_OPENCL)
  return as_float(u);
#elif defined(__CUDA_ARCH__)
  return __uint_as_float(u);
#else
  hal_f32 x;
  memcpy(&x, &u, sizeof x);
  return x;
#endif
}

#ifndef HAL_NO_F64
HAL_FN hal_u64 hal_f64_to_bits(hal_f64 x) {
#if defined(HAL_LANG_OPENCL)
  return as_ulong(x);
#elif defined(__CUDA_ARCH__)
  return (hal_u64)__double_as_longlong(x);
#else
  hal_u64 u;
  memcpy(&u, &x, sizeof u);
  return u;
#endif
}

HAL_FN hal_f64 hal_f64_from_bits(hal_u64 u) {
#if defined(HAL_LANG_OPENCL)
  return as_double(u);
#elif defined(__CUDA_ARCH__)
  return __longlong_as_double((long long)u);
#else
  hal_f64 x;
  memcpy(&x, &u, sizeof x);
  return x;
#endif
}
#endif

/* ---- named values and sign operations, by bits (no header of any language needed) ---- */
HAL_FN hal_f32 hal_inf_f32(void) { return hal_f32_from_bits(0x7f800000u); }
HAL_FN hal_f32 hal_nan_f32(void) { return hal_f32_from_bits(0x7fc00000u); }
HAL_FN hal_f32 hal_abs_f32(hal_f32 x) { return hal_f32_from_bits(hal_f32_to_bits(x) & 0x7fffffffu); }
HAL_FN hal_f32 hal_copysign_f32(hal_f32 mag, hal_f32 sgn) {
  return hal_f32_from_bits((hal_f32_to_bits(mag) & 0x7fffffffu) | (hal_f32_to_bits(sgn) & 0x80000000u));
}
HAL_FN hal_i32 hal_isnan_f32(hal_f32 x) { return x != x; }

/* 2^n for -126 <= n <= 127 (the caller keeps n in range). */
HAL_FN hal_f32 hal_pow2_f32(hal_i32 n) { return hal_f32_from_bits((hal_u32)(n + 127) << 23); }

#ifndef HAL_NO_F64
HAL_FN hal_f64 hal_inf_f64(void) { return hal_f64_from_bits(HAL_U64(0x7ff00000u, 0)); }
HAL_FN hal_f64 hal_nan_f64(void) { return hal_f64_from_bits(HAL_U64(0x7ff80000u, 0)); }
HAL_FN hal_f64 hal_abs_f64(hal_f64 x) { return hal_f64_from_bits(hal_f64_to_bits(x) & HAL_U64(0x7fffffffu, 0xffffffffu)); }
HAL_FN hal_f64 hal_copysign_f64(hal_f64 mag, hal_f64 sgn) {
  return hal_f64_from_bits((hal_f64_to_bits(mag) & HAL_U64(0x7fffffffu, 0xffffffffu)) | (hal_f64_to_bits(sgn) & HAL_U64(0x80000000u, 0)));
}
HAL_FN hal_i32 hal_isnan_f64(hal_f64 x) { return x != x; }

/* 2^n for -1022 <= n <= 1023. */
HAL_FN hal_f64 hal_pow2_f64(hal_i64 n) { return hal_f64_from_bits((hal_u64)(n + 1023) << 52); }
#endif

/* An unevaluated sum hi + lo, |lo| <= ulp(hi)/2 where it matters. */
typedef struct {
  hal_f32 hi, lo;
} hal_pair_f32;
#ifndef HAL_NO_F64
typedef struct {
  hal_f64 hi, lo;
} hal_pair_f64;
#endif

#endif
