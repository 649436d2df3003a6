/* atan, asin, acos: primitives, <= 1 ulp; atan2: composite.
 * Coefficients: tests/numerics/remez.py; pi and pi/2 are split into parts rounded to the type. */
#ifndef HAL_NUMERICS_INVERSE_TRIG_H
#define HAL_NUMERICS_INVERSE_TRIG_H
#include "hal/numerics/prelude.h"

/* ---- f32 ---- */

/* (atan(y) - y)/y^3 in z = y^2, |y| <= tan(pi/8) (near-minimax) */
HAL_FN hal_f32 hal_atan_poly_f32_(hal_f32 z) {
  hal_f32 p = -6.0913965e-02f;
  p = HAL_FMA_F32(p, z, 1.0599727e-01f);
  p = HAL_FMA_F32(p, z, -1.4244464e-01f);
  p = HAL_FMA_F32(p, z, 1.9998531e-01f);
  p = HAL_FMA_F32(p, z, -3.3333316e-01f);
  return p;
}

/* (asin(s) - s)/s^3 in z = s^2, 0 <= s <= 1/2 (near-minimax) */
HAL_FN hal_f32 hal_asin_poly_f32_(hal_f32 z) {
  hal_f32 p = 3.7589334e-02f;
  p = HAL_FMA_F32(p, z, 1.4381357e-02f);
  p = HAL_FMA_F32(p, z, 3.1824637e-02f);
  p = HAL_FMA_F32(p, z, 4.4514652e-02f);
  p = HAL_FMA_F32(p, z, 7.500518e-02f);
  p = HAL_FMA_F32(p, z, 1.666666e-01f);
  return p;
}

/* base + atan(n/d), base 0, pi/4 or pi/2 by the intervals of S. Moshier's Cephes (1984): n/d = |x|, (|x|-1)/(|x|+1)
 * or -1/|x|; the quotient is corrected by its remainder, d atan = 1/(1+z). */
HAL_FN hal_f32 hal_atan_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), n, nl, d, dl, q, ql, z, bh, bl, h;
  hal_i32 mid, far;
  a = a > 1e10f ? 1e10f : a;
  mid = a > 4.1421357e-01f;
  far = a > 2.4142137e+00f;
  n = a - 1.0f; /* exact from 0.5 to 2.42, below that Fast2Sum */
  nl = a - (n + 1.0f);
  d = a + 1.0f;
  dl = a > 1.0f ? 1.0f - (d - a) : a - (d - 1.0f);
  n = mid ? n : a; /* plain selects, no && or nesting: gcc vectorises these */
  n = far ? -1.0f : n;
  d = mid ? d : 1.0f;
  d = far ? a : d;
  nl = mid ? nl : 0.0f;
  nl = far ? 0.0f : nl;
  dl = mid ? dl : 0.0f;
  dl = far ? 0.0f : dl;
  q = n / d;
  z = q * q;
  ql = (HAL_FMA_F32(-q, d, n) + HAL_FMA_F32(-q, dl, nl)) / HAL_FMA_F32(d, z, d);
  bh = mid ? 7.853982e-01f : 0.0f;
  bl = mid ? -2.1855694e-08f : 0.0f;
  bh = far ? 1.5707964e+00f : bh;
  bl = far ? -4.371139e-08f : bl;
  h = bh + q;
  h = h + (((bh - h) + q) + HAL_FMA_F32(z * q, hal_atan_poly_f32_(z), bl + ql));
  return hal_copysign_f32(h, x);
}

/* Composite, measured bound in README.md. Angle of the smaller over the larger as above, then reflected: base +- angle.
 * All the signed-zero and infinite cases of C99 F.9.1.4. */
HAL_FN hal_f32 hal_atan2_f32(hal_f32 y, hal_f32 x) {
  hal_f32 ay = hal_abs_f32(y), ax = hal_abs_f32(x), mx, mn, n, nl, d, dl, q, ql, z, t, bh, bl, t4h, t4l, h;
  hal_i32 swap = ay > ax, neg = (hal_i32)(hal_f32_to_bits(x) >> 31), mid;
  mx = swap ? ay : ax;
  mn = swap ? ax : ay;
  mn = mn == mx ? 1.0f : mn; /* 0/0 and inf/inf: 0 and 1 */
  mn = mx == 0.0f ? 0.0f : mn;
  mx = mx == (swap ? ax : ay) ? 1.0f : mx;
  n = mx > 0x1p120f ? 0.25f : 1.0f; /* keeps mx + mn finite, */
  n = mx < 0x1p-60f ? 0x1p60f : n;  /* and the remainders from underflowing */
  mx = mx * n;
  mn = mn * n;
  mid = mn > 4.1421357e-01f * mx;
  n = mn - mx; /* exact or Fast2Sum */
  nl = mn - (n + mx);
  d = mx + mn;
  dl = mn - (d - mx);
  n = mid ? n : mn;
  d = mid ? d : mx;
  nl = mid ? nl : 0.0f;
  dl = mid ? dl : 0.0f;
  q = n / d;
  z = q * q;
  ql = (HAL_FMA_F32(-q, d, n) + HAL_FMA_F32(-q, dl, nl)) / HAL_FMA_F32(d, z, d);
  ql = d < hal_inf_f32() ? ql : 0.0f;
  t = HAL_FMA_F32(z * q, hal_atan_poly_f32_(z), ql);
  /* base: 0, pi/4 | pi, 3 pi/4 (x < 0) | pi/2, pi/4 (swapped) | pi/2, 3 pi/4 (both) */
  bh = neg ? 3.1415927e+00f : 0.0f;
  bl = neg ? -8.742278e-08f : 0.0f;
  bh = swap ? 1.5707964e+00f : bh;
  bl = swap ? -4.371139e-08f : bl;
  t4h = neg ? 2.3561945e+00f : 7.853982e-01f;
  t4l = neg ? -5.9624403e-09f : -2.1855694e-08f;
  bh = mid ? t4h : bh;
  bl = mid ? t4l : bl;
  neg = swap != neg; /* swapped or x < 0: base - angle; both: base + angle */
  q = neg ? -q : q;
  t = neg ? -t : t;
  h = bh + q;
  h = h + (((bh - h) + q) + (bl + t));
  h = hal_copysign_f32(h, y);
  h = x != x ? x : h;
  return y != y ? y : h;
}

/* |x| > 1/2: asin = pi/2 - 2 asin(s), s = sqrt((1-|x|)/2) with its rounding error; outside [-1, 1] sqrt gives NaN. */
HAL_FN hal_f32 hal_asin_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), z, s, sl, t, h, l;
  z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
  s = HAL_SQRT_F32(z);
  sl = s > 0.0f ? HAL_FMA_F32(-s, s, z) / (2.0f * s) : 0.0f;
  s = a > 0.5f ? s : a;
  t = z * s * hal_asin_poly_f32_(z);
  h = 1.5707964e+00f - 2.0f * s;
  l = (1.5707964e+00f - h) - 2.0f * s;
  h = h + (l + (-4.371139e-08f - 2.0f * (t + sl)));
  h = a > 0.5f ? h : s + t;
  return x != x ? x : (a > 1.0f ? hal_nan_f32() : hal_copysign_f32(h, x));
}

/* pi/2 - asin(x) for |x| <= 1/2; 2 asin(s) or pi - 2 asin(s) outside. */
HAL_FN hal_f32 hal_acos_f32(hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), z, s, sl, t, h, l, w, r;
  z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
  s = HAL_SQRT_F32(z);
  sl = s > 0.0f ? HAL_FMA_F32(-s, s, z) / (2.0f * s) : 0.0f;
  sl = a > 0.5f ? sl : 0.0f;
  s = a > 0.5f ? s : a;
  t = HAL_FMA_F32(z * s, hal_asin_poly_f32_(z), sl);
  w = a > 0.5f ? 2.0f * s : s;
  t = a > 0.5f ? 2.0f * t : t;
  w = ((a <= 0.5f) & (x < 0.0f)) ? -w : w;
  t = ((a <= 0.5f) & (x < 0.0f)) ? -t : t;
  h = a > 0.5f ? 3.1415927e+00f : 1.5707964e+00f;
  r = h - w;
  l = ((h - r) - w) + ((a > 0.5f ? -8.742278e-08f : -4.371139e-08f) - t);
  r = r + l;
  r = x > 0.5f ? w + t : r;
  return x != x ? x : (a > 1.0f ? hal_nan_f32() : r);
}

#ifndef HAL_NO_F64
/* ---- f64 ---- */

/* (atan(y) - y)/y^3 in z = y^2, |y| <= tan(pi/8) (near-minimax) */
HAL_FN hal_f64 hal_atan_poly_f64_(hal_f64 z) {
  hal_f64 p = 0.015008897686316289;
  p = HAL_FMA_F64(p, z, -0.033283695601569005);
  p = HAL_FMA_F64(p, z, 0.04495009401807081);
  p = HAL_FMA_F64(p, z, -0.052162106919440676);
  p = HAL_FMA_F64(p, z, 0.058766650118847324);
  p = HAL_FMA_F64(p, z, -0.06666188513710981);
  p = HAL_FMA_F64(p, z, 0.07692280032779368);
  p = HAL_FMA_F64(p, z, -0.09090908017261042);
  p = HAL_FMA_F64(p, z, 0.11111111084442217);
  p = HAL_FMA_F64(p, z, -0.1428571428532433);
  p = HAL_FMA_F64(p, z, 0.19999999999997128);
  p = HAL_FMA_F64(p, z, -0.33333333333333326);
  return p;
}

/* (asin(s) - s)/s^3 in z = s^2, 0 <= s <= 1/2 (near-minimax) */
HAL_FN hal_f64 hal_asin_poly_f64_(hal_f64 z) {
  hal_f64 p = 0.03267220690746692;
  p = HAL_FMA_F64(p, z, -0.021070423695575536);
  p = HAL_FMA_F64(p, z, 0.021759164685231067);
  p = HAL_FMA_F64(p, z, 0.0036845688262437904);
  p = HAL_FMA_F64(p, z, 0.010786205891491488);
  p = HAL_FMA_F64(p, z, 0.011397816104492652);
  p = HAL_FMA_F64(p, z, 0.013980959172553554);
  p = HAL_FMA_F64(p, z, 0.01735160001125702);
  p = HAL_FMA_F64(p, z, 0.022372215683622534);
  p = HAL_FMA_F64(p, z, 0.030381942681944933);
  p = HAL_FMA_F64(p, z, 0.04464285717517809);
  p = HAL_FMA_F64(p, z, 0.07499999999970172);
  p = HAL_FMA_F64(p, z, 0.16666666666666763);
  return p;
}

/* base + atan(n/d), base 0, pi/4 or pi/2 by the intervals of S. Moshier's Cephes (1984): n/d = |x|, (|x|-1)/(|x|+1)
 * or -1/|x|; the quotient is corrected by its remainder, d atan = 1/(1+z). */
HAL_FN hal_f64 hal_atan_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), n, nl, d, dl, q, ql, z, bh, bl, h;
  hal_i32 mid, far;
  a = a > 1e20 ? 1e20 : a;
  mid = a > 0.41421356237309503;
  far = a > 2.414213562373095;
  n = a - 1.0; /* exact from 0.5 to 2.42, below that Fast2Sum */
  nl = a - (n + 1.0);
  d = a + 1.0;
  dl = a > 1.0 ? 1.0 - (d - a) : a - (d - 1.0);
  n = mid ? n : a; /* plain selects, no && or nesting: gcc vectorises these */
  n = far ? -1.0 : n;
  d = mid ? d : 1.0;
  d = far ? a : d;
  nl = mid ? nl : 0.0;
  nl = far ? 0.0 : nl;
  dl = mid ? dl : 0.0;
  dl = far ? 0.0 : dl;
  q = n / d;
  z = q * q;
  ql = (HAL_FMA_F64(-q, d, n) + HAL_FMA_F64(-q, dl, nl)) / HAL_FMA_F64(d, z, d);
  bh = mid ? 0.7853981633974483 : 0.0;
  bl = mid ? 3.061616997868383e-17 : 0.0;
  bh = far ? 1.5707963267948966 : bh;
  bl = far ? 6.123233995736766e-17 : bl;
  h = bh + q;
  h = h + (((bh - h) + q) + HAL_FMA_F64(z * q, hal_atan_poly_f64_(z), bl + ql));
  return hal_copysign_f64(h, x);
}

/* Composite, measured bound in README.md. Angle of the smaller over the larger as above, then reflected: base +- angle.
 * All the signed-zero and infinite cases of C99 F.9.1.4. */
HAL_FN hal_f64 hal_atan2_f64(hal_f64 y, hal_f64 x) {
  hal_f64 ay = hal_abs_f64(y), ax = hal_abs_f64(x), mx, mn, n, nl, d, dl, q, ql, z, t, bh, bl, t4h, t4l, h;
  hal_i32 swap = ay > ax, neg = (hal_i32)(hal_f64_to_bits(x) >> 63), mid;
  mx = swap ? ay : ax;
  mn = swap ? ax : ay;
  mn = mn == mx ? 1.0 : mn; /* 0/0 and inf/inf: 0 and 1 */
  mn = mx == 0.0 ? 0.0 : mn;
  mx = mx == (swap ? ax : ay) ? 1.0 : mx;
  n = mx > 0x1p1000 ? 0.25 : 1.0;  /* keeps mx + mn finite, */
  n = mx < 0x1p-800 ? 0x1p200 : n; /* and the remainders from underflowing */
  mx = mx * n;
  mn = mn * n;
  mid = mn > 0.41421356237309503 * mx;
  n = mn - mx; /* exact or Fast2Sum */
  nl = mn - (n + mx);
  d = mx + mn;
  dl = mn - (d - mx);
  n = mid ? n : mn;
  d = mid ? d : mx;
  nl = mid ? nl : 0.0;
  dl = mid ? dl : 0.0;
  q = n / d;
  z = q * q;
  ql = (HAL_FMA_F64(-q, d, n) + HAL_FMA_F64(-q, dl, nl)) / HAL_FMA_F64(d, z, d);
  ql = d < hal_inf_f64() ? ql : 0.0;
  t = HAL_FMA_F64(z * q, hal_atan_poly_f64_(z), ql);
  /* base: 0, pi/4 | pi, 3 pi/4 (x < 0) | pi/2, pi/4 (swapped) | pi/2, 3 pi/4 (both) */
  bh = neg ? 3.141592653589793 : 0.0;
  bl = neg ? 1.2246467991473532e-16 : 0.0;
  bh = swap ? 1.5707963267948966 : bh;
  bl = swap ? 6.123233995736766e-17 : bl;
  t4h = neg ? 2.356194490192345 : 0.7853981633974483;
  t4l = neg ? 9.184850993605148e-17 : 3.061616997868383e-17;
  bh = mid ? t4h : bh;
  bl = mid ? t4l : bl;
  neg = swap != neg; /* swapped or x < 0: base - angle; both: base + angle */
  q = neg ? -q : q;
  t = neg ? -t : t;
  h = bh + q;
  h = h + (((bh - h) + q) + (bl + t));
  h = hal_copysign_f64(h, y);
  h = x != x ? x : h;
  return y != y ? y : h;
}

/* |x| > 1/2: asin = pi/2 - 2 asin(s), s = sqrt((1-|x|)/2) with its rounding error; outside [-1, 1] sqrt gives NaN. */
HAL_FN hal_f64 hal_asin_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), z, s, sl, t, h, l;
  z = a > 0.5 ? 0.5 * (1.0 - a) : a * a;
  s = HAL_SQRT_F64(z);
  sl = s > 0.0 ? HAL_FMA_F64(-s, s, z) / (2.0 * s) : 0.0;
  s = a > 0.5 ? s : a;
  t = z * s * hal_asin_poly_f64_(z);
  h = 1.5707963267948966 - 2.0 * s;
  l = (1.5707963267948966 - h) - 2.0 * s;
  h = h + (l + (6.123233995736766e-17 - 2.0 * (t + sl)));
  h = a > 0.5 ? h : s + t;
  return x != x ? x : (a > 1.0 ? hal_nan_f64() : hal_copysign_f64(h, x));
}

/* pi/2 - asin(x) for |x| <= 1/2; 2 asin(s) or pi - 2 asin(s) outside. */
HAL_FN hal_f64 hal_acos_f64(hal_f64 x) {
  hal_f64 a = hal_abs_f64(x), z, s, sl, t, h, l, w, r;
  z = a > 0.5 ? 0.5 * (1.0 - a) : a * a;
  s = HAL_SQRT_F64(z);
  sl = s > 0.0 ? HAL_FMA_F64(-s, s, z) / (2.0 * s) : 0.0;
  sl = a > 0.5 ? sl : 0.0;
  s = a > 0.5 ? s : a;
  t = HAL_FMA_F64(z * s, hal_asin_poly_f64_(z), sl);
  w = a > 0.5 ? 2.0 * s : s;
  t = a > 0.5 ? 2.0 * t : t;
  w = ((a <= 0.5) & (x < 0.0)) ? -w : w;
  t = ((a <= 0.5) & (x < 0.0)) ? -t : t;
  h = a > 0.5 ? 3.141592653589793 : 1.5707963267948966;
  r = h - w;
  l = ((h - r) - w) + ((a > 0.5 ? 1.2246467991473532e-16 : 6.123233995736766e-17) - t);
  r = r + l;
  r = x > 0.5 ? w + t : r;
  return x != x ? x : (a > 1.0 ? hal_nan_f64() : r);
}
#endif

#endif
