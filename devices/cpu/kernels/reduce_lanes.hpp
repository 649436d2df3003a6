// The block rule of docs/numerics.md, section 5, on contiguous values: 32 lanes, then a tree. The lanes are written out as vectors of
// the compiler, since no compiler may reorder a float sum by itself.
#pragma once

#include <limits>

#include "reduce_axes.hpp"

namespace cpu::reduce {

// into(a, b): a = a ∘ b, on scalars and on vectors alike (by reference: vectors never cross a call); start() is its neutral element (+0 for
// sums). Larger and Smaller: integers only.
struct Plus {
  template <class A>
  static constexpr A start() {
    return A(0);
  }
  template <class V>
  static CPU_INLINE void into(V &a, const V &b) {
    a = a + b;
  }
};
struct Times {
  template <class A>
  static constexpr A start() {
    return A(1);
  }
  template <class V>
  static CPU_INLINE void into(V &a, const V &b) {
    a = a * b;
  }
};
struct Larger {
  template <class A>
  static constexpr A start() {
    return std::numeric_limits<A>::min();
  }
  template <class V>
  static CPU_INLINE void into(V &a, const V &b) {
    a = a > b ? a : b;
  }
};
struct Smaller {
  template <class A>
  static constexpr A start() {
    return std::numeric_limits<A>::max();
  }
  template <class V>
  static CPU_INLINE void into(V &a, const V &b) {
    a = a < b ? a : b;
  }
};
struct Or {
  template <class A>
  static constexpr A start() {
    return A(0);
  }
  template <class V>
  static CPU_INLINE void into(V &a, const V &b) {
    a = a | b;
  }
};
struct And {
  template <class A>
  static constexpr A start() {
    return A(~A(0));
  }
  template <class V>
  static CPU_INLINE void into(V &a, const V &b) {
    a = a & b;
  }
};

// The tree over the first `lanes` of them. The others hold the start value, which changes nothing: a lane is never -0 (it began at +0).
template <class Op, class A>
inline A tree(A *lane, int width, int lanes) {
  for (int s = width / 2; s >= 1; s /= 2)
    for (int j = 0; j < s && j + s < lanes; ++j) Op::into(lane[j], lane[j + s]);
  return lane[0];
}

// Result of one block of m <= 4096 contiguous values, m >= 0. Types of 4 bytes and more use exactly 32 lanes; narrower ones come with
// exact operations only, where more lanes give the same value.
template <class Op, class A>
inline A reduce_block(const A *p, int64_t m) {
  constexpr A start = Op::template start<A>();
  typedef A V __attribute__((vector_size(32)));
  constexpr int kWidth = 32 / sizeof(A), kVectors = sizeof(A) == 8 ? 8 : 4, kAll = kWidth * kVectors;
  static_assert(sizeof(A) < 4 || kAll == kLanes, "the contract's lanes");
  alignas(64) A lane[kAll];
  if (m < kAll) {
    if (m == 0) return start;
    for (int64_t j = 0; j < m; ++j) {
      lane[j] = start;
      Op::into(lane[j], p[j]);
    }
    return tree<Op>(lane, kAll, int(m));
  }
  V acc[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) acc[v] = V{} + start;
  int64_t i = 0;
  for (; i + kAll <= m; i += kAll) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      V x;
      __builtin_memcpy(&x, p + i + v * kWidth, sizeof x);
      Op::into(acc[v], x);
    }
  }
  if (i < m) {
    __builtin_memcpy(lane, acc, sizeof lane);
    for (int64_t j = 0; j < m - i; ++j) Op::into(lane[j], p[i + j]);
    __builtin_memcpy(acc, lane, sizeof lane);
  }
#pragma GCC unroll 4
  for (int h = kVectors / 2; h >= 1; h /= 2) {
#pragma GCC unroll 4
    for (int v = 0; v < h; ++v) Op::into(acc[v], acc[v + h]);
  }
  __builtin_memcpy(lane, acc, sizeof(V));
#pragma GCC unroll 8
  for (int s = kWidth / 2; s >= 1; s /= 2)
    for (int j = 0; j < s; ++j) Op::into(lane[j], lane[j + s]);
  return lane[0];
}

// The loops of a Reducer (reduce.hpp) that depend on the accumulator and the operation only.
template <class A, class Combine>
void block_rows(const void *a, int64_t stride, int64_t rows, int64_t m, void *to) {
  for (int64_t r = 0; r < rows; ++r) static_cast<A *>(to)[r] = reduce_block<Combine>(static_cast<const A *>(a) + r * stride, m);
}
template <class A, class Combine>
void start_row(const void *a, int64_t n, void *acc) {
  const A *__restrict from = static_cast<const A *>(a);
  A *__restrict to = static_cast<A *>(acc);
  if (from == nullptr)
    for (int64_t i = 0; i < n; ++i) to[i] = Combine::template start<A>();
  else
    for (int64_t i = 0; i < n; ++i) {
      A value = Combine::template start<A>();
      Combine::into(value, from[i]);
      to[i] = value;
    }
}
template <class A, class Combine>
void combine_row(const void *a, int64_t n, void *acc) {
  const A *__restrict from = static_cast<const A *>(a);
  A *__restrict to = static_cast<A *>(acc);
  for (int64_t i = 0; i < n; ++i) Combine::into(to[i], from[i]);
}

// A sum whose values come one after the other: block results of a long row, in order. Adding a level over a single value changes
// nothing, so the levels are fixed: 4096^4 values.
template <class A>
class SumStream {
 public:
  __attribute__((noinline)) void push(A value, int level = 0) {
    Level &l = level_[level];
    if (l.count == 0) std::fill(l.lane, l.lane + kLanes, A(0));
    l.lane[l.count % kLanes] += value;
    if (++l.count == kBlock && level + 1 < kLevels) close(level);
  }
  __attribute__((noinline)) A result() {
    for (int level = 0; level + 1 < kLevels; ++level)
      if (level_[level].count) close(level);
    Level &top = level_[kLevels - 1];
    return top.count ? tree<Plus>(top.lane, kLanes, int(std::min<int64_t>(top.count, kLanes))) : A(0);
  }

 private:
  static constexpr int kLevels = 3;
  struct Level {
    A lane[kLanes];
    int64_t count = 0;
  };
  void close(int level) {
    Level &l = level_[level];
    const A value = tree<Plus>(l.lane, kLanes, kLanes);
    l.count = 0;
    push(value, level + 1);
  }
  Level level_[kLevels];
};

}  // namespace cpu::reduce
