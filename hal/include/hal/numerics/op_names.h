/* Functions that the op table calls by the op's name, where the op's name isn't the function's. */
#ifndef HAL_NUMERICS_OP_NAMES_H
#define HAL_NUMERICS_OP_NAMES_H
#include "hal/numerics/integer.h"
#include "hal/numerics/rounding.h"

#define HAL_DEFINE_DIVISION_NAMES_(S)                                                          \
  HAL_FN hal_##S hal_floor_divide_##S(hal_##S a, hal_##S b) { return hal_floordiv_##S(a, b); } \
  HAL_FN hal_##S hal_remainder_##S(hal_##S a, hal_##S b) { return hal_mod_##S(a, b); }

#define HAL_DEFINE_FLOAT_NAMES_(S, SQRT)                                              \
  HAL_DEFINE_DIVISION_NAMES_(S)                                                       \
  HAL_FN hal_##S hal_round_##S(hal_##S a) { return hal_rint_##S(a); }                 \
  HAL_FN hal_##S hal_sqrt_##S(hal_##S a) { return SQRT(a); }                          \
  HAL_FN hal_i32 hal_isinf_##S(hal_##S a) { return hal_abs_##S(a) == hal_inf_##S(); } \
  HAL_FN hal_i32 hal_isfinite_##S(hal_##S a) { return hal_abs_##S(a) < hal_inf_##S(); }

HAL_DEFINE_DIVISION_NAMES_(u8)
HAL_DEFINE_DIVISION_NAMES_(i8)
HAL_DEFINE_DIVISION_NAMES_(i16)
HAL_DEFINE_DIVISION_NAMES_(i32)
HAL_DEFINE_DIVISION_NAMES_(i64)
HAL_DEFINE_FLOAT_NAMES_(f32, HAL_SQRT_F32)
#ifndef HAL_NO_F64
HAL_DEFINE_FLOAT_NAMES_(f64, HAL_SQRT_F64)
#endif

#endif
