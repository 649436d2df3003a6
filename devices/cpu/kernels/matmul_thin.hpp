// Products with at most 4 rows of A: bound by the reading of B, which is read once, in its own order, and never packed.
#pragma once

#include <algorithm>

#include "tile.hpp"

namespace cpu {

constexpr int kThinRows = 4;

// B's rows are contiguous: c[r·ldc + j] for j < columns, all chunks. `a` is dense: a[r·depth + k]. acc: Rows·ldc values.
template <int Rows, class S, class T>
void thin_rows(const T *a, int64_t depth, const S *b, int64_t b_k, int64_t columns, T *c, T *acc, int64_t ldc) {
  using V = Vec<T>;
  constexpr int L = V::lanes;
  for (int64_t k0 = 0; k0 < depth; k0 += 512) {
    const int64_t k1 = std::min(depth, k0 + 512);
    std::fill(acc, acc + Rows * ldc, T(0));
    int64_t k = k0;
    for (; k + 4 <= k1; k += 4) {
      const S *row = b + k * b_k;
      int64_t j = 0;
      for (; j + L <= columns; j += L) {
        const auto b0 = V::load(row + j), b1 = V::load(row + b_k + j), b2 = V::load(row + 2 * b_k + j), b3 = V::load(row + 3 * b_k + j);
        for (int r = 0; r < Rows; ++r) {
          const T *x = a + r * depth + k;
          auto s = V::load(acc + r * ldc + j);
          s = V::fma(V::broadcast(x), b0, s);
          s = V::fma(V::broadcast(x + 1), b1, s);
          s = V::fma(V::broadcast(x + 2), b2, s);
          s = V::fma(V::broadcast(x + 3), b3, s);
          V::store(acc + r * ldc + j, s);
        }
      }
      for (; j < columns; ++j)
        for (int r = 0; r < Rows; ++r)
          for (int i = 0; i < 4; ++i) acc[r * ldc + j] = fused(a[r * depth + k + i], T(widen(row[i * b_k + j])), acc[r * ldc + j]);
    }
    for (; k < k1; ++k)
      for (int r = 0; r < Rows; ++r) {
        const T x = a[r * depth + k];
        for (int64_t j = 0; j < columns; ++j) acc[r * ldc + j] = fused(x, T(widen(b[k * b_k + j])), acc[r * ldc + j]);
      }
    for (int64_t i = 0; i < Rows * ldc; ++i) c[i] = k0 == 0 ? acc[i] + T(0) : c[i] + (acc[i] + T(0));
  }
}

// B's columns are contiguous: a few registers of columns at a time. Long pieces of them are copied to `buffer` first, so that memory is
// read in long runs and columns a power of two apart don't evict each other from the cache; there they are transposed in registers.
constexpr int64_t kPiece = 4 * 512, kPieceStride = kPiece + 16;
template <int Rows>
constexpr int kThinGroups = Rows == 1   ? 4
                            : Rows == 2 ? 3
                                        : 2;  // chains enough to hide the latency of fma
template <class T>
constexpr int64_t kThinBuffer = 4 * Vec<T>::lanes * kPieceStride;

// One chunk of G·L columns from the copy: sums[r][column].
template <int Rows, class T>
void thin_chunk(const T *a, int64_t a_stride, int64_t length, const T *copy, T (*sums)[kThinGroups<Rows> * Vec<T>::lanes]) {
  using V = Vec<T>;
  constexpr int L = V::lanes, G = kThinGroups<Rows>;
  typename V::reg acc[Rows][G];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int h = 0; h < G; ++h) acc[r][h] = V::zero();
  int64_t k = 0;
  for (; k + L <= length; k += L) {
#pragma GCC unroll 4
    for (int h = 0; h < G; ++h) {
      typename V::reg t[L];
#pragma GCC unroll 8
      for (int i = 0; i < L; ++i) t[i] = V::load(copy + (h * L + i) * kPieceStride + k);
      V::transpose(t);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
        for (int i = 0; i < L; ++i) acc[r][h] = V::fma(V::broadcast(a + r * a_stride + k + i), t[i], acc[r][h]);
      }
    }
  }
  for (; k < length; ++k) {
#pragma GCC unroll 4
    for (int h = 0; h < G; ++h) {
      T values[L];
      for (int i = 0; i < L; ++i) values[i] = copy[(h * L + i) * kPieceStride + k];
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) acc[r][h] = V::fma(V::broadcast(a + r * a_stride + k), V::load(values), acc[r][h]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int h = 0; h < G; ++h) V::store(sums[r] + h * L, V::add(acc[r][h], V::zero()));
}

template <int Rows, class S, class T>
void thin_columns(const T *a, int64_t depth, const S *b, int64_t b_column, int64_t columns, T *c, int64_t ldc, T *buffer) {
  using V = Vec<T>;
  constexpr int L = V::lanes, G = kThinGroups<Rows>;
  for (int64_t j0 = 0; j0 < columns; j0 += G * L) {
    const int64_t count = std::min<int64_t>(G * L, columns - j0);
    for (int64_t kp = 0; kp < depth; kp += kPiece) {
      const int64_t length = std::min(kPiece, depth - kp);
      for (int64_t p = 0; p < count; ++p) {
        const S *column = b + (j0 + p) * b_column + kp;
        T *copy = buffer + p * kPieceStride;
        int64_t k = 0;
        for (; k + L <= length; k += L) V::store(copy + k, V::load(column + k));
        for (; k < length; ++k) copy[k] = widen(column[k]);
      }
      for (int64_t p = count; p < G * L; ++p) std::fill(buffer + p * kPieceStride, buffer + p * kPieceStride + length, T(0));
      for (int64_t k0 = 0; k0 < length; k0 += 512) {
        T sums[Rows][G * L];
        thin_chunk<Rows>(a + kp + k0, depth, std::min<int64_t>(512, length - k0), buffer + k0, sums);
        for (int r = 0; r < Rows; ++r) {
          T *place = c + r * ldc + j0;
          for (int64_t p = 0; p < count; ++p) place[p] = kp + k0 == 0 ? sums[r][p] : place[p] + sums[r][p];
        }
      }
    }
  }
}

}  // namespace cpu
