/* Every shared function as a loop over arrays, for test_functions.py; compiled as C11 and as C++17. */
#include "hal/numerics/numerics.h"

#ifdef __cplusplus
extern "C" {
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

#define MAP1(NAME, FN, A, R)                              \
  void NAME(const A *RESTRICT x, R *RESTRICT r, long n) { \
    long i;                                               \
    for (i = 0; i < n; i++) r[i] = FN(x[i]);              \
  }
#define MAP2(NAME, FN, A, B, R)                                                \
  void NAME(const A *RESTRICT x, const B *RESTRICT y, R *RESTRICT r, long n) { \
    long i;                                                                    \
    for (i = 0; i < n; i++) r[i] = FN(x[i], y[i]);                             \
  }

#define UNARY(F)                                     \
  MAP1(v_##F##_f32, hal_##F##_f32, hal_f32, hal_f32) \
  MAP1(v_##F##_f64, hal_##F##_f64, hal_f64, hal_f64)
#define BINARY(F)                                             \
  MAP2(v_##F##_f32, hal_##F##_f32, hal_f32, hal_f32, hal_f32) \
  MAP2(v_##F##_f64, hal_##F##_f64, hal_f64, hal_f64, hal_f64)

UNARY(exp)
UNARY(exp2) UNARY(expm1) UNARY(log) UNARY(log2) UNARY(log10) UNARY(log1p) UNARY(sin) UNARY(cos) UNARY(tan) UNARY(sinpi) UNARY(cospi)
    UNARY(atan) UNARY(asin) UNARY(acos) UNARY(tanh) UNARY(sinh) UNARY(cosh) UNARY(erf) UNARY(erfc) UNARY(erfinv) UNARY(rsqrt) UNARY(sigmoid)
        UNARY(silu) UNARY(gelu) UNARY(gelu_tanh) UNARY(softplus) UNARY(rint) UNARY(floor) UNARY(ceil) UNARY(trunc) BINARY(pow) BINARY(atan2)
            BINARY(fmod) BINARY(mod) BINARY(floordiv) BINARY(maximum) BINARY(minimum)
                MAP2(v_powi_f32, hal_powi_f32, hal_f32, hal_i32, hal_f32) MAP2(v_powi_f64, hal_powi_f64, hal_f64, hal_i32, hal_f64)
#define CAST(A, B) MAP1(v_##A##_to_##B, hal_##A##_to_##B, hal_##A, hal_##B)
                    CAST(f32, i8) CAST(f32, i16) CAST(f32, i32) CAST(f32, i64) CAST(f32, u8) CAST(f64, i8) CAST(f64, i16) CAST(f64, i32)
                        CAST(f64, i64) CAST(f64, u8) CAST(i64, f32) CAST(i64, f64) CAST(i32, f32)
#define CAST16(A, H) MAP1(v_##A##_to_##H, hal_##A##_to_##H, hal_##A, hal_u16)
                            CAST16(f32, f16) CAST16(f64, f16) CAST16(i64, f16) CAST16(f32, bf16) CAST16(f64, bf16) CAST16(i64, bf16)
                                MAP1(v_f16_to_f32, hal_f16_to_f32, hal_u16, hal_f32) MAP1(v_bf16_to_f32, hal_bf16_to_f32, hal_u16, hal_f32)
                                    MAP1(v_f16_to_f64, hal_f16_to_f64, hal_u16, hal_f64)
                                        MAP1(v_bf16_to_f64, hal_bf16_to_f64, hal_u16, hal_f64)

#define INT2(F, T) MAP2(v_##F##_##T, hal_##F##_##T, hal_##T, hal_##T, hal_##T)
#define INTS(T)                                                                                                                       \
  INT2(add, T)                                                                                                                        \
  INT2(sub, T) INT2(mul, T) INT2(floordiv, T) INT2(mod, T) INT2(truncdiv, T) INT2(fmod, T) INT2(shl, T) INT2(shr, T) INT2(maximum, T) \
      INT2(minimum, T) INT2(pow, T) MAP1(v_neg_##T, hal_neg_##T, hal_##T, hal_##T) MAP1(v_abs_##T, hal_abs_##T, hal_##T, hal_##T)
                                            INTS(i8) INTS(i16) INTS(i32) INTS(i64) INTS(u8)

                                                void v_philox(const hal_u32 *c, hal_u32 *r) {
  hal_philox4 p = hal_philox4x32_10(c[0], c[1], c[2], c[3], c[4], c[5]);
  r[0] = p.v0;
  r[1] = p.v1;
  r[2] = p.v2;
  r[3] = p.v3;
}
void v_philox_words(hal_u64 seed, hal_u64 first, hal_u32 *r, long n) {
  long i;
  for (i = 0; i < n; i++) r[i] = hal_philox_word(seed, first + (hal_u64)i);
}
MAP1(v_uniform_f32, hal_uniform_f32, hal_u32, hal_f32)
MAP1(v_uniform_oc_f32, hal_uniform_oc_f32, hal_u32, hal_f32)
MAP1(v_uniform_f16, hal_uniform_f16, hal_u32, hal_f32)
MAP1(v_uniform_bf16, hal_uniform_bf16, hal_u32, hal_f32)
MAP2(v_uniform_f64, hal_uniform_f64, hal_u32, hal_u32, hal_f64)
MAP2(v_uniform_oc_f64, hal_uniform_oc_f64, hal_u32, hal_u32, hal_f64)
void v_normal_f32(const hal_u32 *RESTRICT w, hal_f32 *RESTRICT r, long pairs) {
  long i;
  for (i = 0; i < pairs; i++) {
    hal_pair_f32 p = hal_normal_pair_f32(w[2 * i], w[2 * i + 1]);
    r[2 * i] = p.hi;
    r[2 * i + 1] = p.lo;
  }
}
void v_normal_f64(const hal_u32 *RESTRICT w, hal_f64 *RESTRICT r, long pairs) {
  long i;
  for (i = 0; i < pairs; i++) {
    hal_pair_f64 p = hal_normal_pair_f64(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
    r[2 * i] = p.hi;
    r[2 * i + 1] = p.lo;
  }
}

#ifdef __cplusplus
}
#endif
