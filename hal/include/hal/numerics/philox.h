/* Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
 * A stream is a 64-bit seed; its word k is word (k mod 4) of
 *   philox(counter = {lo32(k div 4), hi32(k div 4), 0, 0}, key = {lo32(seed), hi32(seed)}).
 * The value of an element depends on (seed, k) alone, never on launch geometry. */
#ifndef HAL_NUMERICS_PHILOX_H
#define HAL_NUMERICS_PHILOX_H
#include "hal/numerics/exp_log.h"
#include "hal/numerics/trig_pi.h"

typedef struct {
  hal_u32 v0, v1, v2, v3;
} hal_philox4;

HAL_FN hal_philox4 hal_philox4x32_10(hal_u32 c0, hal_u32 c1, hal_u32 c2, hal_u32 c3, hal_u32 k0, hal_u32 k1) {
  hal_philox4 r;
  hal_i32 i;
  for (i = 0; i < 10; i++) {
    hal_u64 p0 = (hal_u64)0xD2511F53u * c0, p1 = (hal_u64)0xCD9E8D57u * c2;
    hal_u32 n0 = (hal_u32)(p1 >> 32) ^ c1 ^ k0, n2 = (hal_u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (hal_u32)p1;
    c3 = (hal_u32)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u; /* golden ratio */
    k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
  }
  r.v0 = c0;
  r.v1 = c1;
  r.v2 = c2;
  r.v3 = c3;
  return r;
}

/* Words 4*block .. 4*block + 3 of a stream. */
HAL_FN hal_philox4 hal_philox_block(hal_u64 seed, hal_u64 block) {
  return hal_philox4x32_10((hal_u32)block, (hal_u32)(block >> 32), 0u, 0u, (hal_u32)seed, (hal_u32)(seed >> 32));
}

/* Word k of a stream. */
HAL_FN hal_u32 hal_philox_word(hal_u64 seed, hal_u64 k) {
  hal_philox4 b = hal_philox_block(seed, k >> 2);
  hal_u32 lo = (k & 1u) ? b.v1 : b.v0, hi = (k & 1u) ? b.v3 : b.v2;
  return (k & 2u) ? hi : lo;
}

/* ---- uniform [0, 1): exact, as the integers fit the significand ---- */
HAL_FN hal_f32 hal_uniform_f32(hal_u32 w) { return (hal_f32)(hal_i32)(w >> 8) * 0x1p-24f; }
/* (0, 1], for logarithms */
HAL_FN hal_f32 hal_uniform_oc_f32(hal_u32 w) { return (hal_f32)((hal_i32)(w >> 8) + 1) * 0x1p-24f; }
/* f16 (11 bits) and bf16 (8 bits) values, held in f32; narrowing them is exact. */
HAL_FN hal_f32 hal_uniform_f16(hal_u32 w) { return (hal_f32)(hal_i32)(w >> 21) * 0x1p-11f; }
HAL_FN hal_f32 hal_uniform_bf16(hal_u32 w) { return (hal_f32)(hal_i32)(w >> 24) * 0x1p-8f; }

/* ---- normal pairs: G. Box and M. Muller, 1958: r = sqrt(-2 log u1), (r cos 2 pi u2, r sin 2 pi u2) ---- */
HAL_FN hal_pair_f32 hal_normal_pair_f32(hal_u32 w0, hal_u32 w1) /* hi: even element, lo: odd element */
{
  hal_f32 r = HAL_SQRT_F32(-2.0f * hal_log_f32(hal_uniform_oc_f32(w0)));
  hal_f32 t = 2.0f * hal_uniform_f32(w1);
  hal_pair_f32 p;
  p.hi = r * hal_cospi_f32(t);
  p.lo = r * hal_sinpi_f32(t);
  return p;
}

#ifndef HAL_NO_F64
HAL_FN hal_f64 hal_uniform_f64(hal_u32 w0, hal_u32 w1) { return (hal_f64)(hal_i64)(HAL_U64(w0, w1) >> 11) * 0x1p-53; }
HAL_FN hal_f64 hal_uniform_oc_f64(hal_u32 w0, hal_u32 w1) { return (hal_f64)((hal_i64)(HAL_U64(w0, w1) >> 11) + 1) * 0x1p-53; }
/* w0, w1 make u1 and w2, w3 make u2: one block, two normals. */
HAL_FN hal_pair_f64 hal_normal_pair_f64(hal_u32 w0, hal_u32 w1, hal_u32 w2, hal_u32 w3) {
  hal_f64 r = HAL_SQRT_F64(-2.0 * hal_log_f64(hal_uniform_oc_f64(w0, w1)));
  hal_f64 t = 2.0 * hal_uniform_f64(w2, w3);
  hal_pair_f64 p;
  p.hi = r * hal_cospi_f64(t);
  p.lo = r * hal_sinpi_f64(t);
  return p;
}
#endif

#endif
