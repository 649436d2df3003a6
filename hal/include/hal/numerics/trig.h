/* sin, cos, tan over the full range: primitives, <= 1 ulp.
 * Coefficients: tests/numerics/remez.py; pi/2 is split into parts rounded to the type. */
#ifndef HAL_NUMERICS_TRIG_H
#define HAL_NUMERICS_TRIG_H
#include "hal/numerics/exp_log.h" /* hal_reduced_* */

/* ---- f32 ---- */

/* |x| = n pi/2 + hi + lo, |hi| <= pi/4 about: M. Payne and R. Hanek, 1983, in 32-bit integers, for every x. The exponent picks
 * 96 bits of 2/pi (behind one zero word); their product with the significand, mod 4, has 62 fraction bits left, and
 * no f32 comes closer to a multiple of pi/2 than 2^-30. Below pi/4 nothing is reduced. */
HAL_FN hal_reduced_f32 hal_pio2_reduce_f32_(hal_f32 x) {
  hal_u32 u = hal_f32_to_bits(x) & 0x7fffffffu, m = (u & 0x007fffffu) | 0x00800000u;
  hal_u32 j = (u >> 23) > 120u ? (u >> 23) - 120u : 0u, b = j & 31u;
  hal_u32 w0, w1, w2, w3, w4, top, low, s, q;
  hal_u64 p;
  hal_f32 f0, f1, f, t;
  hal_reduced_f32 e;
  /* four words from word j/32 (0..4) on, by selects instead of a table */
  w0 = (j & 64u) ? 0x4e441529u : 0u;
  w1 = (j & 64u) ? 0xfc2757d1u : 0xa2f9836eu;
  w2 = (j & 64u) ? 0xf534ddc0u : 0x4e441529u;
  w3 = (j & 64u) ? 0xdb629599u : 0xfc2757d1u;
  w4 = (j & 64u) ? 0x3c439041u : 0xf534ddc0u;
  w0 = (j & 32u) ? w1 : w0;
  w1 = (j & 32u) ? w2 : w1;
  w2 = (j & 32u) ? w3 : w2;
  w3 = (j & 32u) ? w4 : w3;
  w0 = (j & 128u) ? 0xf534ddc0u : w0;
  w1 = (j & 128u) ? 0xdb629599u : w1;
  w2 = (j & 128u) ? 0x3c439041u : w2;
  w3 = (j & 128u) ? 0xfe5163abu : w3;
  w0 = (w0 << b) | ((w1 >> 1) >> (31u - b));
  w1 = (w1 << b) | ((w2 >> 1) >> (31u - b));
  w2 = (w2 << b) | ((w3 >> 1) >> (31u - b));
  p = (hal_u64)m * w1 + (((hal_u64)m * w2) >> 32);
  top = m * w0 + (hal_u32)(p >> 32);
  low = (hal_u32)p;
  /* nearest quadrant, then the magnitude of the signed rest (one's complement: off by 2^-62) */
  q = (top + 0x20000000u) >> 30;
  top -= q << 30;
  s = (hal_u32)0 - (top >> 31);
  top ^= s;
  low ^= s;
  f0 = (hal_f32)(hal_i32)(top >> 6) * 0x1p-24f;
  f1 = (hal_f32)(hal_i32)(((top & 0x3fu) << 18) | (low >> 14)) * 0x1p-48f;
  f = f0 + f1;
  t = ((f0 - f) + f1) + (hal_f32)(hal_i32)(low & 0x3fffu) * 0x1p-62f;
  e.hi = f * 1.5707964e+00f;
  e.lo = HAL_FMA_F32(f, 1.5707964e+00f, -e.hi) + HAL_FMA_F32(f, -4.371139e-08f, t * 1.5707964e+00f);
  e.hi = hal_f32_from_bits(hal_f32_to_bits(e.hi) ^ (s & 0x80000000u));
  e.lo = hal_f32_from_bits(hal_f32_to_bits(e.lo) ^ (s & 0x80000000u));
  e.n = (hal_i32)(u < 0x3f490fdbu ? 0u : q);
  e.hi = u < 0x3f490fdbu ? hal_f32_from_bits(u) : e.hi;
  e.lo = u < 0x3f490fdbu ? 0.0f : e.lo;
  return e;
}

/* sin(hi + lo) = hi + tail, r = hi: r + r^3 S(r^2) + lo cos r (near-minimax) */
HAL_FN hal_pair_f32 hal_sin_kernel_f32_(hal_reduced_f32 e) {
  hal_f32 z = e.hi * e.hi;
  hal_pair_f32 s;
  hal_f32 p = 2.8373647e-06f;
  p = HAL_FMA_F32(p, z, -1.9853504e-04f);
  p = HAL_FMA_F32(p, z, 8.33338e-03f);
  p = HAL_FMA_F32(p, z, -1.6666667e-01f);
  s.hi = e.hi;
  s.lo = HAL_FMA_F32(z * e.hi, p, HAL_FMA_F32(-0.5f * z, e.lo, e.lo));
  return s;
}

/* cos(hi + lo) = (1 - z/2) + tail, z = r^2 with its rounding error carried: 1 - z/2 + z^2 C(z) - r lo */
HAL_FN hal_pair_f32 hal_cos_kernel_f32_(hal_reduced_f32 e) {
  hal_f32 z = e.hi * e.hi, h = 0.5f * z, w = 1.0f - h;
  hal_pair_f32 c;
  hal_f32 p = -2.8879595e-07f;
  p = HAL_FMA_F32(p, z, 2.4822013e-05f);
  p = HAL_FMA_F32(p, z, -1.388898e-03f);
  p = HAL_FMA_F32(p, z, 4.1666668e-02f);
  c.hi = w;
  c.lo = ((1.0f - w) - h) + HAL_FMA_F32(z * z, p, -HAL_FMA_F32(e.hi, e.lo, 0.5f * HAL_FMA_F32(e.hi, e.hi, -z)));
  return c;
}

HAL_FN hal_f32 hal_sin_f32(hal_f32 x) {
  hal_reduced_f32 e = hal_pio2_reduce_f32_(x);
  hal_pair_f32 s = hal_sin_kernel_f32_(e), c = hal_cos_kernel_f32_(e);
  hal_f32 v = (e.n & 1) ? c.hi + c.lo : s.hi + s.lo;
  v = (e.n & 2) ? -v : v;
  v = hal_f32_from_bits(hal_f32_to_bits(v) ^ (hal_f32_to_bits(x) & 0x80000000u));
  return hal_abs_f32(x) < hal_inf_f32() ? v : x - x;
}

HAL_FN hal_f32 hal_cos_f32(hal_f32 x) {
  hal_reduced_f32 e = hal_pio2_reduce_f32_(x);
  hal_pair_f32 s = hal_sin_kernel_f32_(e), c = hal_cos_kernel_f32_(e);
  hal_f32 v = (e.n & 1) ? s.hi + s.lo : c.hi + c.lo;
  v = ((e.n + 1) & 2) ? -v : v;
  return hal_abs_f32(x) < hal_inf_f32() ? v : x - x;
}

/* sin/cos or -cos/sin of the pairs, the quotient corrected by its remainder. */
HAL_FN hal_f32 hal_tan_f32(hal_f32 x) {
  hal_reduced_f32 e = hal_pio2_reduce_f32_(x);
  hal_pair_f32 s = hal_sin_kernel_f32_(e), c = hal_cos_kernel_f32_(e);
  hal_f32 n, nl, d, dl, sh, sl, ch, cl, q, r;
  sh = s.hi + s.lo;
  sl = s.lo - (sh - s.hi);
  ch = c.hi + c.lo;
  cl = c.lo - (ch - c.hi);
  n = (e.n & 1) ? -ch : sh;
  nl = (e.n & 1) ? -cl : sl;
  d = (e.n & 1) ? sh : ch;
  dl = (e.n & 1) ? sl : cl;
  q = n / d;
  r = HAL_FMA_F32(-q, d, n) + HAL_FMA_F32(-q, dl, nl);
  q = q + r / d;
  q = hal_f32_from_bits(hal_f32_to_bits(q) ^ (hal_f32_to_bits(x) & 0x80000000u));
  return hal_abs_f32(x) < hal_inf_f32() ? q : x - x;
}

#ifndef HAL_NO_F64
/* ---- f64 ---- */

/* 2/pi to 1184 bits behind one zero word (digits by mpmath) */
#define HAL_TWO_OVER_PI_WORDS_                                                                                                       \
  {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au, \
   0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, \
   0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, \
   0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u}
#if defined(HAL_LANG_OPENCL)
__constant hal_u32 hal_two_over_pi_[38] = HAL_TWO_OVER_PI_WORDS_;
#endif

/* As for f32, with 192 bits of 2/pi and 126 fraction bits left; for |x| >= 2^22. */
HAL_FN hal_reduced_f64 hal_pio2_large_f64_(hal_f64 x) {
#if !defined(HAL_LANG_OPENCL)
  static const hal_u32 hal_two_over_pi_[38] = HAL_TWO_OVER_PI_WORDS_;
#endif
  hal_u64 u = hal_f64_to_bits(x) & HAL_U64(0x7fffffffu, 0xffffffffu);
  hal_u32 ex = (hal_u32)(u >> 52), j = ex > 1045u && ex < 2047u ? ex - 1045u : 0u, b = j & 31u;
  hal_u32 i = j >> 5, m0 = (hal_u32)u, m1 = ((hal_u32)(u >> 32) & 0x000fffffu) | 0x00100000u;
  hal_u32 v[6], r[6], q, s;
  hal_u64 carry, hi, lo;
  hal_f64 f, f1, t;
  hal_reduced_f64 e;
  hal_i32 k;
  for (k = 0; k < 6; k++) { /* v[0] is the lowest word */
    hal_u32 a = hal_two_over_pi_[i + 5u - (hal_u32)k], c = hal_two_over_pi_[i + 6u - (hal_u32)k];
    v[k] = (a << b) | ((c >> 1) >> (31u - b));
  }
  carry = 0u; /* r = v * m mod 2^192, by rows of 32 x 32 -> 64 */
  for (k = 0; k < 6; k++) {
    carry += (hal_u64)v[k] * m0;
    r[k] = (hal_u32)carry;
    carry >>= 32;
  }
  carry = 0u;
  for (k = 1; k < 6; k++) {
    carry += (hal_u64)v[k - 1] * m1 + r[k];
    r[k] = (hal_u32)carry;
    carry >>= 32;
  }
  q = (r[5] + 0x20000000u) >> 30;
  r[5] -= q << 30;
  s = (hal_u32)0 - (r[5] >> 31);
  hi = HAL_U64(r[5] ^ s, r[4] ^ s); /* units of 2^-62, below 2^61 */
  lo = HAL_U64(r[3] ^ s, r[2] ^ s);
  f = (hal_f64)(hal_i64)(hi >> 9) * 0x1p-53; /* 52, 53 and 20 bits: exact */
  f1 = (hal_f64)(hal_i64)(((hi & 0x1ffu) << 44) | (lo >> 20)) * 0x1p-106;
  t = f;
  f = t + f1;
  t = ((t - f) + f1) + (hal_f64)(hal_i64)(lo & 0xfffffu) * 0x1p-126;
  e.hi = f * 1.5707963267948966;
  e.lo = HAL_FMA_F64(f, 1.5707963267948966, -e.hi) + HAL_FMA_F64(f, 6.123233995736766e-17, t * 1.5707963267948966);
  e.hi = s ? -e.hi : e.hi;
  e.lo = s ? -e.lo : e.lo;
  e.n = (hal_i32)q;
  return e;
}

/* Up to 2^22: W. Cody and W. Waite, 1980, with pi/2 in three parts; the first product leaves x - n P1 exact. */
HAL_FN hal_reduced_f64 hal_pio2_reduce_f64_(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), t, n, r, w, we, b;
  hal_reduced_f64 e;
  if (a >= 4194304.0) return hal_pio2_large_f64_(a);
  t = HAL_FMA_F64(a, 0.6366197723675814, 6755399441055744.0);
  n = t - 6755399441055744.0;
  e.n = (hal_i32)(hal_f64_to_bits(t) - HAL_U64(0x43380000u, 0));
  r = HAL_FMA_F64(-n, 1.5707963267948966, a);
  w = n * 6.123233995736766e-17;
  we = HAL_FMA_F64(n, 6.123233995736766e-17, -w);
  e.hi = r - w;
  b = e.hi - r; /* 2Sum of r and -w */
  e.lo = ((r - (e.hi - b)) - (w + b)) - HAL_FMA_F64(n, -1.4973849048591698e-33, we);
  e.n = a < 0.78539816339744828 ? 0 : e.n;
  e.hi = a < 0.78539816339744828 ? a : e.hi;
  e.lo = a < 0.78539816339744828 ? 0.0 : e.lo;
  return e;
}

/* sin(hi + lo) = hi + tail, r = hi: r + r^3 S(r^2) + lo cos r (near-minimax) */
HAL_FN hal_pair_f64 hal_sin_kernel_f64_(hal_reduced_f64 e) {
  hal_f64 z = e.hi * e.hi;
  hal_pair_f64 s;
  hal_f64 p = -7.385185793436926e-13;
  p = HAL_FMA_F64(p, z, 1.6054231096846482e-10);
  p = HAL_FMA_F64(p, z, -2.505207034663132e-08);
  p = HAL_FMA_F64(p, z, 2.7557319072040256e-06);
  p = HAL_FMA_F64(p, z, -0.0001984126984095943);
  p = HAL_FMA_F64(p, z, 0.00833333333333304);
  p = HAL_FMA_F64(p, z, -0.16666666666666666);
  s.hi = e.hi;
  s.lo = HAL_FMA_F64(z * e.hi, p, HAL_FMA_F64(-0.5 * z, e.lo, e.lo));
  return s;
}

/* cos(hi + lo) = (1 - z/2) + tail, z = r^2 with its rounding error carried: 1 - z/2 + z^2 C(z) - r lo */
HAL_FN hal_pair_f64 hal_cos_kernel_f64_(hal_reduced_f64 e) {
  hal_f64 z = e.hi * e.hi, h = 0.5 * z, w = 1.0 - h;
  hal_pair_f64 c;
  hal_f64 p = 4.5792620022213813e-14;
  p = HAL_FMA_F64(p, z, -1.1466580620802026e-11);
  p = HAL_FMA_F64(p, z, 2.0876719738822386e-09);
  p = HAL_FMA_F64(p, z, -2.75573190519239e-07);
  p = HAL_FMA_F64(p, z, 2.4801587301164846e-05);
  p = HAL_FMA_F64(p, z, -0.0013888888888888378);
  p = HAL_FMA_F64(p, z, 0.041666666666666664);
  c.hi = w;
  c.lo = ((1.0 - w) - h) + HAL_FMA_F64(z * z, p, -HAL_FMA_F64(e.hi, e.lo, 0.5 * HAL_FMA_F64(e.hi, e.hi, -z)));
  return c;
}

HAL_FN hal_f64 hal_sin_f64(hal_f64 x) {
  hal_reduced_f64 e = hal_pio2_reduce_f64_(x);
  hal_pair_f64 s = hal_sin_kernel_f64_(e), c = hal_cos_kernel_f64_(e);
  hal_f64 v = (e.n & 1) ? c.hi + c.lo : s.hi + s.lo;
  v = (e.n & 2) ? -v : v;
  v = hal_f64_from_bits(hal_f64_to_bits(v) ^ (hal_f64_to_bits(x) & HAL_U64(0x80000000u, 0)));
  return hal_abs_f64(x) < hal_inf_f64() ? v : x - x;
}

HAL_FN hal_f64 hal_cos_f64(hal_f64 x) {
  hal_reduced_f64 e = hal_pio2_reduce_f64_(x);
  hal_pair_f64 s = hal_sin_kernel_f64_(e), c = hal_cos_kernel_f64_(e);
  hal_f64 v = (e.n & 1) ? s.hi + s.lo : c.hi + c.lo;
  v = ((e.n + 1) & 2) ? -v : v;
  return hal_abs_f64(x) < hal_inf_f64() ? v : x - x;
}

/* sin/cos or -cos/sin of the pairs, the quotient corrected by its remainder. */
HAL_FN hal_f64 hal_tan_f64(hal_f64 x) {
  hal_reduced_f64 e = hal_pio2_reduce_f64_(x);
  hal_pair_f64 s = hal_sin_kernel_f64_(e), c = hal_cos_kernel_f64_(e);
  hal_f64 n, nl, d, dl, sh, sl, ch, cl, q, r;
  sh = s.hi + s.lo;
  sl = s.lo - (sh - s.hi);
  ch = c.hi + c.lo;
  cl = c.lo - (ch - c.hi);
  n = (e.n & 1) ? -ch : sh;
  nl = (e.n & 1) ? -cl : sl;
  d = (e.n & 1) ? sh : ch;
  dl = (e.n & 1) ? sl : cl;
  q = n / d;
  r = HAL_FMA_F64(-q, d, n) + HAL_FMA_F64(-q, dl, nl);
  q = q + r / d;
  q = hal_f64_from_bits(hal_f64_to_bits(q) ^ (hal_f64_to_bits(x) & HAL_U64(0x80000000u, 0)));
  return hal_abs_f64(x) < hal_inf_f64() ? q : x - x;
}
#endif

#endif
