/* Derivatives of the activations times a gradient g, as fixed compositions of the primitives, one rounding per operation.
 * x is clamped first where the derivative has reached its limit, so that infinities give the limit and NaN stays NaN. */
#ifndef HAL_NUMERICS_GRADIENTS_H
#define HAL_NUMERICS_GRADIENTS_H
#include "hal/numerics/composite.h"
#include "hal/numerics/exp_log.h"
#include "hal/numerics/hyperbolic.h"
#include "hal/numerics/special.h"

/* g (s (x (1 - s) + 1)), s = sigmoid(x). */
HAL_FN hal_f32 hal_silu_backward_f32(hal_f32 g, hal_f32 x) {
  hal_f32 c = x > 800.0f ? 800.0f : x, v;
  c = c < -800.0f ? -800.0f : c;
  v = hal_sigmoid_f32(c);
  return g * (v * (c * (1.0f - v) + 1.0f));
}

/* g (Phi(x) + x phi(x)); for x < 0 that is g (Phi(-a) - a phi(a)), a = |x|, and the two sides add up to 1. */
HAL_FN hal_f32 hal_gelu_backward_f32(hal_f32 g, hal_f32 x) {
  hal_f32 a = hal_abs_f32(x), d;
  hal_tail_f32 t;
  a = a > 14.7f ? 14.7f : a;
  t = hal_normal_tail_f32_(a);
  d = t.e * HAL_FMA_F32(-a, 0.3989422804014326779f, t.r);
  return g * (x < 0.0f ? hal_scale2_f32_(d, t.n) : hal_one_minus_f32_(d, t.n));
}

/* g ((t + 1) / 2 + x/2 (1 - t^2) u'), t = tanh(u), u = x (a x^2 + 1) sqrt(2/pi), u' = (3 a x^2 + 1) sqrt(2/pi), a = 0.044715. */
HAL_FN hal_f32 hal_gelu_tanh_backward_f32(hal_f32 g, hal_f32 x) {
  hal_f32 c = x > 40.0f ? 40.0f : x, z, t, slope;
  c = c < -40.0f ? -40.0f : c;
  z = c * c;
  t = hal_tanh_f32((c * (z * 0.044715f + 1.0f)) * 0.7978845608028653559f);
  slope = (z * 0.134145f + 1.0f) * 0.7978845608028653559f;
  return g * ((t + 1.0f) * 0.5f + ((c * 0.5f) * (1.0f - t * t)) * slope);
}

#ifndef HAL_NO_F64
/* g (s (x (1 - s) + 1)), s = sigmoid(x). */
HAL_FN hal_f64 hal_silu_backward_f64(hal_f64 g, hal_f64 x) {
  hal_f64 c = x > 800.0 ? 800.0 : x, v;
  c = c < -800.0 ? -800.0 : c;
  v = hal_sigmoid_f64(c);
  return g * (v * (c * (1.0 - v) + 1.0));
}

/* g (Phi(x) + x phi(x)), Phi(x) = (erf(x / sqrt 2) + 1) / 2, phi(x) = exp(-x^2 / 2) / sqrt(2 pi). */
HAL_FN hal_f64 hal_gelu_backward_f64(hal_f64 g, hal_f64 x) {
  hal_f64 c = x > 40.0 ? 40.0 : x, cdf, pdf;
  c = c < -40.0 ? -40.0 : c;
  cdf = (hal_erf_f64(c * 0.7071067811865475244) + 1.0) * 0.5;
  pdf = hal_exp_f64((c * c) * -0.5) * 0.3989422804014326779;
  return g * (cdf + c * pdf);
}

/* g ((t + 1) / 2 + x/2 (1 - t^2) u'), t = tanh(u), u = x (a x^2 + 1) sqrt(2/pi), u' = (3 a x^2 + 1) sqrt(2/pi), a = 0.044715. */
HAL_FN hal_f64 hal_gelu_tanh_backward_f64(hal_f64 g, hal_f64 x) {
  hal_f64 c = x > 40.0 ? 40.0 : x, z, t, slope;
  c = c < -40.0 ? -40.0 : c;
  z = c * c;
  t = hal_tanh_f64((c * (z * 0.044715 + 1.0)) * 0.7978845608028653559);
  slope = (z * 0.134145 + 1.0) * 0.7978845608028653559;
  return g * ((t + 1.0) * 0.5 + ((c * 0.5) * (1.0 - t * t)) * slope);
}
#endif

#endif
