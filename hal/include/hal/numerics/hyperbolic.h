/* tanh, sinh, cosh: primitives, <= 1 ulp, from the exp kernel with its low part kept.
 * Coefficients: tests/numerics/remez.py. */
#ifndef HAL_NUMERICS_HYPERBOLIC_H
#define HAL_NUMERICS_HYPERBOLIC_H
#include "hal/numerics/exp_log.h"

/* With E = expm1(2|x|) = hi + lo: tanh = E/(E + 2), the quotient corrected by its remainder. */
HAL_FN hal_f32 hal_tanh_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), d, b, dl, q, r;
  hal_pair_f32 e;
  a = a > 10.0f ? 10.0f : a; /* tanh rounds to 1 from here on */
  e = hal_expm1_pair_f32_(a + a, 0);
  d = e.hi + 2.0f;
  b = d - 2.0f;
  dl = ((2.0f - (d - b)) + (e.hi - b)) + e.lo;
  r = 1.0f / d;
  q = e.hi * r;
  r = HAL_FMA_F32(HAL_FMA_F32(-q, d, e.hi) + HAL_FMA_F32(-q, dl, e.lo), r, q);
  return hal_copysign_f32(r, x);
}

/* exp(|x|)/2 as hi + lo with scale 2^k applied: t = 2^(n-1-k) (1 + r). |x| is clamped where cosh overflows. */
HAL_FN hal_pair_f32 hal_half_exp_f32_(hal_f32 a, hal_i32 k) {
  hal_reduced_f32 e = hal_exp_reduce_f32_(a);
  hal_f32 s = hal_pow2_f32(e.n - 1 - k), c = HAL_FMA_F32(e.hi * e.hi, hal_exp_q_f32_(e.hi), e.lo);
  hal_f32 h = 1.0f + e.hi;
  hal_pair_f32 p;
  c = c + (e.hi - (h - 1.0f));
  p.hi = h + c;
  p.lo = (c - (p.hi - h)) * s;
  p.hi = p.hi * s;
  return p;
}

/* t + 1/(4t), t = exp(|x|)/2 = hi + lo; computed at a quarter of the size, so that only the result can overflow. */
HAL_FN hal_f32 hal_cosh_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x);
  hal_pair_f32 t;
  a = a > 90.0f ? 90.0f : a;
  t = hal_half_exp_f32_(a, 2);
  a = 4.0f * (t.hi + (t.lo + 0.015625f / t.hi));
  return x != x ? x : a;
}

/* |x| < 1: x + x^3 S(x^2) (near-minimax); otherwise t - 1/(4t). */
HAL_FN hal_f32 hal_sinh_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), z, b, s;
  hal_pair_f32 t;
  z = a < 1.0f ? a * a : 1.0f;
  hal_f32 p = 2.7839244e-06f;
  p = HAL_FMA_F32(p, z, 1.9842635e-04f);
  p = HAL_FMA_F32(p, z, 8.333311e-03f);
  p = HAL_FMA_F32(p, z, 1.6666667e-01f);
  s = HAL_FMA_F32(z * a, p, a);
  b = a > 90.0f ? 90.0f : a;
  t = hal_half_exp_f32_(b, 2);
  b = 4.0f * (t.hi + (t.lo - 0.015625f / t.hi));
  b = a < 1.0f ? s : b;
  return x != x ? x : hal_copysign_f32(b, x);
}

#ifndef HAL_NO_F64
/* With E = expm1(2|x|) = hi + lo: tanh = E/(E + 2), the quotient corrected by its remainder. */
HAL_FN hal_f64 hal_tanh_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), d, b, dl, q, r;
  hal_pair_f64 e;
  a = a > 20.0 ? 20.0 : a; /* tanh rounds to 1 from here on */
  e = hal_expm1_pair_f64_(a + a, 0);
  d = e.hi + 2.0;
  b = d - 2.0;
  dl = ((2.0 - (d - b)) + (e.hi - b)) + e.lo;
  r = 1.0 / d;
  q = e.hi * r;
  r = HAL_FMA_F64(HAL_FMA_F64(-q, d, e.hi) + HAL_FMA_F64(-q, dl, e.lo), r, q);
  return hal_copysign_f64(r, x);
}

/* exp(|x|)/2 as hi + lo with scale 2^k applied: t = 2^(n-1-k) (1 + r). |x| is clamped where cosh overflows. */
HAL_FN hal_pair_f64 hal_half_exp_f64_(hal_f64 a, hal_i32 k) {
  hal_reduced_f64 e = hal_exp_reduce_f64_(a);
  hal_f64 s = hal_pow2_f64(e.n - 1 - k), c = HAL_FMA_F64(e.hi * e.hi, hal_exp_q_f64_(e.hi), e.lo);
  hal_f64 h = 1.0 + e.hi;
  hal_pair_f64 p;
  c = c + (e.hi - (h - 1.0));
  p.hi = h + c;
  p.lo = (c - (p.hi - h)) * s;
  p.hi = p.hi * s;
  return p;
}

/* t + 1/(4t), t = exp(|x|)/2 = hi + lo; computed at a quarter of the size, so that only the result can overflow. */
HAL_FN hal_f64 hal_cosh_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x);
  hal_pair_f64 t;
  a = a > 711.0 ? 711.0 : a;
  t = hal_half_exp_f64_(a, 2);
  a = 4.0 * (t.hi + (t.lo + 0.015625 / t.hi));
  return x != x ? x : a;
}

/* |x| < 1: x + x^3 S(x^2) (near-minimax); otherwise t - 1/(4t). */
HAL_FN hal_f64 hal_sinh_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), z, b, s;
  hal_pair_f64 t;
  z = a < 1.0 ? a * a : 1.0;
  hal_f64 p = 6.274628093094998e-15;
  p = HAL_FMA_F64(p, z, 7.510665053473045e-13);
  p = HAL_FMA_F64(p, z, 1.6061231270398963e-10);
  p = HAL_FMA_F64(p, z, 2.50520901993693e-08);
  p = HAL_FMA_F64(p, z, 2.7557319307119644e-06);
  p = HAL_FMA_F64(p, z, 0.00019841269841066526);
  p = HAL_FMA_F64(p, z, 0.00833333333333357);
  p = HAL_FMA_F64(p, z, 0.16666666666666666);
  s = HAL_FMA_F64(z * a, p, a);
  b = a > 711.0 ? 711.0 : a;
  t = hal_half_exp_f64_(b, 2);
  b = 4.0 * (t.hi + (t.lo - 0.015625 / t.hi));
  b = a < 1.0 ? s : b;
  return x != x ? x : hal_copysign_f64(b, x);
}
#endif

#endif
