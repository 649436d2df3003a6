/* sinpi(x) = sin(pi x), cospi(x) = cos(pi x): primitives, <= 1 ulp; the argument reduction is exact.
 * Coefficients: tests/numerics/remez.py. */
#ifndef HAL_NUMERICS_TRIG_PI_H
#define HAL_NUMERICS_TRIG_PI_H
#include "hal/numerics/exp_log.h" /* hal_reduced_* */

/* ---- f32 ---- */

/* |x| = 2h + n/2 + hi, |hi| <= 1/4, all exact; n mod 4 is the quadrant. From 2^p on x is an even integer; an infinity
 * becomes NaN (inf - inf). */
HAL_FN hal_reduced_f32 hal_pi_reduce_f32_(hal_f32 x) {
  hal_reduced_f32 e;
  hal_f32 a = hal_abs_f32(x), h, t;
  a = a < 16777216.0f ? a : a - a;
  h = (a * 0.5f + 8388608.0f) - 8388608.0f;
  a = a - 2.0f * h;
  t = a * 2.0f + 12582912.0f;
  e.n = (hal_i32)(hal_f32_to_bits(t) - 0x4b400000u);
  e.hi = a - 0.5f * (t - 12582912.0f);
  e.lo = 0.0f;
  return e;
}

/* sin(pi r), cos(pi r) on |r| <= 1/4: pi r in two parts + r^3 S(r^2); 1 + r^2 C(r^2) (near-minimax) */
HAL_FN hal_f32 hal_sinpi_poly_f32_(hal_f32 r) {
  hal_f32 z = r * r, m = r * 3.1415927e+00f, e = HAL_FMA_F32(r, -8.742278e-08f, HAL_FMA_F32(r, 3.1415927e+00f, -m));
  hal_f32 p = 7.9165615e-02f;
  p = HAL_FMA_F32(p, z, -5.989817e-01f);
  p = HAL_FMA_F32(p, z, 2.5501547e+00f);
  p = HAL_FMA_F32(p, z, -5.1677127e+00f);
  return m + HAL_FMA_F32(z * r, p, e);
}

HAL_FN hal_f32 hal_cospi_poly_f32_(hal_f32 r) {
  hal_f32 z = r * r;
  hal_f32 p = 2.287217e-01f;
  p = HAL_FMA_F32(p, z, -1.3347349e+00f);
  p = HAL_FMA_F32(p, z, 4.0586963e+00f);
  p = HAL_FMA_F32(p, z, -4.934802e+00f);
  return HAL_FMA_F32(z, p, 1.0f);
}

/* A zero has the sign of x (IEEE 754-2019, sinPi). */
HAL_FN hal_f32 hal_sinpi_f32(hal_f32 x) {
  hal_reduced_f32 e = hal_pi_reduce_f32_(x);
  hal_f32 s = hal_sinpi_poly_f32_(e.hi), c = hal_cospi_poly_f32_(e.hi);
  hal_f32 v = (e.n & 1) ? c : s;
  v = (e.n & 2) ? -v : v;
  v = v == 0.0f ? 0.0f : v;
  return hal_f32_from_bits(hal_f32_to_bits(v) ^ (hal_f32_to_bits(x) & 0x80000000u));
}

/* A zero is +0 (IEEE 754-2019, cosPi). */
HAL_FN hal_f32 hal_cospi_f32(hal_f32 x) {
  hal_reduced_f32 e = hal_pi_reduce_f32_(x);
  hal_f32 s = hal_sinpi_poly_f32_(e.hi), c = hal_cospi_poly_f32_(e.hi);
  hal_f32 v = (e.n & 1) ? s : c;
  v = ((e.n + 1) & 2) ? -v : v;
  return v == 0.0f ? 0.0f : v;
}

#ifndef HAL_NO_F64
/* ---- f64 ---- */

/* |x| = 2h + n/2 + hi, |hi| <= 1/4, all exact; n mod 4 is the quadrant. From 2^p on x is an even integer; an infinity
 * becomes NaN (inf - inf). */
HAL_FN hal_reduced_f64 hal_pi_reduce_f64_(hal_f64 x) {
  hal_reduced_f64 e;
  hal_f64 a = hal_abs_f64(x), h, t;
  a = a < 9007199254740992.0 ? a : a - a;
  h = (a * 0.5 + 4503599627370496.0) - 4503599627370496.0;
  a = a - 2.0 * h;
  t = a * 2.0 + 6755399441055744.0;
  e.n = (hal_i32)(hal_f64_to_bits(t) - HAL_U64(0x43380000u, 0));
  e.hi = a - 0.5 * (t - 6755399441055744.0);
  e.lo = 0.0;
  return e;
}

/* sin(pi r), cos(pi r) on |r| <= 1/4: pi r in two parts + r^3 S(r^2); 1 + r^2 C(r^2) (near-minimax) */
HAL_FN hal_f64 hal_sinpi_poly_f64_(hal_f64 r) {
  hal_f64 z = r * r, m = r * 3.141592653589793, e = HAL_FMA_F64(r, 1.2246467991473532e-16, HAL_FMA_F64(r, 3.141592653589793, -m));
  hal_f64 p = -2.2172502237230808e-05;
  p = HAL_FMA_F64(p, z, 0.00046638153311702685);
  p = HAL_FMA_F64(p, z, -0.0073704382800068614);
  p = HAL_FMA_F64(p, z, 0.08214588693141012);
  p = HAL_FMA_F64(p, z, -0.5992645293277453);
  p = HAL_FMA_F64(p, z, 2.5501640398774144);
  p = HAL_FMA_F64(p, z, -5.16771278004997);
  return m + HAL_FMA_F64(z * r, p, e);
}

HAL_FN hal_f64 hal_cospi_poly_f64_(hal_f64 r) {
  hal_f64 z = r * r;
  hal_f64 p = -2.6791260200036696e-05;
  p = HAL_FMA_F64(p, z, -9.693735929550957e-05);
  p = HAL_FMA_F64(p, z, 0.0019288014425999326);
  p = HAL_FMA_F64(p, z, -0.025806851180475918);
  p = HAL_FMA_F64(p, z, 0.23533062920897677);
  p = HAL_FMA_F64(p, z, -1.3352627688369976);
  p = HAL_FMA_F64(p, z, 4.058712126416641);
  p = HAL_FMA_F64(p, z, -4.934802200544679);
  return HAL_FMA_F64(z, p, 1.0);
}

/* A zero has the sign of x (IEEE 754-2019, sinPi). */
HAL_FN hal_f64 hal_sinpi_f64(hal_f64 x) {
  hal_reduced_f64 e = hal_pi_reduce_f64_(x);
  hal_f64 s = hal_sinpi_poly_f64_(e.hi), c = hal_cospi_poly_f64_(e.hi);
  hal_f64 v = (e.n & 1) ? c : s;
  v = (e.n & 2) ? -v : v;
  v = v == 0.0 ? 0.0 : v;
  return hal_f64_from_bits(hal_f64_to_bits(v) ^ (hal_f64_to_bits(x) & HAL_U64(0x80000000u, 0)));
}

/* A zero is +0 (IEEE 754-2019, cosPi). */
HAL_FN hal_f64 hal_cospi_f64(hal_f64 x) {
  hal_reduced_f64 e = hal_pi_reduce_f64_(x);
  hal_f64 s = hal_sinpi_poly_f64_(e.hi), c = hal_cospi_poly_f64_(e.hi);
  hal_f64 v = (e.n & 1) ? s : c;
  v = ((e.n + 1) & 2) ? -v : v;
  return v == 0.0 ? 0.0 : v;
}
#endif

#endif
