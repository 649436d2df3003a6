/* Composite functions: fixed compositions of the primitives. Measured bounds in ulp (README.md has how):
 *   (being measured)
 */
#ifndef HAL_NUMERICS_COMPOSITE_H
#define HAL_NUMERICS_COMPOSITE_H
#include "hal/numerics/exp_log.h"

HAL_FN hal_f32 hal_rsqrt_f32(hal_f32 x) { return 1.0f / HAL_SQRT_F32(x); }

/* num * sigmoid(y + ylo), with e = exp(-|y|) = p 2^n: num/(1+e), or for y < 0 num*p/(1+e), scaled by 2^n last so that
 * nothing is lost to subnormals on the way. */
HAL_FN hal_f32 hal_sigmoid_mul_f32_(hal_f32 num, hal_f32 y, hal_f32 ylo)
{
    hal_f32 a = -hal_abs_f32(y), d, p;
    hal_reduced_f32 e;
    a = a < -150.0f ? -150.0f : a;
    e = hal_exp_reduce_f32_(a);
    e.lo = e.lo + (y < 0.0f ? ylo : -ylo);
    p = 1.0f + (e.hi + HAL_FMA_F32(e.hi * e.hi, hal_exp_q_f32_(e.hi), e.lo));
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
HAL_FN hal_f32 hal_gelu_tanh_f32(hal_f32 x)
{
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
HAL_FN hal_f32 hal_softplus_f32(hal_f32 x)
{
    hal_f32 l = hal_log1p_f32(hal_exp_f32(-hal_abs_f32(x)));
    return x != x ? x : (x > 0.0f ? x : 0.0f) + l;
}

#ifndef HAL_NO_F64
HAL_FN hal_f64 hal_rsqrt_f64(hal_f64 x) { return 1.0 / HAL_SQRT_F64(x); }

/* num * sigmoid(y + ylo), with e = exp(-|y|) = p 2^n: num/(1+e), or for y < 0 num*p/(1+e), scaled by 2^n last so that
 * nothing is lost to subnormals on the way. */
HAL_FN hal_f64 hal_sigmoid_mul_f64_(hal_f64 num, hal_f64 y, hal_f64 ylo)
{
    hal_f64 a = -hal_abs_f64(y), d, p;
    hal_reduced_f64 e;
    a = a < -800.0 ? -800.0 : a;
    e = hal_exp_reduce_f64_(a);
    e.lo = e.lo + (y < 0.0 ? ylo : -ylo);
    p = 1.0 + (e.hi + HAL_FMA_F64(e.hi * e.hi, hal_exp_q_f64_(e.hi), e.lo));
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
HAL_FN hal_f64 hal_gelu_tanh_f64(hal_f64 x)
{
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
HAL_FN hal_f64 hal_softplus_f64(hal_f64 x)
{
    hal_f64 l = hal_log1p_f64(hal_exp_f64(-hal_abs_f64(x)));
    return x != x ? x : (x > 0.0 ? x : 0.0) + l;
}
#endif

#endif
