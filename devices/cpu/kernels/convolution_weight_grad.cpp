// conv2d_weight_grad: chains over output pixels, chunks of whole rows, groups of 16 chunks (docs/numerics.md, 8).
//
// Per chunk a product of two matrices: filters × pixels (the gradient, packed) and pixels × (channel, tap). The second is read from a copy
// of x with channels last, NR of them side by side, where another tap is another offset. Where a group has few channels, (channel, tap)
// pairs are gathered into panels instead. Chunks are summed afterwards from slots of their own, so they can run on any thread.
#include "convolution.hpp"
#include "tile.hpp"

namespace cpu {
namespace {

constexpr int64_t kChunksPerGroup = 16;
constexpr int64_t kSlotBytes = int64_t{16} << 20;  // workspace for slots, if one slot isn't larger

thread_local Scratch g_panels, x_block, gathered, table;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class S>
class ConvWeightGrad final : public Kernel {
 public:
  using T = compute_t<S>;
  static constexpr int64_t L = NR<T>;

  explicit ConvWeightGrad(const ConvShape &s) : s_(s) {
    taps_ = s.kernel_h * s.kernel_w;
    gather_ = s.channels < L;
    channel_blocks_ = gather_ ? 1 : ceil_div(s.channels, L);
    lane_count_ = gather_ ? s.channels : L;  // channels side by side in the copy of x
    columns_ = gather_ ? ceil_div(taps_ * s.channels, L) * L : channel_blocks_ * taps_ * L;
    rows_per_chunk_ = std::max<int64_t>(1, 512 / s.out_w);
    chunks_ = ceil_div(s.batch * s.out_h, rows_per_chunk_);
    line_ = (s.out_w - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1;
    slot_ = s.groups * s.filters * columns_;
    wave_ = std::max<int64_t>(1, std::min(chunks_, kSlotBytes / std::max<int64_t>(1, slot_ * int64_t(sizeof(T)))));
    if (wave_ > kChunksPerGroup && wave_ < chunks_) wave_ -= wave_ % kChunksPerGroup;
    workspace_size = uint64_t((wave_ + 2) * slot_) * sizeof(T);
  }

  void run(void *const *data, void *workspace) const override {
    const S *g = static_cast<const S *>(data[0]), *x = static_cast<const S *>(data[1]);
    T *total = static_cast<T *>(workspace), *group_sum = total + slot_, *slots = group_sum + slot_;
    if (slot_ == 0) return;
    if (chunks_ == 0) std::fill(total, total + slot_, T(0));
    for (int64_t first = 0; first < chunks_; first += wave_) {
      const int64_t count = std::min(wave_, chunks_ - first);
      // Few chunks: cut the filters too.
      const int64_t panels = ceil_div(s_.filters, MR);
      const int64_t cuts = std::min(panels, std::max<int64_t>(1, host().num_threads() / count));
      parallel_for(count * cuts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t i = task / cuts, cut = task % cuts;
          chunk(g, x, first + i, panels * cut / cuts * MR, std::min(s_.filters, panels * (cut + 1) / cuts * MR), slots + i * slot_);
        }
      });
      parallel_for(ceil_div(slot_, 1024), 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) add_up(first, count, slots, group_sum, total, i * 1024, std::min(slot_, (i + 1) * 1024));
      });
    }
    store(total, static_cast<S *>(data[2]));
  }

 private:
  // Rows of pixels of one image within a chunk, and the rows of x that they read: y0 + 0 … y0 + copied − 1, at `place` in the copy.
  struct Segment {
    int64_t n, oh, rows, y0, copied, place;
  };

  std::vector<Segment> segments(int64_t index) const {
    std::vector<Segment> all;
    const int64_t end = std::min(s_.batch * s_.out_h, (index + 1) * rows_per_chunk_);
    int64_t place = 0;
    for (int64_t row = index * rows_per_chunk_; row < end;) {
      const int64_t n = row / s_.out_h, oh = row % s_.out_h, rows = std::min(end - row, s_.out_h - oh);
      const int64_t copied = (rows - 1) * s_.stride_h + (s_.kernel_h - 1) * s_.dilation_h + 1;
      all.push_back({n, oh, rows, oh * s_.stride_h - s_.padding_h, copied, place});
      place += copied;
      row += rows;
    }
    return all;
  }

  // Filters [m0, m1) of every group of the convolution.
  void chunk(const S *g, const S *x, int64_t index, int64_t m0, int64_t m1, T *slot) const {
    const auto parts = segments(index);
    const int64_t copied = parts.back().place + parts.back().copied, block = copied * line_ * lane_count_;
    int64_t depth = 0;
    for (const auto &p : parts) depth += p.rows * s_.out_w;
    T *copy = x_block.get<T>(channel_blocks_ * block);
    T *panels = g_panels.get<T>(ceil_div(m1 - m0, MR) * MR * depth);
    int64_t *offsets = table.get<int64_t>(depth);
    int64_t k = 0;
    for (const auto &p : parts)
      for (int64_t r = 0; r < p.rows; ++r)
        for (int64_t ow = 0; ow < s_.out_w; ++ow) offsets[k++] = ((p.place + r * s_.stride_h) * line_ + ow * s_.stride_w) * lane_count_;
    for (int64_t group = 0; group < s_.groups; ++group) {
      for (const auto &p : parts) copy_x(x + s_.x(p.n, group * s_.channels, 0, 0), p, copy, block);
      for (int64_t m = m0; m < m1; m += MR) {
        T *dst = panels + (m - m0) * depth;
        for (const auto &p : parts)
          for (int64_t r = 0; r < p.rows; ++r, dst += s_.out_w * MR)
            pack_panel<MR>(dst, g + s_.y(p.n, group * s_.filters + m, p.oh + r, 0), s_.y.at[1], s_.y.at[3],
                           int(std::min<int64_t>(MR, m1 - m)), s_.out_w);
      }
      T *c = slot + group * s_.filters * columns_;
      for (int64_t j = 0; j < columns_; j += L) {
        const T *b = copy;
        if (gather_) {
          b = gather(copy, offsets, depth, j);
        } else {
          const int64_t tap = j / L % taps_;
          b = copy + j / (L * taps_) * block + tap_offset(tap);
        }
        for (int64_t m = m0; m < m1; m += MR) {
          const int rows = int(std::min<int64_t>(MR, m1 - m));
          const T *a = panels + (m - m0) * depth;
          if (gather_)
            tile(rows, int(L), depth, a, b, Dense{L}, c + m * columns_ + j, columns_, false);
          else
            tile(rows, int(L), depth, a, b, Table{offsets}, c + m * columns_ + j, columns_, false);
        }
      }
    }
  }

  int64_t tap_offset(int64_t tap) const {
    return (tap / s_.kernel_w * s_.dilation_h * line_ + tap % s_.kernel_w * s_.dilation_w) * lane_count_;
  }

  // copy[channel block][row][column][lane], zeros where x is padding.
  void copy_x(const S *x, const Segment &p, T *copy, int64_t block) const {
    const int64_t lanes = lane_count_;
    const int64_t left = std::min(line_, s_.padding_w),
                  inside = std::max<int64_t>(0, std::min(line_ - left, s_.width - (left - s_.padding_w)));
    const int64_t x0 = left - s_.padding_w;  // ≤ 0 only where nothing is inside
    const int64_t valid = x0 < 0 ? 0 : inside;
    for (int64_t b = 0; b < channel_blocks_; ++b)
      for (int64_t r = 0; r < p.copied; ++r) {
        T *dst = copy + b * block + (p.place + r) * line_ * lanes;
        const int64_t y = p.y0 + r;
        if (y < 0 || y >= s_.height || valid == 0) {
          std::fill(dst, dst + line_ * lanes, T(0));
          continue;
        }
        const S *src = x + b * lanes * s_.x.at[1] + y * s_.x.at[2] + x0 * s_.x.at[3];
        std::fill(dst, dst + left * lanes, T(0));
        if (gather_) {
          for (int64_t c = 0; c < lanes; ++c)
            for (int64_t i = 0; i < valid; ++i) dst[(left + i) * lanes + c] = widen(src[c * s_.x.at[1] + i * s_.x.at[3]]);
        } else {
          pack_panel<int(L)>(dst + left * lanes, src, s_.x.at[1], s_.x.at[3], int(std::min(L, s_.channels - b * L)), valid);
        }
        std::fill(dst + (left + valid) * lanes, dst + line_ * lanes, T(0));
      }
  }

  // Columns [j, j + L) of (tap, channel) pairs.
  const T *gather(const T *copy, const int64_t *offsets, int64_t depth, int64_t j) const {
    T *panel = gathered.get<T>(depth * L);
    const int64_t count = std::min(L, taps_ * s_.channels - j);
    for (int64_t i = 0; i < L; ++i) {
      if (i >= count) {
        for (int64_t k = 0; k < depth; ++k) panel[k * L + i] = T(0);
        continue;
      }
      const T *src = copy + tap_offset((j + i) / s_.channels) + (j + i) % s_.channels;
      const int64_t step = s_.stride_w * lane_count_;
      for (int64_t row = 0; row < depth; row += s_.out_w) {
        const T *from = src + offsets[row];
        T *to = panel + row * L + i;
        for (int64_t k = 0; k < s_.out_w; ++k) to[k * L] = from[k * step];
      }
    }
    return panel;
  }

  void add_up(int64_t first, int64_t count, const T *slots, T *group_sum, T *total, int64_t begin, int64_t end) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = first + i;
      const T *slot = slots + i * slot_;
      if (index % kChunksPerGroup == 0) {
        for (int64_t e = begin; e < end; ++e) group_sum[e] = slot[e];
      } else {
        for (int64_t e = begin; e < end; ++e) group_sum[e] += slot[e];
      }
      if ((index + 1) % kChunksPerGroup != 0 && index + 1 != chunks_) continue;
      if (index < kChunksPerGroup) {
        for (int64_t e = begin; e < end; ++e) total[e] = group_sum[e];
      } else {
        for (int64_t e = begin; e < end; ++e) total[e] += group_sum[e];
      }
    }
  }

  void store(const T *total, S *out) const {
    for (int64_t o = 0; o < s_.groups * s_.filters; ++o)
      for (int64_t c = 0; c < s_.channels; ++c)
        for (int64_t tap = 0; tap < taps_; ++tap) {
          const int64_t column = gather_ ? tap * s_.channels + c : (c / L * taps_ + tap) * L + c % L;
          out[s_.weight(o, c, tap / s_.kernel_w, tap % s_.kernel_w)] = narrow<S>(total[o * columns_ + column]);
        }
  }

  ConvShape s_;
  bool gather_;
  int64_t taps_, channel_blocks_, lane_count_, columns_, rows_per_chunk_, chunks_, line_, slot_, wave_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv2d_weight_grad(const hal_op &op) {
  const ConvShape s = conv_shape(op, 1, 2, 0);
  switch (op.operands[0].dtype) {
    case HAL_F16:
      return std::make_unique<ConvWeightGrad<f16>>(s);
    case HAL_BF16:
      return std::make_unique<ConvWeightGrad<bf16>>(s);
    case HAL_F64:
      return std::make_unique<ConvWeightGrad<double>>(s);
    default:
      return std::make_unique<ConvWeightGrad<float>>(s);
  }
}

}  // namespace cpu
