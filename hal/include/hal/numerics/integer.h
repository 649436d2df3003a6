/* Integer arithmetic with every corner defined. Addition, subtraction, multiplication and negation wrap (two's complement).
 * Division and remainder follow Python's sign (rounding down), with x // 0 = 0, x % 0 = 0, INT_MIN // -1 = INT_MIN
 * (wraps) and INT_MIN % -1 = 0. A shift count that is negative or >= the width is "past the width":
 * << gives 0, >> gives 0 or -1 (arithmetic). */
#ifndef HAL_NUMERICS_INTEGER_H
#define HAL_NUMERICS_INTEGER_H
#include "hal/numerics/prelude.h"

/* I: signed type, U: its unsigned twin, W: the unsigned type arithmetic is done in (no promotion to signed int). */
#define HAL_DEFINE_SIGNED_(I, U, W, BITS)                                                                  \
  HAL_FN hal_##I hal_add_##I(hal_##I a, hal_##I b) { return (hal_##I)(hal_##U)((hal_##W)a + (hal_##W)b); } \
  HAL_FN hal_##I hal_sub_##I(hal_##I a, hal_##I b) { return (hal_##I)(hal_##U)((hal_##W)a - (hal_##W)b); } \
  HAL_FN hal_##I hal_mul_##I(hal_##I a, hal_##I b) { return (hal_##I)(hal_##U)((hal_##W)a * (hal_##W)b); } \
  HAL_FN hal_##I hal_neg_##I(hal_##I a) { return (hal_##I)(hal_##U)((hal_##W)0 - (hal_##W)a); }            \
  HAL_FN hal_##I hal_abs_##I(hal_##I a) { return a < 0 ? hal_neg_##I(a) : a; }                             \
  HAL_FN hal_##I hal_floordiv_##I(hal_##I a, hal_##I b) {                                                  \
    hal_##I d = (b == 0 || b == -1) ? (hal_##I)1 : b; /* the two divisors C leaves open */                 \
    hal_##I q = (hal_##I)(a / d), r = (hal_##I)(a % d);                                                    \
    q = (hal_##I)(q - ((r != 0 && ((r < 0) != (d < 0))) ? 1 : 0));                                         \
    q = b == -1 ? hal_neg_##I(a) : q;                                                                      \
    return b == 0 ? (hal_##I)0 : q;                                                                        \
  }                                                                                                        \
  HAL_FN hal_##I hal_mod_##I(hal_##I a, hal_##I b) {                                                       \
    hal_##I d = (b == 0 || b == -1) ? (hal_##I)1 : b;                                                      \
    hal_##I r = (hal_##I)(a % d);                                                                          \
    return (r != 0 && ((r < 0) != (d < 0))) ? (hal_##I)(r + d) : r;                                        \
  }                                                                                                        \
  /* C's division (toward zero), for indices and the ops that ask for it; same corners. */                 \
  HAL_FN hal_##I hal_truncdiv_##I(hal_##I a, hal_##I b) {                                                  \
    hal_##I d = (b == 0 || b == -1) ? (hal_##I)1 : b;                                                      \
    hal_##I q = (hal_##I)(a / d);                                                                          \
    q = b == -1 ? hal_neg_##I(a) : q;                                                                      \
    return b == 0 ? (hal_##I)0 : q;                                                                        \
  }                                                                                                        \
  HAL_FN hal_##I hal_fmod_##I(hal_##I a, hal_##I b) {                                                      \
    hal_##I d = (b == 0 || b == -1) ? (hal_##I)1 : b;                                                      \
    return (hal_##I)(a % d);                                                                               \
  }                                                                                                        \
  HAL_FN hal_##I hal_shl_##I(hal_##I a, hal_##I n) {                                                       \
    hal_i32 past = n < 0 || n >= (BITS);                                                                   \
    hal_##W v = (hal_##W)a << (past ? 0 : (hal_i32)n);                                                     \
    return past ? (hal_##I)0 : (hal_##I)(hal_##U)v;                                                        \
  }                                                                                                        \
  HAL_FN hal_##I hal_shr_##I(hal_##I a, hal_##I n) {                                                       \
    hal_i32 k = (n < 0 || n >= (BITS)) ? (BITS) - 1 : (hal_i32)n;                                          \
    return (hal_##I)(a >> k);                                                                              \
  }                                                                                                        \
  HAL_FN hal_##I hal_maximum_##I(hal_##I a, hal_##I b) { return a > b ? a : b; }                           \
  HAL_FN hal_##I hal_minimum_##I(hal_##I a, hal_##I b) { return a < b ? a : b; }

HAL_DEFINE_SIGNED_(i8, u8, u32, 8)
HAL_DEFINE_SIGNED_(i16, u16, u32, 16)
HAL_DEFINE_SIGNED_(i32, u32, u32, 32)
HAL_DEFINE_SIGNED_(i64, u64, u64, 64)

#define HAL_DEFINE_UNSIGNED_(U, W, BITS)                                                          \
  HAL_FN hal_##U hal_add_##U(hal_##U a, hal_##U b) { return (hal_##U)((hal_##W)a + (hal_##W)b); } \
  HAL_FN hal_##U hal_sub_##U(hal_##U a, hal_##U b) { return (hal_##U)((hal_##W)a - (hal_##W)b); } \
  HAL_FN hal_##U hal_mul_##U(hal_##U a, hal_##U b) { return (hal_##U)((hal_##W)a * (hal_##W)b); } \
  HAL_FN hal_##U hal_neg_##U(hal_##U a) { return (hal_##U)((hal_##W)0 - (hal_##W)a); }            \
  HAL_FN hal_##U hal_abs_##U(hal_##U a) { return a; }                                             \
  HAL_FN hal_##U hal_floordiv_##U(hal_##U a, hal_##U b) {                                         \
    hal_##U d = b == 0u ? (hal_##U)1 : b;                                                         \
    return b == 0u ? (hal_##U)0 : (hal_##U)(a / d);                                               \
  }                                                                                               \
  HAL_FN hal_##U hal_mod_##U(hal_##U a, hal_##U b) {                                              \
    hal_##U d = b == 0u ? (hal_##U)1 : b;                                                         \
    return (hal_##U)(a % d);                                                                      \
  }                                                                                               \
  HAL_FN hal_##U hal_truncdiv_##U(hal_##U a, hal_##U b) { return hal_floordiv_##U(a, b); }        \
  HAL_FN hal_##U hal_fmod_##U(hal_##U a, hal_##U b) { return hal_mod_##U(a, b); }                 \
  HAL_FN hal_##U hal_shl_##U(hal_##U a, hal_##U n) {                                              \
    hal_i32 past = n >= (BITS);                                                                   \
    return past ? (hal_##U)0 : (hal_##U)((hal_##W)a << (past ? 0 : (hal_i32)n));                  \
  }                                                                                               \
  HAL_FN hal_##U hal_shr_##U(hal_##U a, hal_##U n) {                                              \
    hal_i32 past = n >= (BITS);                                                                   \
    return past ? (hal_##U)0 : (hal_##U)(a >> (past ? 0 : (hal_i32)n));                           \
  }                                                                                               \
  HAL_FN hal_##U hal_maximum_##U(hal_##U a, hal_##U b) { return a > b ? a : b; }                  \
  HAL_FN hal_##U hal_minimum_##U(hal_##U a, hal_##U b) { return a < b ? a : b; }

HAL_DEFINE_UNSIGNED_(u8, u32, 8)
HAL_DEFINE_UNSIGNED_(u32, u32, 32)
HAL_DEFINE_UNSIGNED_(u64, u64, 64)

/* Integer power with wraparound; a negative exponent gives 0, except for the bases 1 and -1 (as 1/a truncated). */
#define HAL_DEFINE_IPOW_(I, U, W)                                \
  HAL_FN hal_##I hal_pow_##I(hal_##I a, hal_##I n) {             \
    hal_##W b = (hal_##W)a, r = (hal_##W)1;                      \
    hal_##I k = n;                                               \
    if (n < 0) {                                                 \
      hal_##I odd = (hal_##I)((n & 1) ? -1 : 1);                 \
      return a == 1 ? (hal_##I)1 : (a == -1 ? odd : (hal_##I)0); \
    }                                                            \
    while (k > 0) {                                              \
      r = (k & 1) ? r * b : r;                                   \
      b = b * b;                                                 \
      k = (hal_##I)(k >> 1);                                     \
    }                                                            \
    return (hal_##I)(hal_##U)r;                                  \
  }

HAL_DEFINE_IPOW_(i8, u8, u32)
HAL_DEFINE_IPOW_(i16, u16, u32)
HAL_DEFINE_IPOW_(i32, u32, u32)
HAL_DEFINE_IPOW_(i64, u64, u64)

HAL_FN hal_u8 hal_pow_u8(hal_u8 a, hal_u8 n) {
  hal_u32 b = a, r = 1u, k = n;
  while (k > 0u) {
    r = (k & 1u) ? r * b : r;
    b = b * b;
    k >>= 1;
  }
  return (hal_u8)r;
}

#endif
