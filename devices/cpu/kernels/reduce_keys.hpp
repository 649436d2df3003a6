// Floats as integers of one order: -inf < ... < -0 < +0 < ... < +inf, with every NaN above (or below) all. So maximum and minimum of
// docs/numerics.md, section 3 are those of integers, in vectors of the element's own width, half precision included.
#pragma once

#include "reduce_axes.hpp"

namespace cpu::reduce {

// Bits of a stored float.
template <int D>
struct FloatBits;
template <>
struct FloatBits<HAL_F16> {
  using U = uint16_t;
  using I = int16_t;
  static constexpr U kInf = HAL_F16_INF;
};
template <>
struct FloatBits<HAL_BF16> {
  using U = uint16_t;
  using I = int16_t;
  static constexpr U kInf = HAL_BF16_INF;
};
template <>
struct FloatBits<HAL_F32> {
  using U = uint32_t;
  using I = int32_t;
  static constexpr U kInf = 0x7f800000u;
};
template <>
struct FloatBits<HAL_F64> {
  using U = uint64_t;
  using I = int64_t;
  static constexpr U kInf = 0x7ff0000000000000u;
};

// Ints are their own keys.
template <int D, bool kNanIsLargest, bool kIsFloat = Element<D>::is_float>
struct Key {
  using S = typename Element<D>::S;
  using K = S;
  static constexpr bool kDirect = true;
  static CPU_INLINE K from(S s) { return s; }
  static CPU_INLINE S to(K k) { return k; }
};
template <int D, bool kNanIsLargest>
struct Key<D, kNanIsLargest, true> {
  using B = FloatBits<D>;
  using U = typename B::U;
  using S = U;  // read as bits
  using K = typename B::I;
  static constexpr bool kDirect = false;
  static constexpr U kMagnitude = U(~U(0)) >> 1;
  static constexpr K kNan = kNanIsLargest ? K(kMagnitude) : K(~kMagnitude);
  static CPU_INLINE K from(S s) {
    const K k = K(s) ^ K(U(K(s) >> (8 * sizeof(K) - 1)) & kMagnitude);
    return U(s & kMagnitude) > B::kInf ? kNan : k;
  }
  // Its own inverse; the keys of NaN give bits of a NaN.
  static CPU_INLINE S to(K k) { return U(k ^ K(U(k >> (8 * sizeof(K) - 1)) & kMagnitude)); }
};

}  // namespace cpu::reduce
