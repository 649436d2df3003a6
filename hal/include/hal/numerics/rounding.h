/* Rounding to integral values, IEEE 754-2019 minimum/maximum, and exact floating remainders. */
#ifndef HAL_NUMERICS_ROUNDING_H
#define HAL_NUMERICS_ROUNDING_H
#include "hal/numerics/prelude.h"

/* Below 2^(p-1) adding and taking away 2^(p-1) rounds |x| half to even (W. Kahan); above, x is integral already.
 * Comparing magnitudes as bit patterns lets NaN and infinity fall through. The sign is put back, so -0 stays -0. */
#define HAL_DEFINE_ROUNDING_(F, U, BIG, BIGBITS)                                            \
  HAL_FN hal_##F hal_rint_##F(hal_##F x) /* half to even */                                 \
  {                                                                                         \
    hal_##F a = hal_abs_##F(x);                                                             \
    hal_##F r = (a + (BIG)) - (BIG);                                                        \
    return hal_##F##_to_bits(a) < (BIGBITS) ? hal_copysign_##F(r, x) : x;                   \
  }                                                                                         \
  HAL_FN hal_##F hal_floor_##F(hal_##F x) {                                                 \
    hal_##F r = hal_rint_##F(x);                                                            \
    r = r - (r > x ? (hal_##F)1 : (hal_##F)0);                                              \
    return x != x ? x : hal_copysign_##F(r, x);                                             \
  }                                                                                         \
  HAL_FN hal_##F hal_ceil_##F(hal_##F x) {                                                  \
    hal_##F r = hal_rint_##F(x);                                                            \
    r = r + (r < x ? (hal_##F)1 : (hal_##F)0);                                              \
    return x != x ? x : hal_copysign_##F(r, x);                                             \
  }                                                                                         \
  HAL_FN hal_##F hal_trunc_##F(hal_##F x) {                                                 \
    hal_##F a = hal_abs_##F(x);                                                             \
    hal_##F r = (a + (BIG)) - (BIG);                                                        \
    r = r - (r > a ? (hal_##F)1 : (hal_##F)0);                                              \
    return hal_##F##_to_bits(a) < (BIGBITS) ? hal_copysign_##F(r, x) : x;                   \
  }                                                                                         \
  /* NaN if either is NaN; +0 > -0: for equal operands the sign bits are and-ed / or-ed. */ \
  HAL_FN hal_##F hal_maximum_##F(hal_##F a, hal_##F b) {                                    \
    hal_##U ua = hal_##F##_to_bits(a), ub = hal_##F##_to_bits(b);                           \
    hal_##U m = a > b ? ua : (b > a ? ub : (ua & ub));                                      \
    return a != a ? a : (b != b ? b : hal_##F##_from_bits(m));                              \
  }                                                                                         \
  HAL_FN hal_##F hal_minimum_##F(hal_##F a, hal_##F b) {                                    \
    hal_##U ua = hal_##F##_to_bits(a), ub = hal_##F##_to_bits(b);                           \
    hal_##U m = a < b ? ua : (b < a ? ub : (ua | ub));                                      \
    return a != a ? a : (b != b ? b : hal_##F##_from_bits(m));                              \
  }

HAL_DEFINE_ROUNDING_(f32, u32, 8388608.0f, 0x4b000000u)
#ifndef HAL_NO_F64
HAL_DEFINE_ROUNDING_(f64, u64, 4503599627370496.0, HAL_U64(0x43300000u, 0))
#endif

/* Exact remainder of magnitudes as integers: mx*2^ex mod my*2^ey by shifting and reducing K bits at a time. The result
 * is exact, hence the same bits as C's fmod by any method. */
HAL_FN hal_f32 hal_fmod_f32(hal_f32 x, hal_f32 y) {
  hal_u32 ax = hal_f32_to_bits(x) & 0x7fffffffu, ay = hal_f32_to_bits(y) & 0x7fffffffu;
  hal_i32 ex, ey, d;
  hal_u64 mx, my;
  if (ax >= 0x7f800000u || ay > 0x7f800000u || ay == 0u) return x != x ? x : (y != y ? y : hal_nan_f32());
  if (ax < ay) return x;
  ex = (hal_i32)(ax >> 23);
  ey = (hal_i32)(ay >> 23);
  mx = (ax & 0x7fffffu) | (ex ? 0x800000u : 0u);
  my = (ay & 0x7fffffu) | (ey ? 0x800000u : 0u);
  ex = ex ? ex : 1;
  ey = ey ? ey : 1;
  d = ex - ey;
  mx %= my;
  while (d > 0 && mx != 0u) { /* mx < 2^24, so 40 bits of room */
    hal_i32 k = d < 40 ? d : 40;
    mx = (mx << k) % my;
    d -= k;
  }
  /* normalise by hand: shift up while the exponent allows, then pack */
  while (mx != 0u && mx < 0x800000u && ey > 1) {
    mx <<= 1;
    ey -= 1;
  }
  mx = mx < 0x800000u ? mx : mx + ((hal_u64)(ey - 1) << 23);
  return hal_copysign_f32(hal_f32_from_bits((hal_u32)mx), x);
}

#ifndef HAL_NO_F64
HAL_FN hal_f64 hal_fmod_f64(hal_f64 x, hal_f64 y) {
  hal_u64 ax = hal_f64_to_bits(x) & HAL_U64(0x7fffffffu, 0xffffffffu);
  hal_u64 ay = hal_f64_to_bits(y) & HAL_U64(0x7fffffffu, 0xffffffffu);
  hal_u64 inf = HAL_U64(0x7ff00000u, 0), one = HAL_U64(0x00100000u, 0);
  hal_i32 ex, ey, d;
  hal_u64 mx, my;
  if (ax >= inf || ay > inf || ay == 0u) return x != x ? x : (y != y ? y : hal_nan_f64());
  if (ax < ay) return x;
  ex = (hal_i32)(ax >> 52);
  ey = (hal_i32)(ay >> 52);
  mx = (ax & (one - 1u)) | (ex ? one : 0u);
  my = (ay & (one - 1u)) | (ey ? one : 0u);
  ex = ex ? ex : 1;
  ey = ey ? ey : 1;
  d = ex - ey;
  mx %= my;
  while (d > 0 && mx != 0u) { /* mx < 2^53, so 11 bits of room */
    hal_i32 k = d < 11 ? d : 11;
    mx = (mx << k) % my;
    d -= k;
  }
  /* normalise by hand: shift up while the exponent allows, then pack */
  while (mx != 0u && mx < one && ey > 1) {
    mx <<= 1;
    ey -= 1;
  }
  mx = mx < one ? mx : mx + ((hal_u64)(ey - 1) << 52);
  return hal_copysign_f64(hal_f64_from_bits(mx), x);
}
#endif

/* Python's % and // on floats (CPython, Objects/floatobject.c, float_rem and float_floor_div): the remainder takes y's
 * sign, a zero remainder too; x % 0 is NaN, x // 0 is x / 0. */
#define HAL_DEFINE_PYMOD_(F)                                                          \
  HAL_FN hal_##F hal_mod_##F(hal_##F x, hal_##F y) {                                  \
    hal_##F r = hal_fmod_##F(x, y);                                                   \
    if (r == (hal_##F)0) return hal_copysign_##F(r, y);                               \
    return (r < (hal_##F)0) != (y < (hal_##F)0) ? r + y : r;                          \
  }                                                                                   \
  HAL_FN hal_##F hal_floordiv_##F(hal_##F x, hal_##F y) {                             \
    hal_##F r, q, f;                                                                  \
    if (y == (hal_##F)0) return x / y;                                                \
    r = hal_fmod_##F(x, y);                                                           \
    q = (x - r) / y;                                                                  \
    q = r != (hal_##F)0 && (r < (hal_##F)0) != (y < (hal_##F)0) ? q - (hal_##F)1 : q; \
    if (q == (hal_##F)0) return hal_copysign_##F(q, x / y);                           \
    f = hal_floor_##F(q);                                                             \
    return q - f > (hal_##F)0.5f ? f + (hal_##F)1 : f;                                \
  }

HAL_DEFINE_PYMOD_(f32)
#ifndef HAL_NO_F64
HAL_DEFINE_PYMOD_(f64)
#endif

#endif
