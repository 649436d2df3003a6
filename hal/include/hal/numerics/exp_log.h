/* exp, exp2, expm1, log, log2, log10, log1p: primitives, <= 1 ulp (measured figures: README.md).
 * Coefficients: tests/numerics/remez.py. Split constants: head rounded to the type (or trimmed so that n * head is
 * exact), then the rounded rest. Names that end in _ are internal. */
#ifndef HAL_NUMERICS_EXP_LOG_H
#define HAL_NUMERICS_EXP_LOG_H
#include "hal/numerics/prelude.h"

typedef struct {
  hal_f32 hi, lo;
  hal_i32 n;
} hal_reduced_f32;
#ifndef HAL_NO_F64
typedef struct {
  hal_f64 hi, lo;
  hal_i32 n;
} hal_reduced_f64;
#endif

/* ---- f32: exponentials ---- */

/* x = n ln2 + hi + lo, |hi| <= ln2/2; valid for |n| < 2^20 or so. Adding 1.5*2^p rounds to an integer in the low bits
 * (so a NaN never meets an integer cast). One fma makes hi exact, as the difference has few bits. */
HAL_FN hal_reduced_f32 hal_exp_reduce_f32_(hal_f32 x) {
  hal_reduced_f32 e;
  hal_f32 t = HAL_FMA_F32(x, 1.442695e+00f, 12582912.0f);
  hal_f32 n = t - 12582912.0f;
  hal_f32 r = HAL_FMA_F32(n, -6.931472e-01f, x);
  e.n = (hal_i32)(hal_f32_to_bits(t) - 0x4b400000u);
  e.hi = HAL_FMA_F32(n, 1.9046542e-09f, r);
  e.lo = HAL_FMA_F32(n, 1.9046542e-09f, r - e.hi);
  return e;
}

/* (exp(r) - 1 - r - r^2/2) / r^3 on |r| <= ln2/2 (near-minimax, deg 5: 2^-31 relative to r) */
HAL_FN hal_f32 hal_exp_r_f32_(hal_f32 r) {
  hal_f32 p = 1.9955989e-04f;
  p = HAL_FMA_F32(p, r, 1.3933014e-03f);
  p = HAL_FMA_F32(p, r, 8.333195e-03f);
  p = HAL_FMA_F32(p, r, 4.1666485e-02f);
  p = HAL_FMA_F32(p, r, 1.6666667e-01f);
  return p;
}

/* (exp(r) - 1 - r) / r^2 */
HAL_FN hal_f32 hal_exp_q_f32_(hal_f32 r) { return HAL_FMA_F32(hal_exp_r_f32_(r), r, 0.5f); }

/* exp(hi + lo), |hi| <= ln2/2 about and lo any small correction (folded in first: lo * hi counts). */
HAL_FN hal_f32 hal_exp_core_f32_(hal_f32 hi, hal_f32 lo) {
  hal_f32 r = hi + lo;
  return 1.0f + (r + HAL_FMA_F32(r * r, hal_exp_q_f32_(r), lo - (r - hi)));
}

/* v * 2^n in two exact-but-last steps; |n| <= 2 * the exponent range. */
HAL_FN hal_f32 hal_scale2_f32_(hal_f32 v, hal_i32 n) {
  hal_i32 h = n >> 1;
  return v * hal_pow2_f32(h) * hal_pow2_f32(n - h);
}

HAL_FN hal_f32 hal_exp_f32(hal_f32 x) {
  hal_f32 c = x > 89.0f ? 89.0f : x;
  hal_reduced_f32 e;
  hal_f32 p;
  c = c < -104.0f ? -104.0f : c;
  e = hal_exp_reduce_f32_(c);
  p = (hal_f32)1 + (e.hi + HAL_FMA_F32(e.hi * e.hi, hal_exp_q_f32_(e.hi), e.lo));
  return hal_scale2_f32_(p, e.n);
}

HAL_FN hal_f32 hal_exp2_f32(hal_f32 x) {
  hal_f32 c = x > 129.0f ? 129.0f : x;
  hal_f32 t, r, y, ylo, p;
  hal_i32 n;
  c = c < -151.0f ? -151.0f : c;
  t = c + 12582912.0f;
  n = (hal_i32)(hal_f32_to_bits(t) - 0x4b400000u);
  r = c - (t - 12582912.0f); /* exact */
  y = r * 6.931472e-01f;
  ylo = HAL_FMA_F32(r, -1.9046542e-09f, HAL_FMA_F32(r, 6.931472e-01f, -y));
  p = (hal_f32)1 + (y + HAL_FMA_F32(y * y, hal_exp_q_f32_(y), ylo));
  return hal_scale2_f32_(p, n);
}

/* expm1(x) * 2^-d as hi + lo, for x within the range of one 2^(n-d). With s = 2^(n-d): (s - 2^-d) + s*r by Fast2Sum
 * (T. Dekker, 1971; the first term is 0 or the larger), the rest in lo. */
HAL_FN hal_pair_f32 hal_expm1_pair_f32_(hal_f32 x, hal_i32 d) {
  hal_reduced_f32 e = hal_exp_reduce_f32_(x);
  hal_f32 s = hal_pow2_f32(e.n - d), h = hal_pow2_f32(-d), a = s - h, b = s * e.hi;
  hal_f32 z = e.hi * e.hi, zl = HAL_FMA_F32(e.hi, e.hi, -z); /* r^2/2 whole, as the terms may cancel */
  hal_f32 c = HAL_FMA_F32(0.5f, z, HAL_FMA_F32(z * e.hi, hal_exp_r_f32_(e.hi), HAL_FMA_F32(0.5f, zl, e.lo)));
  hal_f32 t = a - s, al = (s - (a - t)) - (h + t); /* 2Sum: what a lost */
  hal_pair_f32 p;
  t = a + b;
  al = HAL_FMA_F32(s, c, (b - (t - a)) + al);
  p.hi = t + al;
  p.lo = al - (p.hi - t);
  return p;
}

HAL_FN hal_f32 hal_expm1_f32(hal_f32 x) {
  hal_f32 c = x > 89.0f ? 89.0f : x;
  hal_pair_f32 p;
  c = c < -20.0f ? -20.0f : c;
  p = hal_expm1_pair_f32_(c, 1); /* halved, so that 2^n cannot overflow before the sum does */
  c = (hal_f32)2 * p.hi;
  return hal_abs_f32(x) < 0x1p-26f ? x : c;
}

/* ---- f32: logarithms ---- */

/* x = 2^n (1 + hi), sqrt(1/2) <= 1 + hi < sqrt(2), hi exact (lo unused); for positive finite x, subnormal too. */
HAL_FN hal_reduced_f32 hal_log_reduce_f32_(hal_f32 x) {
  hal_reduced_f32 l;
  hal_f32 y = x < 0x1p-126f ? x * 0x1p25f : x;
  hal_u32 u = hal_f32_to_bits(y);
  hal_i32 k = (hal_i32)(u - 0x3f3504f3u) >> 23;
  l.hi = hal_f32_from_bits(u - ((hal_u32)k << 23)) - (hal_f32)1;
  l.lo = (hal_f32)0;
  l.n = (hal_i32)k - (x < 0x1p-126f ? 25 : 0);
  return l;
}

/* log(1 + f) - f = -f^2/2 + f^3 P(f) (near-minimax, 2^-30 relative to the logarithm) */
HAL_FN hal_f32 hal_log1p_tail_f32_(hal_f32 f) {
  hal_f32 z = f * f;
  hal_f32 p = 6.7301676e-02f;
  p = HAL_FMA_F32(p, f, -1.16587296e-01f);
  p = HAL_FMA_F32(p, f, 1.188632e-01f);
  p = HAL_FMA_F32(p, f, -1.2408481e-01f);
  p = HAL_FMA_F32(p, f, 1.4220262e-01f);
  p = HAL_FMA_F32(p, f, -1.6667844e-01f);
  p = HAL_FMA_F32(p, f, 2.0002072e-01f);
  p = HAL_FMA_F32(p, f, -2.5000012e-01f);
  p = HAL_FMA_F32(p, f, 3.3333313e-01f);
  return HAL_FMA_F32(z * f, p, -0.5f * z);
}

/* Zero, negative, infinite and NaN arguments, by selects over a finite result. */
HAL_FN hal_f32 hal_log_corners_f32_(hal_f32 x, hal_f32 r) {
  r = x == (hal_f32)0 ? -hal_inf_f32() : r;
  r = x < (hal_f32)0 ? hal_nan_f32() : r;
  return x < hal_inf_f32() ? r : x; /* NaN too */
}

/* n*ln2 (exact in its head) + f by Fast2Sum, then the tails. */
HAL_FN hal_f32 hal_log_f32(hal_f32 x) {
  hal_reduced_f32 l = hal_log_reduce_f32_(x);
  hal_f32 n = (hal_f32)l.n, s = n * 6.9314575e-01f, h = s + l.hi, t = (s - h) + l.hi;
  hal_f32 g = HAL_FMA_F32(n, 1.4286068e-06f, hal_log1p_tail_f32_(l.hi));
  return hal_log_corners_f32_(x, h + (t + g));
}

HAL_FN hal_f32 hal_log2_f32(hal_f32 x) {
  hal_reduced_f32 l = hal_log_reduce_f32_(x);
  hal_f32 n = (hal_f32)l.n, p = l.hi * 1.442695e+00f;
  hal_f32 e = HAL_FMA_F32(l.hi, 1.925963e-08f, HAL_FMA_F32(l.hi, 1.442695e+00f, -p));
  hal_f32 h = n + p, t = (n - h) + p;
  e = HAL_FMA_F32(-0.5f * HAL_FMA_F32(l.hi, l.hi, -(l.hi * l.hi)), 1.442695e+00f, e); /* the rounding error of f^2, which the tail drops */
  e = HAL_FMA_F32(hal_log1p_tail_f32_(l.hi), 1.442695e+00f, e);
  return hal_log_corners_f32_(x, h + (t + e));
}

HAL_FN hal_f32 hal_log10_f32(hal_f32 x) {
  hal_reduced_f32 l = hal_log_reduce_f32_(x);
  hal_f32 n = (hal_f32)l.n, p = l.hi * 4.342945e-01f, s = n * 3.010254e-01f;
  hal_f32 e =
      HAL_FMA_F32(hal_log1p_tail_f32_(l.hi), 4.342945e-01f, HAL_FMA_F32(l.hi, -1.010305e-08f, HAL_FMA_F32(l.hi, 4.342945e-01f, -p)));
  hal_f32 h = s + p, t = HAL_FMA_F32(n, 4.605039e-06f, (s - h) + p);
  return hal_log_corners_f32_(x, h + (t + e));
}

/* u = 1 + x rounded, its error c by 2Sum (D. Knuth); log(u + c) ~ log(u) + c/u. Where no scaling is needed f = x. */
HAL_FN hal_f32 hal_log1p_f32(hal_f32 x) {
  hal_f32 u = x + (hal_f32)1, b = u - (hal_f32)1, c = ((hal_f32)1 - (u - b)) + (x - b);
  hal_reduced_f32 l = hal_log_reduce_f32_(u);
  hal_f32 n = (hal_f32)l.n, f, s, h, t, g;
  f = l.n == 0 ? x : l.hi;
  c = l.n == 0 ? (hal_f32)0 : c * hal_pow2_f32(-(l.n < 100 ? l.n : 100)) / ((hal_f32)1 + f);
  s = n * 6.9314575e-01f;
  h = s + f;
  t = (s - h) + f;
  g = HAL_FMA_F32(n, 1.4286068e-06f, hal_log1p_tail_f32_(f)) + c;
  h = hal_copysign_f32(h + (t + g), x);
  h = x == (hal_f32)-1 ? -hal_inf_f32() : h;
  h = x < (hal_f32)-1 ? hal_nan_f32() : h;
  return x < hal_inf_f32() ? h : x;
}

#ifndef HAL_NO_F64
/* ---- f64: exponentials ---- */

/* x = n ln2 + hi + lo, |hi| <= ln2/2; valid for |n| < 2^20 or so. Adding 1.5*2^p rounds to an integer in the low bits
 * (so a NaN never meets an integer cast). One fma makes hi exact, as the difference has few bits. */
HAL_FN hal_reduced_f64 hal_exp_reduce_f64_(hal_f64 x) {
  hal_reduced_f64 e;
  hal_f64 t = HAL_FMA_F64(x, 1.4426950408889634, 6755399441055744.0);
  hal_f64 n = t - 6755399441055744.0;
  hal_f64 r = HAL_FMA_F64(n, -0.6931471805599453, x);
  e.n = (hal_i32)(hal_f64_to_bits(t) - HAL_U64(0x43380000u, 0));
  e.hi = HAL_FMA_F64(n, -2.3190468138462996e-17, r);
  e.lo = HAL_FMA_F64(n, -2.3190468138462996e-17, r - e.hi);
  return e;
}

/* (exp(r) - 1 - r - r^2/2) / r^3 on |r| <= ln2/2 (near-minimax, deg 10: 2^-61 relative to r) */
HAL_FN hal_f64 hal_exp_r_f64_(hal_f64 r) {
  hal_f64 p = 2.092005782016142e-09;
  p = HAL_FMA_F64(p, r, 2.510918139864745e-08);
  p = HAL_FMA_F64(p, r, 2.755725770262561e-07);
  p = HAL_FMA_F64(p, r, 2.755724377888343e-06);
  p = HAL_FMA_F64(p, r, 2.480158734191878e-05);
  p = HAL_FMA_F64(p, r, 0.00019841269886576105);
  p = HAL_FMA_F64(p, r, 0.0013888888888877087);
  p = HAL_FMA_F64(p, r, 0.00833333333332144);
  p = HAL_FMA_F64(p, r, 0.04166666666666668);
  p = HAL_FMA_F64(p, r, 0.16666666666666677);
  return p;
}

/* (exp(r) - 1 - r) / r^2 */
HAL_FN hal_f64 hal_exp_q_f64_(hal_f64 r) { return HAL_FMA_F64(hal_exp_r_f64_(r), r, 0.5); }

/* exp(hi + lo), |hi| <= ln2/2 about and lo any small correction (folded in first: lo * hi counts). */
HAL_FN hal_f64 hal_exp_core_f64_(hal_f64 hi, hal_f64 lo) {
  hal_f64 r = hi + lo;
  return 1.0 + (r + HAL_FMA_F64(r * r, hal_exp_q_f64_(r), lo - (r - hi)));
}

/* v * 2^n in two exact-but-last steps; |n| <= 2 * the exponent range. */
HAL_FN hal_f64 hal_scale2_f64_(hal_f64 v, hal_i32 n) {
  hal_i32 h = n >> 1;
  return v * hal_pow2_f64(h) * hal_pow2_f64(n - h);
}

HAL_FN hal_f64 hal_exp_f64(hal_f64 x) {
  hal_f64 c = x > 710.0 ? 710.0 : x;
  hal_reduced_f64 e;
  hal_f64 p;
  c = c < -746.0 ? -746.0 : c;
  e = hal_exp_reduce_f64_(c);
  p = (hal_f64)1 + (e.hi + HAL_FMA_F64(e.hi * e.hi, hal_exp_q_f64_(e.hi), e.lo));
  return hal_scale2_f64_(p, e.n);
}

HAL_FN hal_f64 hal_exp2_f64(hal_f64 x) {
  hal_f64 c = x > 1025.0 ? 1025.0 : x;
  hal_f64 t, r, y, ylo, p;
  hal_i32 n;
  c = c < -1076.0 ? -1076.0 : c;
  t = c + 6755399441055744.0;
  n = (hal_i32)(hal_f64_to_bits(t) - HAL_U64(0x43380000u, 0));
  r = c - (t - 6755399441055744.0); /* exact */
  y = r * 0.6931471805599453;
  ylo = HAL_FMA_F64(r, 2.3190468138462996e-17, HAL_FMA_F64(r, 0.6931471805599453, -y));
  p = (hal_f64)1 + (y + HAL_FMA_F64(y * y, hal_exp_q_f64_(y), ylo));
  return hal_scale2_f64_(p, n);
}

/* expm1(x) * 2^-d as hi + lo, for x within the range of one 2^(n-d). With s = 2^(n-d): (s - 2^-d) + s*r by Fast2Sum
 * (T. Dekker, 1971; the first term is 0 or the larger), the rest in lo. */
HAL_FN hal_pair_f64 hal_expm1_pair_f64_(hal_f64 x, hal_i32 d) {
  hal_reduced_f64 e = hal_exp_reduce_f64_(x);
  hal_f64 s = hal_pow2_f64(e.n - d), h = hal_pow2_f64(-d), a = s - h, b = s * e.hi;
  hal_f64 z = e.hi * e.hi, zl = HAL_FMA_F64(e.hi, e.hi, -z); /* r^2/2 whole, as the terms may cancel */
  hal_f64 c = HAL_FMA_F64(0.5, z, HAL_FMA_F64(z * e.hi, hal_exp_r_f64_(e.hi), HAL_FMA_F64(0.5, zl, e.lo)));
  hal_f64 t = a - s, al = (s - (a - t)) - (h + t); /* 2Sum: what a lost */
  hal_pair_f64 p;
  t = a + b;
  al = HAL_FMA_F64(s, c, (b - (t - a)) + al);
  p.hi = t + al;
  p.lo = al - (p.hi - t);
  return p;
}

HAL_FN hal_f64 hal_expm1_f64(hal_f64 x) {
  hal_f64 c = x > 710.0 ? 710.0 : x;
  hal_pair_f64 p;
  c = c < -40.0 ? -40.0 : c;
  p = hal_expm1_pair_f64_(c, 1); /* halved, so that 2^n cannot overflow before the sum does */
  c = (hal_f64)2 * p.hi;
  return hal_abs_f64(x) < 0x1p-56 ? x : c;
}

/* ---- f64: logarithms ---- */

/* x = 2^n (1 + hi), sqrt(1/2) <= 1 + hi < sqrt(2), hi exact (lo unused); for positive finite x, subnormal too. */
HAL_FN hal_reduced_f64 hal_log_reduce_f64_(hal_f64 x) {
  hal_reduced_f64 l;
  hal_f64 y = x < 0x1p-1022 ? x * 0x1p54 : x;
  hal_u64 u = hal_f64_to_bits(y);
  hal_i64 k = (hal_i64)(u - HAL_U64(0x3fe6a09eu, 0x667f3bcdu)) >> 52;
  l.hi = hal_f64_from_bits(u - ((hal_u64)k << 52)) - (hal_f64)1;
  l.lo = (hal_f64)0;
  l.n = (hal_i32)k - (x < 0x1p-1022 ? 54 : 0);
  return l;
}

/* log(1 + f) - f = s (f^2/2 + R) - f^2/2, s = f/(2 + f), R = (log((1+s)/(1-s)) - 2s)/s: the scheme of FDLIBM's e_log.c
 * (Sun Microsystems, 1993) with R = z P(z), z = s^2, near-minimax, 2^-58 */
HAL_FN hal_f64 hal_log1p_tail_f64_(hal_f64 f) {
  hal_f64 s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
  hal_f64 p = 0.14797731035338746;
  p = HAL_FMA_F64(p, z, 0.15313879086876797);
  p = HAL_FMA_F64(p, z, 0.1818357076865883);
  p = HAL_FMA_F64(p, z, 0.22222198454198663);
  p = HAL_FMA_F64(p, z, 0.28571428743500493);
  p = HAL_FMA_F64(p, z, 0.3999999999940985);
  p = HAL_FMA_F64(p, z, 0.6666666666666735);
  return HAL_FMA_F64(s, HAL_FMA_F64(z, p, h), -0.5 * HAL_FMA_F64(f, f, -(f * f))) - h;
}

/* Zero, negative, infinite and NaN arguments, by selects over a finite result. */
HAL_FN hal_f64 hal_log_corners_f64_(hal_f64 x, hal_f64 r) {
  r = x == (hal_f64)0 ? -hal_inf_f64() : r;
  r = x < (hal_f64)0 ? hal_nan_f64() : r;
  return x < hal_inf_f64() ? r : x; /* NaN too */
}

/* n*ln2 (exact in its head) + f by Fast2Sum, then the tails. */
HAL_FN hal_f64 hal_log_f64(hal_f64 x) {
  hal_reduced_f64 l = hal_log_reduce_f64_(x);
  hal_f64 n = (hal_f64)l.n, s = n * 0.6931471803691238, h = s + l.hi, t = (s - h) + l.hi;
  hal_f64 g = HAL_FMA_F64(n, 1.9082149292705877e-10, hal_log1p_tail_f64_(l.hi));
  return hal_log_corners_f64_(x, h + (t + g));
}

HAL_FN hal_f64 hal_log2_f64(hal_f64 x) {
  hal_reduced_f64 l = hal_log_reduce_f64_(x);
  hal_f64 n = (hal_f64)l.n, p = l.hi * 1.4426950408889634;
  hal_f64 e = HAL_FMA_F64(l.hi, 2.0355273740931033e-17, HAL_FMA_F64(l.hi, 1.4426950408889634, -p));
  hal_f64 h = n + p, t = (n - h) + p;
  e = HAL_FMA_F64(hal_log1p_tail_f64_(l.hi), 1.4426950408889634, e);
  return hal_log_corners_f64_(x, h + (t + e));
}

HAL_FN hal_f64 hal_log10_f64(hal_f64 x) {
  hal_reduced_f64 l = hal_log_reduce_f64_(x);
  hal_f64 n = (hal_f64)l.n, p = l.hi * 0.4342944819032518, s = n * 0.3010299956640665;
  hal_f64 e = HAL_FMA_F64(hal_log1p_tail_f64_(l.hi), 0.4342944819032518,
                          HAL_FMA_F64(l.hi, 1.098319650216765e-17, HAL_FMA_F64(l.hi, 0.4342944819032518, -p)));
  hal_f64 h = s + p, t = HAL_FMA_F64(n, -8.532344317057107e-14, (s - h) + p);
  return hal_log_corners_f64_(x, h + (t + e));
}

/* u = 1 + x rounded, its error c by 2Sum (D. Knuth); log(u + c) ~ log(u) + c/u. Where no scaling is needed f = x. */
HAL_FN hal_f64 hal_log1p_f64(hal_f64 x) {
  hal_f64 u = x + (hal_f64)1, b = u - (hal_f64)1, c = ((hal_f64)1 - (u - b)) + (x - b);
  hal_reduced_f64 l = hal_log_reduce_f64_(u);
  hal_f64 n = (hal_f64)l.n, f, s, h, t, g;
  f = l.n == 0 ? x : l.hi;
  c = l.n == 0 ? (hal_f64)0 : c * hal_pow2_f64(-(l.n < 1000 ? l.n : 1000)) / ((hal_f64)1 + f);
  s = n * 0.6931471803691238;
  h = s + f;
  t = (s - h) + f;
  g = HAL_FMA_F64(n, 1.9082149292705877e-10, hal_log1p_tail_f64_(f)) + c;
  h = hal_copysign_f64(h + (t + g), x);
  h = x == (hal_f64)-1 ? -hal_inf_f64() : h;
  h = x < (hal_f64)-1 ? hal_nan_f64() : h;
  return x < hal_inf_f64() ? h : x;
}
#endif

#endif
