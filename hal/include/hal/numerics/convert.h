/* Casts. Float to integer truncates, saturates out of range, and gives 0 for NaN (C leaves both undefined).
 * Integer to float is the native cast: one rounding, to nearest even.
 * The value is brought in range before the C cast, so no undefined cast is ever executed. */
#ifndef HAL_NUMERICS_CONVERT_H
#define HAL_NUMERICS_CONVERT_H
#include "hal/numerics/prelude.h"

/* For targets narrower than i32: every bound is exact in f32 and the cast goes through i32. */
#define HAL_DEFINE_NARROW_CAST_(F, I, LO, HI)  \
  HAL_FN hal_##I hal_##F##_to_##I(hal_##F x) { \
    hal_##F v = x != x ? (hal_##F)0 : x;       \
    v = v < (hal_##F)(LO) ? (hal_##F)(LO) : v; \
    v = v > (hal_##F)(HI) ? (hal_##F)(HI) : v; \
    return (hal_##I)(hal_i32)v;                \
  }

HAL_DEFINE_NARROW_CAST_(f32, i8, -128, 127)
HAL_DEFINE_NARROW_CAST_(f32, i16, -32768, 32767)
HAL_DEFINE_NARROW_CAST_(f32, u8, 0, 255)

HAL_FN hal_i32 hal_f32_to_i32(hal_f32 x) {
  hal_i32 in = x >= -2147483648.0f && x < 2147483648.0f;
  hal_i32 v = (hal_i32)(in ? x : 0.0f);
  v = x >= 2147483648.0f ? 2147483647 : v;
  return x < -2147483648.0f ? -2147483647 - 1 : v;
}

HAL_FN hal_i64 hal_f32_to_i64(hal_f32 x) {
  hal_i32 in = x >= -0x1p63f && x < 0x1p63f;
  hal_i64 v = (hal_i64)(in ? x : 0.0f);
  v = x >= 0x1p63f ? (hal_i64)HAL_U64(0x7fffffffu, 0xffffffffu) : v;
  return x < -0x1p63f ? -(hal_i64)HAL_U64(0x7fffffffu, 0xffffffffu) - 1 : v;
}

HAL_FN hal_f32 hal_i8_to_f32(hal_i8 x) { return (hal_f32)x; }
HAL_FN hal_f32 hal_u8_to_f32(hal_u8 x) { return (hal_f32)x; }
HAL_FN hal_f32 hal_i16_to_f32(hal_i16 x) { return (hal_f32)x; }
HAL_FN hal_f32 hal_i32_to_f32(hal_i32 x) { return (hal_f32)x; }
HAL_FN hal_f32 hal_i64_to_f32(hal_i64 x) { return (hal_f32)x; }

#ifndef HAL_NO_F64
HAL_DEFINE_NARROW_CAST_(f64, i8, -128, 127)
HAL_DEFINE_NARROW_CAST_(f64, i16, -32768, 32767)
HAL_DEFINE_NARROW_CAST_(f64, u8, 0, 255)
HAL_DEFINE_NARROW_CAST_(f64, i32, -2147483648.0, 2147483647.0)

HAL_FN hal_i64 hal_f64_to_i64(hal_f64 x) {
  hal_i32 in = x >= -0x1p63 && x < 0x1p63;
  hal_i64 v = (hal_i64)(in ? x : 0.0);
  v = x >= 0x1p63 ? (hal_i64)HAL_U64(0x7fffffffu, 0xffffffffu) : v;
  return x < -0x1p63 ? -(hal_i64)HAL_U64(0x7fffffffu, 0xffffffffu) - 1 : v;
}

HAL_FN hal_f64 hal_i8_to_f64(hal_i8 x) { return (hal_f64)x; }
HAL_FN hal_f64 hal_u8_to_f64(hal_u8 x) { return (hal_f64)x; }
HAL_FN hal_f64 hal_i16_to_f64(hal_i16 x) { return (hal_f64)x; }
HAL_FN hal_f64 hal_i32_to_f64(hal_i32 x) { return (hal_f64)x; }
HAL_FN hal_f64 hal_i64_to_f64(hal_i64 x) { return (hal_f64)x; }
HAL_FN hal_f64 hal_f32_to_f64(hal_f32 x) { return (hal_f64)x; }
HAL_FN hal_f32 hal_f64_to_f32(hal_f64 x) { return (hal_f32)x; }
#endif

#endif
