// A strip is NR consecutive output pixels, (image, row, column) flattened. For each strip and chunk the source values that its chains
// read are packed into a panel: row k = (channel block, tap, channel) holds NR values, zeros where a tap lies in the padding.
#pragma once

#include "convolution_lattice.hpp"
#include "tile.hpp"

namespace cpu {

// The pixels of a strip that lie in one row of one image.
struct Piece {
  int first, count;  // of the strip's columns
  int64_t image, row, column;
};

template <int Width>
int cut_strip(const Lattice &l, int64_t pixel, int count, Piece *pieces) {
  int64_t image = pixel / l.pixels(), row = pixel % l.pixels() / l.x.count, column = pixel % l.x.count;
  int n = 0;
  for (int first = 0; first < count; ++n) {
    const int length = int(std::min<int64_t>(count - first, l.x.count - column));
    pieces[n] = {first, length, image, row, column};
    first += length;
    column = 0;
    if (++row == l.y.count) row = 0, ++image;
  }
  return n;
}

// One piece at one tap: where it reads, and which of its columns lie inside the source.
struct Read {
  int64_t offset;  // of column 0, from channel 0 of image 0
  int first, count;
  int inside_first, inside_end;
};

inline Read read_of(const Lattice &l, const ConvSource &s, const Piece &p, const Axis::Tap &ty, const Axis::Tap &tx) {
  const int64_t y = p.row * l.y.step + ty.at, x = p.column * l.x.step + tx.at;
  Read r{s.strides(p.image, 0, y, x), p.first, p.count, 0, 0};
  if (y < 0 || y >= s.height) return r;
  const int64_t first = x < 0 ? (-x + l.x.step - 1) / l.x.step : 0;
  const int64_t end = s.width > x ? (s.width - x + l.x.step - 1) / l.x.step : 0;
  r.inside_first = int(std::min<int64_t>(first, p.count));
  r.inside_end = int(std::max<int64_t>(r.inside_first, std::min<int64_t>(end, p.count)));
  return r;
}

template <class S, class T>
void pack_reads(const Read *reads, int count, const S *source, int64_t channel_stride, int64_t column_stride, int64_t channels, T *dst) {
  for (int64_t c = 0; c < channels; ++c, dst += NR<T>, source += channel_stride)
    for (int i = 0; i < count; ++i) {
      const Read &r = reads[i];
      T *d = dst + r.first;
      for (int q = 0; q < r.inside_first; ++q) d[q] = 0;
      for (int q = r.inside_first; q < r.inside_end; ++q) d[q] = widen(source[r.offset + q * column_stride]);
      for (int q = r.inside_end; q < r.count; ++q) d[q] = 0;
    }
}

#ifdef CPU_VECTOR_AVX2
// Lanes [begin, end) of 8, shifted down by `base`.
inline __m256i lane_mask(int begin, int end, int base) {
  const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(base));
  return _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane), _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(begin - 1)));
}

// Columns one or two apart, by masked loads: each piece writes two registers, and the next piece (or row) overwrites what is too much.
template <int Step>
void pack_masked(const Read *reads, int count, const float *source, int64_t channel_stride, int64_t channels, float *dst) {
  if (count == 1 && Step == 1 && reads[0].inside_first == 0 && reads[0].inside_end == 16) {
    source += reads[0].offset;
    for (int64_t c = 0; c < channels; ++c, dst += 16, source += channel_stride) {
      _mm256_storeu_ps(dst, _mm256_loadu_ps(source));
      _mm256_storeu_ps(dst + 8, _mm256_loadu_ps(source + 8));
    }
    return;
  }
  __m256i masks[16][2 * Step];
  for (int i = 0; i < count; ++i)
    for (int m = 0; m < 2 * Step; ++m) {
      masks[i][m] = lane_mask(reads[i].inside_first * Step, (reads[i].inside_end - 1) * Step + 1, m * 8);
      if (reads[i].inside_end == 0) masks[i][m] = _mm256_setzero_si256();
    }
  for (int64_t c = 0; c < channels; ++c, dst += 16, source += channel_stride)
    for (int i = 0; i < count; ++i) {
      const float *s = source + reads[i].offset;
      float *d = dst + reads[i].first;
      __m256 v[2];
      for (int h = 0; h < 2; ++h) {
        if constexpr (Step == 1) {
          v[h] = _mm256_maskload_ps(s + h * 8, masks[i][h]);
        } else {
          const __m256 even = _mm256_shuffle_ps(_mm256_maskload_ps(s + h * 16, masks[i][h * 2]),
                                                _mm256_maskload_ps(s + h * 16 + 8, masks[i][h * 2 + 1]), 0x88);
          v[h] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
        }
        _mm256_storeu_ps(d + h * 8, v[h]);
      }
    }
}
#endif

// Channels [c0, c1), whole blocks of 16 but for the last. Up to NR values beyond the panel's end may be written.
template <class S, class T>
void pack_strip(const Lattice &l, const ConvSource &s, const S *source, const Piece *pieces, int count, int64_t c0, int64_t c1, T *dst) {
  Read reads[NR<T>];
  const bool one_block = c1 - c0 <= kChannelBlock || l.taps() == 1;  // then each tap's channels come in one run
  for (int64_t c = c0; c < c1; c += one_block ? c1 - c0 : kChannelBlock) {
    const int64_t channels = one_block ? c1 - c0 : std::min(kChannelBlock, c1 - c);
    const S *from = source + c * s.strides.at[1];
    for (const auto &ty : l.y.taps)
      for (const auto &tx : l.x.taps) {
        for (int i = 0; i < count; ++i) reads[i] = read_of(l, s, pieces[i], ty, tx);
#ifdef CPU_VECTOR_AVX2
        if constexpr (std::is_same_v<S, float>) {
          const int64_t step = l.x.step * s.strides.at[3];
          if (step == 1 || step == 2) {
            (step == 1 ? pack_masked<1> : pack_masked<2>)(reads, count, from, s.strides.at[1], channels, dst);
            dst += channels * NR<T>;
            continue;
          }
        }
#endif
        pack_reads(reads, count, from, s.strides.at[1], l.x.step * s.strides.at[3], channels, dst);
        dst += channels * NR<T>;
      }
  }
}

}  // namespace cpu
