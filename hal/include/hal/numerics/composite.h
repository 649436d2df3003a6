/* Composite functions: fixed compositions of the primitives. Measured bounds in ulp (README.md has how):
 *   rsqrt f32 1.50, f64 1.48; sigmoid f32 2.22, f64 2.18; silu f32 3.22, f64 2.46;
 *   gelu f32 6.08, f64 4.26; gelu_tanh f32 2.81, f64 2.78; softplus f32 1.48, f64 1.43.
 */
#ifndef HAL_NUMERICS_COMPOSITE_H
#define HAL_NUMERICS_COMPOSITE_H
#include "hal/numerics/exp_log.h"
#include "hal/numerics/special.h"

HAL_FN hal_f32 hal_rsqrt_f32(hal_f32 x) { return 1.0f / HAL_SQRT_F32(x); }

/* num * sigmoid(y + ylo), with e = exp(-|y|) = p 2^n: num/(1+e), or for y < 0 num*p/(1+e), scaled by 2^n last so that
 * nothing is lost to subnormals on the way. */
HAL_FN hal_f32 hal_sigmoid_mul_f32_(hal_f32 num, hal_f32 y, hal_f32 ylo) {
  hal_f32 a = -hal_abs_f32(y), d, p;
  hal_reduced_f32 e;
  a = a < -150.0f ? -150.0f : a;
  e = hal_exp_reduce_f32_(a);
  p = hal_exp_core_f32_(e.hi, e.lo + (y < 0.0f ? ylo : -ylo));
  d = 1.0f + hal_scale2_f32_(p, e.n);
  num = num < -200.0f ? -200.0f : num; /* the product has underflowed by then; keeps -inf * 0 away */
  p = y < 0.0f ? num * p : num;
  return hal_scale2_f32_(p / d, y < 0.0f ? e.n : 0);
}

HAL_FN hal_f32 hal_sigmoid_f32(hal_f32 x) { return hal_sigmoid_mul_f32_(1.0f, x, 0.0f); }

/* x * sigmoid(x); -0 at -infinity (the limit). */
HAL_FN hal_f32 hal_silu_f32(hal_f32 x) { return hal_sigmoid_mul_f32_(x, x, 0.0f); }

/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(x (A + B x^2)), the argument in two parts
 * (D. Hendrycks and K. Gimpel, 2016). A = 2 sqrt(2/pi), B = 0.044715 A. */
HAL_FN hal_f32 hal_gelu_tanh_f32(hal_f32 x) {
  hal_f32 c = x > 30.0f ? 30.0f : x, z, zl, w, wl, t, tl, y;
  c = c < -30.0f ? -30.0f : c;
  z = c * c;
  zl = HAL_FMA_F32(c, c, -z);
  w = 7.1354814e-02f * z;
  wl = HAL_FMA_F32(7.1354814e-02f, z, -w) + HAL_FMA_F32(7.1354814e-02f, zl, 2.3988325e-09f * z);
  t = 1.5957692e+00f + w;
  tl = t - w; /* 2Sum */
  tl = (1.5957692e+00f - tl) + (w - (t - tl));
  tl = tl + (wl + (-4.534068e-08f));
  y = c * t;
  return hal_sigmoid_mul_f32_(x, y, HAL_FMA_F32(c, t, -y) + c * tl);
}

/* log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)) */
HAL_FN hal_f32 hal_softplus_f32(hal_f32 x) {
  hal_f32 l = hal_log1p_f32(hal_exp_f32(-hal_abs_f32(x)));
  return x != x ? x : (x > 0.0f ? x : 0.0f) + l;
}

/* The normal distribution's tail: Phi(-a) = r e 2^n and exp(-a^2/2) = e 2^n, 0 <= a <= 14.75, a^2 in two parts.
 * (a + 3) exp(a^2/2) Phi(-a) is a polynomial in t = (a - 3)/(a + 3), as N. Schonfelder (1978) has it for erfc; near-minimax. */
typedef struct {
  hal_f32 e, r;
  hal_i32 n;
} hal_tail_f32;
HAL_FN hal_tail_f32 hal_normal_tail_f32_(hal_f32 a) {
  hal_tail_f32 out;
  hal_f32 z = a * a, zl = HAL_FMA_F32(a, a, -z), w = 1.0f / (a + 3.0f), t = (a - 3.0f) * w, p = 4.4658504e-05f;
  hal_reduced_f32 e = hal_exp_reduce_f32_(-0.5f * z);
  p = HAL_FMA_F32(p, t, 1.5278478e-04f);
  p = HAL_FMA_F32(p, t, -1.8877604e-04f);
  p = HAL_FMA_F32(p, t, -1.0436047e-03f);
  p = HAL_FMA_F32(p, t, 9.757494e-04f);
  p = HAL_FMA_F32(p, t, 6.9691967e-03f);
  p = HAL_FMA_F32(p, t, -1.0447438e-02f);
  p = HAL_FMA_F32(p, t, -4.7262296e-02f);
  p = HAL_FMA_F32(p, t, 2.3001613e-01f);
  p = HAL_FMA_F32(p, t, -5.09332e-01f);
  p = HAL_FMA_F32(p, t, 7.290837e-01f);
  out.e = hal_exp_core_f32_(e.hi, HAL_FMA_F32(-0.5f, zl, e.lo));
  out.r = p * w;
  out.n = e.n;
  return out;
}
/* 1 - v 2^n, n <= 0: one rounding. */
HAL_FN hal_f32 hal_one_minus_f32_(hal_f32 v, hal_i32 n) { return HAL_FMA_F32(-v, hal_pow2_f32(n < -126 ? -126 : n), 1.0f); }

/* x Phi(x); -0 at -infinity (the limit). */
HAL_FN hal_f32 hal_gelu_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), g, h, z;
  hal_tail_f32 t;
  t = hal_normal_tail_f32_(a > 14.7f ? 14.7f : a);
  g = t.r * t.e;
  h = hal_one_minus_f32_(g, t.n);
  z = x < -14.7f ? -14.7f : x;
  return x < 0.0f ? hal_scale2_f32_(z * g, t.n) : z * h;
}

#ifndef HAL_NO_F64
HAL_FN hal_f64 hal_rsqrt_f64(hal_f64 x) { return 1.0 / HAL_SQRT_F64(x); }

/* num * sigmoid(y + ylo), with e = exp(-|y|) = p 2^n: num/(1+e), or for y < 0 num*p/(1+e), scaled by 2^n last so that
 * nothing is lost to subnormals on the way. */
HAL_FN hal_f64 hal_sigmoid_mul_f64_(hal_f64 num, hal_f64 y, hal_f64 ylo) {
  hal_f64 a = -hal_abs_f64(y), d, p;
  hal_reduced_f64 e;
  a = a < -800.0 ? -800.0 : a;
  e = hal_exp_reduce_f64_(a);
  p = hal_exp_core_f64_(e.hi, e.lo + (y < 0.0 ? ylo : -ylo));
  d = 1.0 + hal_scale2_f64_(p, e.n);
  num = num < -1000.0 ? -1000.0 : num; /* the product has underflowed by then; keeps -inf * 0 away */
  p = y < 0.0 ? num * p : num;
  return hal_scale2_f64_(p / d, y < 0.0 ? e.n : 0);
}

HAL_FN hal_f64 hal_sigmoid_f64(hal_f64 x) { return hal_sigmoid_mul_f64_(1.0, x, 0.0); }

/* x * sigmoid(x); -0 at -infinity (the limit). */
HAL_FN hal_f64 hal_silu_f64(hal_f64 x) { return hal_sigmoid_mul_f64_(x, x, 0.0); }

/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(x (A + B x^2)), the argument in two parts
 * (D. Hendrycks and K. Gimpel, 2016). A = 2 sqrt(2/pi), B = 0.044715 A. */
HAL_FN hal_f64 hal_gelu_tanh_f64(hal_f64 x) {
  hal_f64 c = x > 30.0 ? 30.0 : x, z, zl, w, wl, t, tl, y;
  c = c < -30.0 ? -30.0 : c;
  z = c * c;
  zl = HAL_FMA_F64(c, c, -z);
  w = 0.07135481627260025 * z;
  wl = HAL_FMA_F64(0.07135481627260025, z, -w) + HAL_FMA_F64(0.07135481627260025, zl, -6.175149918155315e-19 * z);
  t = 1.5957691216057308 + w;
  tl = t - w; /* 2Sum */
  tl = (1.5957691216057308 - tl) + (w - (t - tl));
  tl = tl + (wl + (-9.96930880911092e-17));
  y = c * t;
  return hal_sigmoid_mul_f64_(x, y, HAL_FMA_F64(c, t, -y) + c * tl);
}

/* log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)) */
HAL_FN hal_f64 hal_softplus_f64(hal_f64 x) {
  hal_f64 l = hal_log1p_f64(hal_exp_f64(-hal_abs_f64(x)));
  return x != x ? x : (x > 0.0 ? x : 0.0) + l;
}

/* x Phi(x), Phi(-a) = erfc(a/sqrt 2)/2 as in hal_erfc, with c = a/sqrt 2 and a^2/2 in two parts, so that the left tail
 * keeps its relative accuracy. erf(c + cl) = erf(c) + 2/sqrt(pi) exp(-c^2) cl. */
HAL_FN hal_f64 hal_gelu_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), c, cl, h, z, zl, e, g, s;
  hal_i32 n, small;
  hal_reduced_f64 r;
  hal_pair_f64 t;
  a = a > 38.9 ? 38.9 : a;
  z = a * a;
  zl = HAL_FMA_F64(a, a, -z);
  r = hal_exp_reduce_f64_(-0.5 * z);
  e = hal_exp_core_f64_(r.hi, HAL_FMA_F64(-0.5, zl, r.lo));
  c = a * 0.7071067811865476;
  cl = HAL_FMA_F64(a, 0.7071067811865476, -c) + a * -4.833646656726457e-17;
  small = c < 1.0;
  g = e * hal_erfcx_f64_(small ? 1.0 : c);
  s = small ? hal_scale2_f64_(e, r.n) * 1.1283791670955126 * cl : 0.0;
  t = hal_erf_small_f64_(small ? c : 1.0);
  s = (1.0 - t.hi) - (t.lo + s);
  g = 0.5 * (small ? s : g);
  n = small ? 0 : r.n;
  h = 1.0 - hal_scale2_f64_(g, n);
  n = x < 0.0 ? n : 0;
  h = x < 0.0 ? g : h;
  z = x < -38.9 ? -38.9 : x; /* -infinity: -0 */
  return hal_scale2_f64_(z * h, n);
}
#endif

#endif
