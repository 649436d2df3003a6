// Copies strided operands into the panels that tile() reads, widened to the compute type, and results back. Also: scratch memory.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>

#include "vector.hpp"

namespace cpu {

// Memory that a thread keeps from call to call. Contents are undefined. 64-byte aligned; 64 bytes beyond the end may be written.
class Scratch {
 public:
  ~Scratch() { std::free(data_); }
  template <class T>
  T *get(int64_t count) {
    const size_t bytes = size_t(count) * sizeof(T) + 128;
    if (bytes > size_) {
      std::free(data_);
      size_ = 0;
      data_ = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
      if (data_ == nullptr) throw std::bad_alloc();
      size_ = bytes;
    }
    return static_cast<T *>(data_);
  }

 private:
  void *data_ = nullptr;
  size_t size_ = 0;
};

// A strided matrix. Strides count elements, of any sign.
template <class S>
struct Matrix {
  S *data;
  int64_t row_stride, column_stride;
  Matrix at(int64_t row, int64_t column) const { return {data + row * row_stride + column * column_stride, row_stride, column_stride}; }
};

// Source element (p, k) lies at src[p·across + k·along]. Writes dst[k·Width + p] for p < Width, zeros for p ≥ count.
// May write up to one register beyond the panel's end. What lies `ahead` elements further is fetched into the cache.
template <int Width, class S, class T>
void pack_panel(T *dst, const S *src, int64_t across, int64_t along, int count, int64_t depth, int64_t ahead = 0) {
  using V = Vec<T>;
  constexpr int L = V::lanes, Parts = (Width + L - 1) / L;
  int64_t k = 0;
  if (across == 1 && count == Width) {
    for (; k < depth; ++k) {
      const S *s = src + k * along;
      T *d = dst + k * Width;
      if constexpr (Width % L == 0) {
        for (int p = 0; p < Width; p += L) V::store(d + p, V::load(s + p));
      } else {
        for (int p = 0; p < Width; ++p) d[p] = widen(s[p]);
      }
    }
    return;
  }
#ifdef CPU_VECTOR_AVX2
  constexpr bool masked = std::is_same_v<S, float>;
#else
  constexpr bool masked = false;
#endif
  if (along == 1 || (masked && along == 2)) {
    static const S zeros[2 * L] = {};
    const S *row[Parts * L];
    int64_t step[Parts * L];
    for (int p = 0; p < Parts * L; ++p) {
      row[p] = p < count ? src + p * across : zeros;
      step[p] = p < count ? along : 0;
    }
    // L rows of the panel at a time, of which `rows` are wanted. Ascending k: where Width is no multiple of L, the next row overwrites what
    // this one stored too much.
    const auto columns = [&](int rows, auto &&load) {
      typename V::reg t[Parts][L];
      for (int h = 0; h < Parts; ++h) {
#pragma GCC unroll 8
        for (int i = 0; i < L; ++i) {
          t[h][i] = load(row[h * L + i] + k * step[h * L + i]);
          __builtin_prefetch(row[h * L + i] + k * step[h * L + i] + ahead);
        }
        V::transpose(t[h]);
      }
      for (int i = 0; i < rows; ++i)
        for (int h = 0; h < Parts; ++h) V::store(dst + (k + i) * Width + h * L, t[h][i]);
    };
    if (along == 1) {
      for (; k + L <= depth; k += L) columns(L, [](const S *p) { return V::load(p); });
    }
    if constexpr (masked) {
      if (along == 2) {
        for (; k + L < depth; k += L) columns(L, [](const S *p) { return V::load_even(p); });
      } else if (k < depth) {
        const int rest = int(depth - k);
        columns(rest, [rest](const S *p) { return V::load_first(p, rest); });
        k = depth;
      }
    }
  }
  for (; k < depth; ++k) {
    for (int p = 0; p < count; ++p) dst[k * Width + p] = widen(src[p * across + k * along]);
    for (int p = count; p < Width; ++p) dst[k * Width + p] = T(0);
  }
}

// Panels of Width side by side, of `count` places in all: panel i begins at dst + i·Width·depth.
template <int Width, class S, class T>
void pack_panels(T *dst, const S *src, int64_t across, int64_t along, int64_t count, int64_t depth) {
  int64_t first = 0;
  if (across == 1 && count >= 2 * Width) {
    // Row by row through all panels: the source is read in the order in which it lies.
    constexpr int64_t kTogether = 4, kRowsAhead = 16;
    for (const int64_t whole = count / Width; first < whole; first += kTogether) {
      const int64_t panels = std::min(kTogether, whole - first);
      for (int64_t k = 0; k < depth; ++k) {
        const S *s = src + first * Width + k * along;
        T *d = dst + first * Width * depth + k * Width;
        for (int64_t i = 0; i < panels * Width; i += 64 / int64_t(sizeof(S))) __builtin_prefetch(s + i + kRowsAhead * along);
        for (int64_t i = 0; i < panels; ++i, s += Width, d += Width * depth) {
          if constexpr (Width % Vec<T>::lanes == 0) {
            for (int p = 0; p < Width; p += Vec<T>::lanes) Vec<T>::store(d + p, Vec<T>::load(s + p));
          } else {
#pragma GCC unroll 8
            for (int p = 0; p < Width; ++p) d[p] = widen(s[p]);
          }
        }
      }
    }
    first = count / Width;
  }
  for (int64_t p = first * Width; p < count; p += Width)
    pack_panel<Width>(dst + p * depth, src + p * across, across, along, int(std::min<int64_t>(Width, count - p)), depth, Width * across);
}

// out[i, j] = c[i·ldc + j], rounded once.
template <class S, class T>
void store_block(Matrix<S> out, const T *c, int64_t ldc, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    S *o = out.data + i * out.row_stride;
    const T *s = c + i * ldc;
    if (out.column_stride == 1) {
      for (int64_t j = 0; j < columns; ++j) o[j] = narrow<S>(s[j]);
    } else {
      for (int64_t j = 0; j < columns; ++j) o[j * out.column_stride] = narrow<S>(s[j]);
    }
  }
}

}  // namespace cpu
