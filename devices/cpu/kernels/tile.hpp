// The micro-kernel that every chain shares: a tile of MR × NR outputs, one chain of fmas each, in ascending k (docs/numerics.md, 7).
//
// A is packed: a[k·MR + row]. B is read where it lies, NR values in a row at b + offset(k). Vectors run across outputs, never along k.
#pragma once

#include <cstddef>

#include "vector.hpp"

namespace cpu {

constexpr int MR = 6;
template <class T>
constexpr int NR = 2 * Vec<T>::lanes;

// Where row k of B lies.
struct Dense {
  int64_t stride;
  int64_t operator()(int64_t k) const { return k * stride; }
};
struct Table {
  const int64_t *offsets;
  int64_t operator()(int64_t k) const { return offsets[k]; }
};

// Where column k of A's MR rows lies: in a packed panel, or in rows of memory with their values side by side.
template <class T>
struct Panel {
  const T *at;
  const T *row(int r) const { return at + r; }
  void next() { at += MR; }
};
template <class T>
struct InPlace {
  InPlace(const T *first, int64_t row_stride) : low(first), high(first + 3 * row_stride), stride(row_stride) {}
  const T *low, *high;  // two pointers and one stride address six rows without further arithmetic
  int64_t stride;
  const T *row(int r) const { return r < 3 ? low + r * stride : high + (r - 3) * stride; }
  void next() { ++low, ++high; }
};

template <class T>
Panel<T> columns_of(const T *panel) {
  return {panel};
}
template <class T>
InPlace<T> columns_of(InPlace<T> rows) {
  return rows;
}

// c[row·ldc + column] = chain + 0, or, if `add`, c + (chain + 0).
template <class T, int Rows, class A, class Offset>
inline void tile_rows(int64_t depth, A a, const T *b, Offset offset, T *c, int64_t ldc, bool add) {
  using V = Vec<T>;
  typename V::reg acc[Rows][2];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) acc[r][0] = acc[r][1] = V::zero();
  for (int64_t k = 0; k < depth; ++k) {
    const T *row = b + offset(k);
    const auto b0 = V::load(row), b1 = V::load(row + V::lanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const auto x = V::broadcast(a.row(r));
      acc[r][0] = V::fma(x, b0, acc[r][0]);
      acc[r][1] = V::fma(x, b1, acc[r][1]);
    }
    a.next();
  }
  const auto zero = V::zero();
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    T *p = c + r * ldc;
    auto s0 = V::add(acc[r][0], zero), s1 = V::add(acc[r][1], zero);
    if (add) {
      s0 = V::add(V::load(p), s0);
      s1 = V::add(V::load(p + V::lanes), s1);
    }
    V::store(p, s0);
    V::store(p + V::lanes, s1);
  }
}

// A whole tile or one at the edge: rows ≤ MR, columns ≤ NR. B's columns beyond `columns` are readable and never shown.
// `a` points to a packed panel, or is InPlace.
template <class T, class A, class Offset>
inline void tile(int rows, int columns, int64_t depth, A from, const T *b, Offset offset, T *c, int64_t ldc, bool add) {
  const auto a = columns_of<T>(from);
  alignas(64) T edge[MR * NR<T>];
  T *out = c;
  int64_t out_stride = ldc;
  if (columns < NR<T>) {
    out = edge;
    out_stride = NR<T>;
  }
  const bool add_here = add && out == c;
  switch (rows) {
    case 1:
      tile_rows<T, 1>(depth, a, b, offset, out, out_stride, add_here);
      break;
    case 2:
      tile_rows<T, 2>(depth, a, b, offset, out, out_stride, add_here);
      break;
    case 3:
      tile_rows<T, 3>(depth, a, b, offset, out, out_stride, add_here);
      break;
    case 4:
      tile_rows<T, 4>(depth, a, b, offset, out, out_stride, add_here);
      break;
    case 5:
      tile_rows<T, 5>(depth, a, b, offset, out, out_stride, add_here);
      break;
    default:
      tile_rows<T, 6>(depth, a, b, offset, out, out_stride, add_here);
      break;
  }
  if (out == c) return;
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < columns; ++j) {
      T &place = c[r * ldc + j];
      place = add ? place + edge[r * NR<T> + j] : edge[r * NR<T> + j];
    }
}

}  // namespace cpu
