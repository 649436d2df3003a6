/* pow, powi: composites (bounds measured: README.md), log2 and the product with y in double-word arithmetic.
 * Coefficients: tests/numerics/remez.py. */
#ifndef HAL_NUMERICS_POW_H
#define HAL_NUMERICS_POW_H
#include "hal/numerics/exp_log.h"
#include "hal/numerics/rounding.h"

/* ---- f32 ---- */

/* log2(x) as hi + lo for positive finite x: n + 2/ln2 * atanh(s), s = f/(2+f), every leading term in two parts
 * (double-f32 arithmetic after T. Dekker, 1971). */
HAL_FN hal_pair_f32 hal_log2_pair_f32_(hal_f32 x) {
  hal_reduced_f32 l = hal_log_reduce_f32_(x);
  hal_f32 n = (hal_f32)l.n, f = l.hi, dh = 2.0f + f, dl = f - (dh - 2.0f);
  hal_f32 sh = f / dh, sl = (HAL_FMA_F32(-sh, dh, f) - sh * dl) / dh;
  hal_f32 uh = sh * sh, ul = HAL_FMA_F32(sh, sh, -uh) + 2.0f * sh * sl;
  hal_f32 th, tl, vh, vl, ph, pl, lh, ll, gh, gl;
  hal_pair_f32 r;
  hal_f32 p = 1.1714342e-01f;
  p = HAL_FMA_F32(p, uh, 1.4273372e-01f);
  p = HAL_FMA_F32(p, uh, 2.0000078e-01f);
  /* v = u (1/3 + u Q(u)) */
  p = uh * p;
  th = 3.3333334e-01f + p;
  tl = (p - (th - 3.3333334e-01f)) + (-9.934108e-09f);
  vh = uh * th;
  vl = HAL_FMA_F32(uh, th, -vh) + (uh * tl + ul * th);
  /* s (1 + v) */
  ph = sh * vh;
  pl = HAL_FMA_F32(sh, vh, -ph) + (sh * vl + sl * vh);
  lh = sh + ph;
  ll = (ph - (lh - sh)) + (sl + pl);
  gh = lh * 2.88539e+00f;
  gl = HAL_FMA_F32(lh, 2.88539e+00f, -gh) + (lh * 3.851926e-08f + ll * 2.88539e+00f);
  th = n + gh;
  tl = ((n - th) + gh) + gl;
  r.hi = th + tl;
  r.lo = tl - (r.hi - th);
  return r;
}

/* 2^((y + ylo) log2|x|) for |x| positive and finite; y beyond +-1e10f cannot change the result. */
HAL_FN hal_f32 hal_pow_core_f32_(hal_f32 ax, hal_f32 y, hal_f32 ylo) {
  hal_pair_f32 l = hal_log2_pair_f32_(ax);
  hal_f32 eh, el, t, r, w, wl;
  hal_i32 n;
  y = y > 1e10f ? 1e10f : y;
  y = y < -1e10f ? -1e10f : y;
  eh = y * l.hi;
  el = HAL_FMA_F32(y, l.hi, -eh) + (y * l.lo + ylo * l.hi);
  el = hal_abs_f32(eh) > 250.0f ? 0.0f : el;
  eh = eh > 250.0f ? 250.0f : eh;
  eh = eh < -250.0f ? -250.0f : eh;
  t = eh + 12582912.0f;
  n = (hal_i32)(hal_f32_to_bits(t) - 0x4b400000u);
  r = eh - (t - 12582912.0f); /* exact */
  w = r * 6.931472e-01f;
  wl = HAL_FMA_F32(r, 6.931472e-01f, -w) + HAL_FMA_F32(r, -1.9046542e-09f, el * 6.931472e-01f);
  return hal_scale2_f32_(hal_exp_core_f32_(w, wl), n);
}

/* The sign and the special values of C99 F.9.4.4, from the magnitude r = |x|^y; yint: y integral, yodd: odd. */
HAL_FN hal_f32 hal_pow_corners_f32_(hal_f32 x, hal_f32 y, hal_f32 r, hal_i32 yint, hal_i32 yodd) {
  hal_f32 ax = hal_abs_f32(x), inf = hal_inf_f32();
  hal_f32 up = y > 0.0f ? inf : 0.0f, dn = y > 0.0f ? 0.0f : inf;
  hal_i32 neg = (hal_i32)(hal_f32_to_bits(x) >> 31), bad = (x < 0.0f) & (x > -inf) & (yint == 0);
  r = ax == 0.0f ? dn : r;
  r = ax == inf ? up : r;
  r = (yodd & neg) != 0 ? -r : r;
  r = bad ? hal_nan_f32() : r;
  r = x != x ? x : r;
  r = y != y ? y : r;
  r = x == 1.0f ? 1.0f : r;
  return y == 0.0f ? 1.0f : r;
}

HAL_FN hal_f32 hal_pow_f32(hal_f32 x, hal_f32 y) {
  hal_f32 h = 0.5f * y;
  hal_i32 yint = hal_rint_f32(y) == y, yodd = yint & (hal_rint_f32(h) != h) & (hal_abs_f32(y) < 0x1p24f);
  return hal_pow_corners_f32_(x, y, hal_pow_core_f32_(hal_abs_f32(x), y, 0.0f), yint, yodd);
}

/* x^n: x*x for n = 2 and 1/x for -1 (correctly rounded), otherwise as pow with every n exact. */
HAL_FN hal_f32 hal_powi_f32(hal_f32 x, hal_i32 n) {
  hal_f32 y = (hal_f32)n, ylo = (hal_f32)(hal_i32)((hal_i64)n - (hal_i64)y), r;
  r = hal_pow_corners_f32_(x, y, hal_pow_core_f32_(hal_abs_f32(x), y, ylo), 1, n & 1);
  r = n == 1 ? x : r;
  r = n == 2 ? x * x : r;
  return n == -1 ? 1.0f / x : r;
}

#ifndef HAL_NO_F64
/* ---- f64 ---- */

/* log2(x) as hi + lo for positive finite x: n + 2/ln2 * atanh(s), s = f/(2+f), every leading term in two parts
 * (double-f64 arithmetic after T. Dekker, 1971). */
HAL_FN hal_pair_f64 hal_log2_pair_f64_(hal_f64 x) {
  hal_reduced_f64 l = hal_log_reduce_f64_(x);
  hal_f64 n = (hal_f64)l.n, f = l.hi, dh = 2.0 + f, dl = f - (dh - 2.0);
  hal_f64 sh = f / dh, sl = (HAL_FMA_F64(-sh, dh, f) - sh * dl) / dh;
  hal_f64 uh = sh * sh, ul = HAL_FMA_F64(sh, sh, -uh) + 2.0 * sh * sl;
  hal_f64 th, tl, vh, vl, ph, pl, lh, ll, gh, gl;
  hal_pair_f64 r;
  hal_f64 p = 0.05481943301297793;
  p = HAL_FMA_F64(p, uh, 0.052152114135930835);
  p = HAL_FMA_F64(p, uh, 0.05884094992909058);
  p = HAL_FMA_F64(p, uh, 0.06666628775314168);
  p = HAL_FMA_F64(p, uh, 0.07692308195723055);
  p = HAL_FMA_F64(p, uh, 0.0909090908694715);
  p = HAL_FMA_F64(p, uh, 0.11111111111127829);
  p = HAL_FMA_F64(p, uh, 0.14285714285714257);
  /* v = u (1/3 + u (1/5 + u Q(u))) */
  p = uh * p;
  th = 0.2 + p;
  tl = (p - (th - 0.2)) + (-1.1102230246251566e-17);
  p = uh * th;
  tl = HAL_FMA_F64(uh, th, -p) + (uh * tl + ul * th);
  th = 0.3333333333333333 + p;
  tl = ((p - (th - 0.3333333333333333)) + tl) + (1.850371707708594e-17);
  vh = uh * th;
  vl = HAL_FMA_F64(uh, th, -vh) + (uh * tl + ul * th);
  /* s (1 + v) */
  ph = sh * vh;
  pl = HAL_FMA_F64(sh, vh, -ph) + (sh * vl + sl * vh);
  lh = sh + ph;
  ll = (ph - (lh - sh)) + (sl + pl);
  gh = lh * 2.8853900817779268;
  gl = HAL_FMA_F64(lh, 2.8853900817779268, -gh) + (lh * 4.0710547481862066e-17 + ll * 2.8853900817779268);
  th = n + gh;
  tl = ((n - th) + gh) + gl;
  r.hi = th + tl;
  r.lo = tl - (r.hi - th);
  return r;
}

/* 2^((y + ylo) log2|x|) for |x| positive and finite; y beyond +-1e20 cannot change the result. */
HAL_FN hal_f64 hal_pow_core_f64_(hal_f64 ax, hal_f64 y, hal_f64 ylo) {
  hal_pair_f64 l = hal_log2_pair_f64_(ax);
  hal_f64 eh, el, t, r, w, wl;
  hal_i32 n;
  y = y > 1e20 ? 1e20 : y;
  y = y < -1e20 ? -1e20 : y;
  eh = y * l.hi;
  el = HAL_FMA_F64(y, l.hi, -eh) + (y * l.lo + ylo * l.hi);
  el = hal_abs_f64(eh) > 1500.0 ? 0.0 : el;
  eh = eh > 1500.0 ? 1500.0 : eh;
  eh = eh < -1500.0 ? -1500.0 : eh;
  t = eh + 6755399441055744.0;
  n = (hal_i32)(hal_f64_to_bits(t) - HAL_U64(0x43380000u, 0));
  r = eh - (t - 6755399441055744.0); /* exact */
  w = r * 0.6931471805599453;
  wl = HAL_FMA_F64(r, 0.6931471805599453, -w) + HAL_FMA_F64(r, 2.3190468138462996e-17, el * 0.6931471805599453);
  return hal_scale2_f64_(hal_exp_core_f64_(w, wl), n);
}

/* The sign and the special values of C99 F.9.4.4, from the magnitude r = |x|^y; yint: y integral, yodd: odd. */
HAL_FN hal_f64 hal_pow_corners_f64_(hal_f64 x, hal_f64 y, hal_f64 r, hal_i32 yint, hal_i32 yodd) {
  hal_f64 ax = hal_abs_f64(x), inf = hal_inf_f64();
  hal_f64 up = y > 0.0 ? inf : 0.0, dn = y > 0.0 ? 0.0 : inf;
  hal_i32 neg = (hal_i32)(hal_f64_to_bits(x) >> 63), bad = (x < 0.0) & (x > -inf) & (yint == 0);
  r = ax == 0.0 ? dn : r;
  r = ax == inf ? up : r;
  r = (yodd & neg) != 0 ? -r : r;
  r = bad ? hal_nan_f64() : r;
  r = x != x ? x : r;
  r = y != y ? y : r;
  r = x == 1.0 ? 1.0 : r;
  return y == 0.0 ? 1.0 : r;
}

HAL_FN hal_f64 hal_pow_f64(hal_f64 x, hal_f64 y) {
  hal_f64 h = 0.5 * y;
  hal_i32 yint = hal_rint_f64(y) == y, yodd = yint & (hal_rint_f64(h) != h) & (hal_abs_f64(y) < 0x1p53);
  return hal_pow_corners_f64_(x, y, hal_pow_core_f64_(hal_abs_f64(x), y, 0.0), yint, yodd);
}

/* x^n: x*x for n = 2 and 1/x for -1 (correctly rounded), otherwise as pow with every n exact. */
HAL_FN hal_f64 hal_powi_f64(hal_f64 x, hal_i32 n) {
  hal_f64 y = (hal_f64)n, ylo = (hal_f64)(hal_i32)((hal_i64)n - (hal_i64)y), r;
  r = hal_pow_corners_f64_(x, y, hal_pow_core_f64_(hal_abs_f64(x), y, ylo), 1, n & 1);
  r = n == 1 ? x : r;
  r = n == 2 ? x * x : r;
  return n == -1 ? 1.0 / x : r;
}
#endif

#endif
