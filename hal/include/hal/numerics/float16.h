/* Half precision (IEEE binary16) and bfloat16 as 16-bit patterns. Every conversion rounds once, to nearest even;
 * overflow gives infinity, subnormals are kept, every NaN becomes the one canonical quiet NaN.
 * The narrowing steps add half a unit and the tie bit to the pattern and shift, as F. Giesen's float_to_half_fast3_rtne
 * (public domain, 2012) does; a subnormal result comes from adding the power of two whose ulp is the target's unit. */
#ifndef HAL_NUMERICS_FLOAT16_H
#define HAL_NUMERICS_FLOAT16_H
#include "hal/numerics/prelude.h"

#define HAL_F16_NAN 0x7e00u
#define HAL_F16_INF 0x7c00u
#define HAL_BF16_NAN 0x7fc0u
#define HAL_BF16_INF 0x7f80u

HAL_FN hal_f32 hal_f16_to_f32(hal_u16 h) {
  hal_u32 m = ((hal_u32)h & 0x7fffu) << 13;
  hal_u32 e = m & 0x0f800000u;
  /* rebias the exponent by 112, twice for inf and NaN; a subnormal is 2^-14 + m*2^-24 less 2^-14 */
  hal_u32 n = m + (e == 0x0f800000u ? 0x70000000u : 0x38000000u);
  hal_f32 s = hal_f32_from_bits(m + 0x38800000u) - hal_f32_from_bits(0x38800000u);
  hal_u32 r = e == 0u ? hal_f32_to_bits(s) : n;
  return hal_f32_from_bits(r | (((hal_u32)h & 0x8000u) << 16));
}

HAL_FN hal_u16 hal_f32_to_f16(hal_f32 x) {
  hal_u32 u = hal_f32_to_bits(x);
  hal_u32 a = u & 0x7fffffffu;
  hal_u32 n = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  hal_u32 s = hal_f32_to_bits(hal_f32_from_bits(a) + 0.5f) - 0x3f000000u; /* ulp(0.5) = 2^-24 */
  hal_u32 r = a < 0x38800000u ? s : n;
  r = a >= 0x477ff000u ? HAL_F16_INF : r; /* 65520 and above */
  r |= (u >> 16) & 0x8000u;
  return (hal_u16)(a > 0x7f800000u ? HAL_F16_NAN : r);
}

HAL_FN hal_f32 hal_bf16_to_f32(hal_u16 h) { return hal_f32_from_bits((hal_u32)h << 16); }

HAL_FN hal_u16 hal_f32_to_bf16(hal_f32 x) {
  hal_u32 u = hal_f32_to_bits(x);
  hal_u32 r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (hal_u16)((u & 0x7fffffffu) > 0x7f800000u ? HAL_BF16_NAN : r);
}

/* 65520 and above are infinite in f16, so the clamp changes nothing and what is left is exact in f32. */
HAL_FN hal_u16 hal_i64_to_f16(hal_i64 v) {
  v = v > 131072 ? 131072 : v;
  v = v < -131072 ? -131072 : v;
  return hal_f32_to_f16((hal_f32)(hal_i32)v);
}

/* Shortens |v| to 24 bits, the lost bits kept as one sticky bit far below bf16's 8 (Boldo and Melquiond's rounding
 * to odd, 2008), so that the conversion to f32 is exact and only the last step rounds. */
HAL_FN hal_u16 hal_i64_to_bf16(hal_i64 v) {
  hal_u64 m = v < 0 ? (hal_u64)0 - (hal_u64)v : (hal_u64)v;
  hal_f32 s = v < 0 ? -1.0f : 1.0f;
  hal_i32 c = (m >> 44) != 0;
  m = c ? (m >> 20) | ((m & 0xfffffu) != 0) : m;
  s = c ? s * 1048576.0f : s;
  c = (m >> 34) != 0;
  m = c ? (m >> 10) | ((m & 0x3ffu) != 0) : m;
  s = c ? s * 1024.0f : s;
  c = (m >> 24) != 0;
  m = c ? (m >> 10) | ((m & 0x3ffu) != 0) : m;
  s = c ? s * 1024.0f : s;
  return hal_f32_to_bf16((hal_f32)(hal_i32)m * (v == 0 ? 1.0f : s));
}

#ifndef HAL_NO_F64
HAL_FN hal_f64 hal_f16_to_f64(hal_u16 h) { return (hal_f64)hal_f16_to_f32(h); }
HAL_FN hal_f64 hal_bf16_to_f64(hal_u16 h) { return (hal_f64)hal_bf16_to_f32(h); }

HAL_FN hal_u16 hal_f64_to_f16(hal_f64 x) {
  hal_u64 u = hal_f64_to_bits(x);
  hal_u64 a = u & HAL_U64(0x7fffffffu, 0xffffffffu);
  hal_u64 n = (a - HAL_U64(0x3f000000u, 0) + HAL_U64(0x1ffu, 0xffffffffu) + ((a >> 42) & 1u)) >> 42;
  hal_u64 s = hal_f64_to_bits(hal_f64_from_bits(a) + 0x1p28) - HAL_U64(0x41b00000u, 0); /* ulp(2^28) = 2^-24 */
  hal_u64 r = a < HAL_U64(0x3f100000u, 0) ? s : n;
  r = a >= HAL_U64(0x40effe00u, 0) ? (hal_u64)HAL_F16_INF : r; /* 65520 and above */
  r |= (u >> 48) & 0x8000u;
  return (hal_u16)(a > HAL_U64(0x7ff00000u, 0) ? (hal_u64)HAL_F16_NAN : r);
}

HAL_FN hal_u16 hal_f64_to_bf16(hal_f64 x) {
  hal_u64 u = hal_f64_to_bits(x);
  hal_u64 a = u & HAL_U64(0x7fffffffu, 0xffffffffu);
  hal_u64 n = (a - HAL_U64(0x38000000u, 0) + HAL_U64(0xfffu, 0xffffffffu) + ((a >> 45) & 1u)) >> 45;
  hal_u64 s = hal_f64_to_bits(hal_f64_from_bits(a) + 0x1p-81) - HAL_U64(0x3ae00000u, 0); /* ulp(2^-81) = 2^-133 */
  hal_u64 r = a < HAL_U64(0x38100000u, 0) ? s : n;
  r = a >= HAL_U64(0x47efff00u, 0) ? (hal_u64)HAL_BF16_INF : r; /* 2^128 - 2^119 and above */
  r |= (u >> 48) & 0x8000u;
  return (hal_u16)(a > HAL_U64(0x7ff00000u, 0) ? (hal_u64)HAL_BF16_NAN : r);
}
#endif

#endif
