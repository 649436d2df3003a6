/* erf: primitive, <= 1 ulp; erfc, erfinv: composites, measured bounds in README.md.
 * Coefficients without a source of their own: tests/numerics/remez.py. */
#ifndef HAL_NUMERICS_SPECIAL_H
#define HAL_NUMERICS_SPECIAL_H
#include "hal/numerics/exp_log.h"

/* ---- f32 ---- */

/* erf(a) = a + a (1/8 - z/4 + V(z)), z = a^2, 0 <= a <= 1, as hi + lo: the head's products and sums are exact, z's rounding
 * error counts -1/4 where it matters, V is small (near-minimax). */
HAL_FN hal_pair_f32 hal_erf_small_f32_(hal_f32 a) {
  hal_f32 z = a * a, b = 0.125f - 0.25f * z, s = a * b;
  hal_pair_f32 e;
  hal_f32 p = 7.897194e-05f;
  p = HAL_FMA_F32(p, z, -8.0233574e-04f);
  p = HAL_FMA_F32(p, z, 5.189831e-03f);
  p = HAL_FMA_F32(p, z, -2.6854604e-02f);
  p = HAL_FMA_F32(p, z, 1.1283604e-01f);
  p = HAL_FMA_F32(p, z, -1.2612627e-01f);
  p = HAL_FMA_F32(p, z, 3.379166e-03f);
  p = p + (((0.125f - b) - 0.25f * z) - 0.25f * HAL_FMA_F32(a, a, -z));
  e.hi = a + s;
  e.lo = HAL_FMA_F32(a, p, (s - (e.hi - a)) + HAL_FMA_F32(a, b, -s));
  e.lo = a < 0x1p-14f ? 0.0f : e.lo; /* tiny: 2/sqrt(pi) a in one rounding, subnormals too */
  e.hi = a < 0x1p-14f ? HAL_FMA_F32(a, 1.2837917e-01f, a) : e.hi;
  return e;
}

/* exp(x^2) erfc(x) for 1 <= x <= 10.6 (f32) or 27.5 (f64): (1 + 2x) erfcx(x) is a polynomial in t = (x-K)/(x+K),
 * after M. Shepherd and J. Laframboise, Math. Comp. 36, 1981; near-minimax. */
HAL_FN hal_f32 hal_erfcx_f32_(hal_f32 x) {
  hal_f32 t = (x - 2.0f) / (x + 2.0f);
  hal_f32 p = -1.4967045e-03f;
  p = HAL_FMA_F32(p, t, 1.0849434e-03f);
  p = HAL_FMA_F32(p, t, 8.7691955e-03f);
  p = HAL_FMA_F32(p, t, -8.009847e-03f);
  p = HAL_FMA_F32(p, t, -5.422656e-02f);
  p = HAL_FMA_F32(p, t, 1.640501e-01f);
  p = HAL_FMA_F32(p, t, -1.6603014e-01f);
  p = HAL_FMA_F32(p, t, -9.276381e-02f);
  p = HAL_FMA_F32(p, t, 1.2769784e+00f);
  return p / HAL_FMA_F32(2.0f, x, 1.0f);
}

/* Composite. |x| < 1: 1 - erf(|x|); above: exp(-x^2) erfcx(|x|), x^2 in two parts. 2 - that for x < 0. */
HAL_FN hal_f32 hal_erfc_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), z, zl, p;
  hal_reduced_f32 e;
  hal_pair_f32 s;
  a = a > 10.1f ? 10.1f : a;
  z = a * a;
  zl = HAL_FMA_F32(a, a, -z);
  e = hal_exp_reduce_f32_(-z);
  p = hal_exp_core_f32_(e.hi, e.lo - zl);
  p = hal_scale2_f32_(p * hal_erfcx_f32_(a < 1.0f ? 1.0f : a), e.n);
  s = hal_erf_small_f32_(a < 1.0f ? a : 1.0f);
  p = a < 1.0f ? (1.0f - s.hi) - s.lo : p;
  return x < 0.0f ? 2.0f - p : p;
}

/* |x| < 1: as above; beyond: 1 - exp(L + b S(b)), b = |x| - 1, L = log(erfc(1)) in two parts, L + b S(b) ~ log(erfc)
 * weighted by erfc (near-minimax); 1 from 3.92 on. */
HAL_FN hal_f32 hal_erf_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), b, z;
  hal_reduced_f32 e;
  hal_pair_f32 s = hal_erf_small_f32_(a < 1.0f ? a : 1.0f);
  b = (a > 3.95f ? 3.95f : a) - 1.0f;
  b = b > 0.0f ? b : 0.0f;
  hal_f32 p = -2.1712824e-05f;
  p = HAL_FMA_F32(p, b, 2.8960002e-04f);
  p = HAL_FMA_F32(p, b, -2.0119778e-03f);
  p = HAL_FMA_F32(p, b, 1.0046345e-02f);
  p = HAL_FMA_F32(p, b, -4.1563388e-02f);
  p = HAL_FMA_F32(p, b, -8.431071e-01f);
  p = HAL_FMA_F32(p, b, -2.6389675e+00f);
  p = p * b;
  b = -1.8496056e+00f + p;
  p = (p - (b - (-1.8496056e+00f))) + (5.0369486e-08f);
  e = hal_exp_reduce_f32_(b);
  z = hal_exp_core_f32_(e.hi, e.lo + p);
  z = HAL_FMA_F32(-z, hal_pow2_f32(e.n), 1.0f);
  return x != x ? x : hal_copysign_f32(a < 1.0f ? s.hi + s.lo : z, x);
}

/* M. Giles, "Approximating the erfinv function", GPU Computing Gems 2, 2010 (single precision); composite. */
HAL_FN hal_f32 hal_erfinv_f32(hal_f32 x) {
  hal_f32 w = -hal_log_f32(HAL_FMA_F32(-x, x, 1.0f)), s, t, r;
  s = w - 2.5f;
  t = HAL_SQRT_F32(w < 5.0f ? 5.0f : w) - 3.0f;
  t = w < 5.0f ? s : t;
  r = w < 5.0f ? 2.8102264e-08f : -2.0021426e-04f;
  r = HAL_FMA_F32(r, t, w < 5.0f ? 3.4327394e-07f : 1.0095056e-04f);
  r = HAL_FMA_F32(r, t, w < 5.0f ? -3.5233877e-06f : 1.3493432e-03f);
  r = HAL_FMA_F32(r, t, w < 5.0f ? -4.3915065e-06f : -3.6734284e-03f);
  r = HAL_FMA_F32(r, t, w < 5.0f ? 2.1858087e-04f : 5.7395077e-03f);
  r = HAL_FMA_F32(r, t, w < 5.0f ? -1.253725e-03f : -7.6224613e-03f);
  r = HAL_FMA_F32(r, t, w < 5.0f ? -4.1776816e-03f : 9.4388705e-03f);
  r = HAL_FMA_F32(r, t, w < 5.0f ? 2.4664073e-01f : 1.001674e+00f);
  r = HAL_FMA_F32(r, t, w < 5.0f ? 1.5014094e+00f : 2.8329768e+00f);
  r = r * x;
  r = hal_abs_f32(x) == 1.0f ? hal_copysign_f32(hal_inf_f32(), x) : r;
  return hal_abs_f32(x) > 1.0f ? hal_nan_f32() : r;
}

#ifndef HAL_NO_F64
/* ---- f64 ---- */

/* erf(a) = a + a (1/8 - z/4 + V(z)), z = a^2, 0 <= a <= 1, as hi + lo: the head's products and sums are exact, z's rounding
 * error counts -1/4 where it matters, V is small (near-minimax). */
HAL_FN hal_pair_f64 hal_erf_small_f64_(hal_f64 a) {
  hal_f64 z = a * a, b = 0.125 - 0.25 * z, s = a * b;
  hal_pair_f64 e;
  hal_f64 p = -1.3645098332018842e-12;
  p = HAL_FMA_F64(p, z, 6.833486289890984e-11);
  p = HAL_FMA_F64(p, z, -1.1621235299632543e-09);
  p = HAL_FMA_F64(p, z, 1.4700652271278878e-08);
  p = HAL_FMA_F64(p, z, -1.6354635081307238e-07);
  p = HAL_FMA_F64(p, z, 1.6461307374119579e-06);
  p = HAL_FMA_F64(p, z, -1.4925610111955967e-05);
  p = HAL_FMA_F64(p, z, 0.00012055331597661039);
  p = HAL_FMA_F64(p, z, -0.0008548326991309287);
  p = HAL_FMA_F64(p, z, 0.0052239776249585704);
  p = HAL_FMA_F64(p, z, -0.02686617064508735);
  p = HAL_FMA_F64(p, z, 0.11283791670954914);
  p = HAL_FMA_F64(p, z, -0.12612638903183748);
  p = HAL_FMA_F64(p, z, 0.0033791670955125737);
  p = p + (((0.125 - b) - 0.25 * z) - 0.25 * HAL_FMA_F64(a, a, -z));
  e.hi = a + s;
  e.lo = HAL_FMA_F64(a, p, (s - (e.hi - a)) + HAL_FMA_F64(a, b, -s));
  e.lo = a < 0x1p-28 ? 0.0 : e.lo; /* tiny: 2/sqrt(pi) a in one rounding, subnormals too */
  e.hi = a < 0x1p-28 ? HAL_FMA_F64(a, 0.1283791670955126, a) : e.hi;
  return e;
}

/* exp(x^2) erfc(x) for 1 <= x <= 10.6 (f32) or 27.5 (f64): (1 + 2x) erfcx(x) is a polynomial in t = (x-K)/(x+K),
 * after M. Shepherd and J. Laframboise, Math. Comp. 36, 1981; near-minimax. */
HAL_FN hal_f64 hal_erfcx_f64_(hal_f64 x) {
  hal_f64 t = (x - 3.5) / (x + 3.5);
  hal_f64 p = 2.329984197129167e-08;
  p = HAL_FMA_F64(p, t, -9.255252121512291e-08);
  p = HAL_FMA_F64(p, t, -4.007162242211077e-08);
  p = HAL_FMA_F64(p, t, 6.135546843892844e-07);
  p = HAL_FMA_F64(p, t, -2.543759277123503e-08);
  p = HAL_FMA_F64(p, t, -3.826183747672208e-06);
  p = HAL_FMA_F64(p, t, 2.3224647274630973e-06);
  p = HAL_FMA_F64(p, t, 2.4265741713086954e-05);
  p = HAL_FMA_F64(p, t, -4.278120306280361e-05);
  p = HAL_FMA_F64(p, t, -0.000121513539509191);
  p = HAL_FMA_F64(p, t, 0.000564384318444049);
  p = HAL_FMA_F64(p, t, -0.00030226772162100893);
  p = HAL_FMA_F64(p, t, -0.004215019903446898);
  p = HAL_FMA_F64(p, t, 0.01909933092961137);
  p = HAL_FMA_F64(p, t, -0.048823325827898605);
  p = HAL_FMA_F64(p, t, 0.08798315382543859);
  p = HAL_FMA_F64(p, t, -0.11508959816019768);
  p = HAL_FMA_F64(p, t, 0.09751909515324685);
  p = HAL_FMA_F64(p, t, -0.010555596332218179);
  p = HAL_FMA_F64(p, t, -0.14000918013761934);
  p = HAL_FMA_F64(p, t, 1.2423492448711544);
  return p / HAL_FMA_F64(2.0, x, 1.0);
}

/* Composite. |x| < 1: 1 - erf(|x|); above: exp(-x^2) erfcx(|x|), x^2 in two parts. 2 - that for x < 0. */
HAL_FN hal_f64 hal_erfc_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), z, zl, p;
  hal_reduced_f64 e;
  hal_pair_f64 s;
  a = a > 27.3 ? 27.3 : a;
  z = a * a;
  zl = HAL_FMA_F64(a, a, -z);
  e = hal_exp_reduce_f64_(-z);
  p = hal_exp_core_f64_(e.hi, e.lo - zl);
  p = hal_scale2_f64_(p * hal_erfcx_f64_(a < 1.0 ? 1.0 : a), e.n);
  s = hal_erf_small_f64_(a < 1.0 ? a : 1.0);
  p = a < 1.0 ? (1.0 - s.hi) - s.lo : p;
  return x < 0.0 ? 2.0 - p : p;
}

/* |x| < 1: as above; beyond: 1 - erfc; 1 from 5.92 on. */
HAL_FN hal_f64 hal_erf_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), b;
  hal_pair_f64 s = hal_erf_small_f64_(a < 1.0 ? a : 1.0);
  b = a > 6.0 ? 6.0 : a;
  b = 1.0 - hal_erfc_f64(b);
  return x != x ? x : hal_copysign_f64(a < 1.0 ? s.hi + s.lo : b, x);
}

/* M. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Appl. Statist. 37, 1988 (PPND16):
 * erfinv(x) = ndtri((1+x)/2)/sqrt 2, q = x/2 and the tail probability (1-|x|)/2 being exact; composite. */
HAL_FN hal_f64 hal_erfinv_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), q = 0.5 * x, r, n, d;
  if (!(a < 1.0)) return a == 1.0 ? hal_copysign_f64(hal_inf_f64(), x) : (x != x ? x : hal_nan_f64());
  if (a <= 0.85) {
    r = HAL_FMA_F64(-q, q, 0.180625);
    n = 2509.0809287301227;
    d = 5226.495278852854;
    n = HAL_FMA_F64(n, r, 33430.57558358813);
    d = HAL_FMA_F64(d, r, 28729.085735721943);
    n = HAL_FMA_F64(n, r, 67265.7709270087);
    d = HAL_FMA_F64(d, r, 39307.89580009271);
    n = HAL_FMA_F64(n, r, 45921.95393154987);
    d = HAL_FMA_F64(d, r, 21213.794301586597);
    n = HAL_FMA_F64(n, r, 13731.69376550946);
    d = HAL_FMA_F64(d, r, 5394.196021424751);
    n = HAL_FMA_F64(n, r, 1971.5909503065513);
    d = HAL_FMA_F64(d, r, 687.1870074920579);
    n = HAL_FMA_F64(n, r, 133.14166789178438);
    d = HAL_FMA_F64(d, r, 42.31333070160091);
    n = HAL_FMA_F64(n, r, 3.3871328727963665);
    d = HAL_FMA_F64(d, r, 1.0);
    return n / d * (x * 0.3535533905932738); /* 1/sqrt 8 */
  }
  r = HAL_SQRT_F64(-hal_log_f64(0.5 - 0.5 * a));
  if (r <= 5.0) {
    r = r - 1.6;
    n = 0.0007745450142783414;
    d = 1.0507500716444169e-09;
    n = HAL_FMA_F64(n, r, 0.022723844989269184);
    d = HAL_FMA_F64(d, r, 0.0005475938084995345);
    n = HAL_FMA_F64(n, r, 0.2417807251774506);
    d = HAL_FMA_F64(d, r, 0.015198666563616457);
    n = HAL_FMA_F64(n, r, 1.2704582524523684);
    d = HAL_FMA_F64(d, r, 0.14810397642748008);
    n = HAL_FMA_F64(n, r, 3.6478483247632045);
    d = HAL_FMA_F64(d, r, 0.6897673349851);
    n = HAL_FMA_F64(n, r, 5.769497221460691);
    d = HAL_FMA_F64(d, r, 1.6763848301838038);
    n = HAL_FMA_F64(n, r, 4.630337846156546);
    d = HAL_FMA_F64(d, r, 2.053191626637759);
    n = HAL_FMA_F64(n, r, 1.4234371107496835);
    d = HAL_FMA_F64(d, r, 1.0);
  } else {
    r = r - 5.0;
    n = 2.0103343992922881e-07;
    d = 2.0442631033899397e-15;
    n = HAL_FMA_F64(n, r, 2.7115555687434876e-05);
    d = HAL_FMA_F64(d, r, 1.421511758316446e-07);
    n = HAL_FMA_F64(n, r, 0.0012426609473880784);
    d = HAL_FMA_F64(d, r, 1.8463183175100548e-05);
    n = HAL_FMA_F64(n, r, 0.026532189526576124);
    d = HAL_FMA_F64(d, r, 0.0007868691311456133);
    n = HAL_FMA_F64(n, r, 0.29656057182850487);
    d = HAL_FMA_F64(d, r, 0.014875361290850615);
    n = HAL_FMA_F64(n, r, 1.7848265399172913);
    d = HAL_FMA_F64(d, r, 0.1369298809227358);
    n = HAL_FMA_F64(n, r, 5.463784911164114);
    d = HAL_FMA_F64(d, r, 0.599832206555888);
    n = HAL_FMA_F64(n, r, 6.657904643501103);
    d = HAL_FMA_F64(d, r, 1.0);
  }
  return hal_copysign_f64(n / d * 0.7071067811865476, x);
}
#endif

#endif
