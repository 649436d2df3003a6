// conv2d_weight_grad: chains over output pixels, chunks of whole rows, groups of 16 chunks (docs/numerics.md, 8).
//
// Per chunk a product of two matrices: filters × pixels (the gradient, packed) and pixels × (channel, tap). The second is read from a copy
// of x with channels last, NR of them side by side, where another tap is another offset. Where a group has few channels, (channel, tap)
// pairs are gathered into panels instead. A task owns a rectangle of the result and takes the chunks in their order.
#include "convolution.hpp"
#include "tile.hpp"

namespace cpu {
namespace {

constexpr int64_t kChunksPerGroup = 16;
constexpr int64_t kPanelBytes = 128 * 1024;  // of packed filters that stay in the second-level cache while the channels pass

thread_local Scratch g_panels, x_block, gathered, table;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class S>
class ConvWeightGrad final : public Kernel {
 public:
  using T = compute_t<S>;
  static constexpr int64_t L = NR<T>;

  explicit ConvWeightGrad(const ConvShape &s) : s_(s) {
    // With one tap along an axis only every stride-th position of x is ever read: a view without the others, and without padding.
    if (s.kernel_w == 1 && s.padding_w == 0) s_.x.at[3] *= s.stride_w, s_.width = s.out_w, s_.stride_w = 1;
    if (s.kernel_h == 1 && s.padding_h == 0) s_.x.at[2] *= s.stride_h, s_.height = s.out_h, s_.stride_h = 1;
    taps_ = s_.kernel_h * s_.kernel_w;
    gather_ = s_.channels < L;
    channel_blocks_ = gather_ ? 1 : ceil_div(s_.channels, L);
    lane_count_ = gather_ ? s_.channels : L;  // channels side by side in the copy of x
    columns_ = gather_ ? ceil_div(taps_ * s_.channels, L) * L : channel_blocks_ * taps_ * L;
    panels_ = ceil_div(s_.filters, MR);
    units_ = gather_ ? columns_ / L : channel_blocks_;
    rows_per_chunk_ = std::max<int64_t>(1, 512 / s_.out_w);
    chunks_ = ceil_div(s_.batch * s_.out_h, rows_per_chunk_);
    line_ = (s_.out_w - 1) * s_.stride_w + (s_.kernel_w - 1) * s_.dilation_w + 1;
    x_rows_join_ = s_.padding_w == 0 && s_.padding_h == 0 && line_ == s_.width && s_.x.at[2] == s_.width * s_.x.at[3];
    g_rows_join_ = s_.y.at[2] == s_.out_w * s_.y.at[3];
    size_ = s_.groups * s_.filters * columns_;
    cut(host().num_threads());
    workspace_size = uint64_t(size_) * sizeof(T) * (chunks_ > kChunksPerGroup ? 2 : 1);
  }

  void run(void *const *data, void *workspace) const override {
    const S *g = static_cast<const S *>(data[0]), *x = static_cast<const S *>(data[1]);
    S *out = static_cast<S *>(data[2]);
    T *total = static_cast<T *>(workspace);
    if (size_ == 0) return;
    parallel_for(s_.groups * row_cuts_ * unit_cuts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / unit_cuts_ % row_cuts_, unit = task % unit_cuts_;
        rectangle(
            {task / (unit_cuts_ * row_cuts_), panels_ * row / row_cuts_ * MR, std::min(s_.filters, panels_ * (row + 1) / row_cuts_ * MR),
             units_ * unit / unit_cuts_, units_ * (unit + 1) / unit_cuts_},
            g, x, total, out);
      }
    });
  }

 private:
  // Of a group: filters [m0, m1) and units [u0, u1), which are blocks of channels at every tap, or gathered panels.
  struct Rectangle {
    int64_t group, m0, m1, u0, u1;
  };

  // Rows of pixels of one image within a chunk, and the rows of x that they read: y0 + 0 … y0 + copied − 1, at `place` in the copy.
  struct Segment {
    int64_t n, oh, rows, y0, copied, place;
  };

  // A task packs its filters' gradients and its channels' x for every chunk: the cut that packs least and keeps every thread at work.
  void cut(int64_t threads) {
    if (size_ == 0) return;
    double best = 1e300;
    const int64_t unit_panels = gather_ ? 1 : taps_;
    for (int64_t rows = 1; rows <= std::min<int64_t>(panels_, 2 * threads); ++rows)
      for (int64_t units = 1; units <= std::min<int64_t>(units_, 2 * threads); ++units) {
        const int64_t rounds = ceil_div(s_.groups * rows * units, threads);
        const int64_t p = ceil_div(panels_, rows), u = ceil_div(units_, units);
        const double cost = double(rounds) * (double(p * u * unit_panels * MR) + 0.4 * double(p * MR + u * L));
        if (cost < best) best = cost, row_cuts_ = rows, unit_cuts_ = units;
      }
  }

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

  // Sums lie tile by tile: NR columns of filter m in panel p begin at sum_at(group, p, m). A panel is a tap of a block of channels, or
  // gathered.
  int64_t panels_per_unit() const { return gather_ ? 1 : taps_; }
  int64_t sum_at(int64_t group, int64_t panel, int64_t m) const { return ((group * columns_ / L + panel) * s_.filters + m) * L; }

  void rectangle(const Rectangle &r, const S *g, const S *x, T *total, S *out) const {
    T *group_sum = chunks_ > kChunksPerGroup ? total + size_ : total;
    const int64_t p0 = r.u0 * panels_per_unit(), p1 = r.u1 * panels_per_unit(), length = (r.m1 - r.m0) * L;
    for (int64_t index = 0; index < chunks_; ++index) {
      chunk(r, g, x, index, group_sum, index % kChunksPerGroup != 0);
      if (chunks_ <= kChunksPerGroup || ((index + 1) % kChunksPerGroup != 0 && index + 1 != chunks_)) continue;
      for (int64_t p = p0; p < p1; ++p) {
        T *to = total + sum_at(r.group, p, r.m0);
        const T *from = group_sum + sum_at(r.group, p, r.m0);
        if (index < kChunksPerGroup) {
          for (int64_t i = 0; i < length; ++i) to[i] = from[i];
        } else {
          for (int64_t i = 0; i < length; ++i) to[i] += from[i];
        }
      }
    }
    if (chunks_ == 0)
      for (int64_t p = p0; p < p1; ++p) std::fill_n(total + sum_at(r.group, p, r.m0), length, T(0));
    store(r, total, out);
  }

  // Adds the chunk's sums to `sums`, or sets them.
  void chunk(const Rectangle &r, const S *g, const S *x, int64_t index, T *sums, bool add) const {
    const auto parts = segments(index);
    const int64_t copied = parts.back().place + parts.back().copied, block = copied * line_ * lane_count_;
    int64_t depth = 0;
    for (const auto &p : parts) depth += p.rows * s_.out_w;
    const int64_t b0 = gather_ ? 0 : r.u0, b1 = gather_ ? 1 : r.u1;
    T *copy = x_block.get<T>((b1 - b0) * block);
    T *panels = g_panels.get<T>(ceil_div(r.m1 - r.m0, MR) * MR * depth);
    int64_t *offsets = table.get<int64_t>(depth), k = 0;
    for (const auto &p : parts)
      for (int64_t row = 0; row < p.rows; ++row)
        for (int64_t ow = 0; ow < s_.out_w; ++ow) offsets[k++] = ((p.place + row * s_.stride_h) * line_ + ow * s_.stride_w) * lane_count_;
    const bool dense = taps_ == 1 && s_.stride_w == 1 && s_.stride_h == 1;  // then offsets[k] is k·L
    for (int64_t b = b0; b < b1; ++b)
      for (const auto &p : parts) copy_x(x + s_.x(p.n, r.group * s_.channels, 0, 0), p, b, copy + (b - b0) * block);
    for (int64_t m = r.m0; m < r.m1; m += MR) pack_gradient(r, g, parts, m, panels + (m - r.m0) * depth);
    const T *matrix = gather_ ? gather(r, copy, offsets, depth) : nullptr;
    const int64_t rows_at_once = std::max<int64_t>(1, kPanelBytes / (MR * depth * int64_t(sizeof(T)))) * MR;
    for (int64_t mb = r.m0; mb < r.m1; mb += rows_at_once)
      for (int64_t p = r.u0 * panels_per_unit(); p < r.u1 * panels_per_unit(); ++p) {
        const T *b = gather_ ? matrix + (p - r.u0) * L : copy + (p / taps_ - r.u0) * block + tap_offset(p % taps_);
        for (int64_t m = mb; m < std::min(r.m1, mb + rows_at_once); m += MR) {
          const int rows = int(std::min<int64_t>(MR, r.m1 - m));
          const T *a = panels + (m - r.m0) * depth;
          T *c = sums + sum_at(r.group, p, m);
          if (gather_ || dense)
            tile(rows, int(L), depth, a, b, Dense{gather_ ? (r.u1 - r.u0) * L : L}, c, L, add);
          else
            tile(rows, int(L), depth, a, b, Table{offsets}, c, L, add);
        }
      }
  }

  void pack_gradient(const Rectangle &r, const S *g, const std::vector<Segment> &parts, int64_t m, T *dst) const {
    const int rows = int(std::min<int64_t>(MR, r.m1 - m));
    for (const auto &p : parts) {
      const int64_t length = g_rows_join_ ? p.rows * s_.out_w : s_.out_w;
      for (int64_t row = 0; row < p.rows; row += length / s_.out_w, dst += length * MR)
        pack_panel<MR>(dst, g + s_.y(p.n, r.group * s_.filters + m, p.oh + row, 0), s_.y.at[1], s_.y.at[3], rows, length);
    }
  }

  int64_t tap_offset(int64_t tap) const {
    return (tap / s_.kernel_w * s_.dilation_h * line_ + tap % s_.kernel_w * s_.dilation_w) * lane_count_;
  }

  // copy[row][column][lane] of one block of channels, zeros where x is padding.
  void copy_x(const S *x, const Segment &p, int64_t b, T *copy) const {
    const int64_t lanes = lane_count_;
    const int64_t left = std::min(line_, s_.padding_w),
                  inside = std::max<int64_t>(0, std::min(line_ - left, s_.width - (left - s_.padding_w)));
    const int64_t x0 = left - s_.padding_w;  // ≤ 0 only where nothing is inside
    const int64_t valid = x0 < 0 ? 0 : inside;
    const int64_t rows = x_rows_join_ && !gather_ ? p.copied : 1;  // at once
    for (int64_t r = 0; r < p.copied; r += rows) {
      T *dst = copy + (p.place + r) * line_ * lanes;
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
        pack_panel<int(L)>(dst + left * lanes, src, s_.x.at[1], s_.x.at[3], int(std::min(L, s_.channels - b * L)), valid * rows);
      }
      std::fill(dst + (left + valid * rows) * lanes, dst + line_ * rows * lanes, T(0));
    }
  }

  // Row k of the second matrix where (tap, channel) pairs of the rectangle stand side by side. Pairs of one kernel row that are neighbours
  // in the copy are copied together.
  const T *gather(const Rectangle &r, const T *copy, const int64_t *offsets, int64_t depth) const {
    struct Run {
      int64_t to, from, count;
    };
    const int64_t width = (r.u1 - r.u0) * L, first = r.u0 * L, lanes = lane_count_;
    const int64_t together = s_.dilation_w == 1 ? s_.kernel_w * lanes : lanes;
    std::vector<Run> runs;
    for (int64_t column = 0; column < taps_ * lanes; column += together) {
      const int64_t begin = std::max(column, first), end = std::min(column + together, first + width);
      if (begin < end) runs.push_back({begin - first, tap_offset(column / lanes) + begin - column, end - begin});
    }
    T *matrix = gathered.get<T>(depth * width);
    const int64_t used = std::min(width, taps_ * lanes - first);
    for (int64_t k = 0; k < depth; ++k) {
      T *row = matrix + k * width;
      const T *from = copy + offsets[k];
      for (const auto &run : runs)
        for (int64_t i = 0; i < run.count; ++i) row[run.to + i] = from[run.from + i];
      for (int64_t i = used; i < width; ++i) row[i] = T(0);
    }
    return matrix;
  }

  void store(const Rectangle &r, const T *sum, S *out) const {
    const auto one = [&](int64_t m, int64_t c, int64_t tap, const T *from, int64_t count) {
      S *to = out + s_.weight(r.group * s_.filters + m, c, tap / s_.kernel_w, tap % s_.kernel_w);
      for (int64_t i = 0; i < count; ++i) to[i * s_.weight.at[1]] = narrow<S>(from[i]);
    };
    for (int64_t m = r.m0; m < r.m1; ++m)
      for (int64_t u = r.u0; u < r.u1; ++u)
        if (gather_) {
          for (int64_t i = u * L; i < std::min((u + 1) * L, taps_ * s_.channels); ++i)
            one(m, i % s_.channels, i / s_.channels, sum + sum_at(r.group, u, m) + i % L, 1);
        } else {
          for (int64_t tap = 0; tap < taps_; ++tap)
            one(m, u * L, tap, sum + sum_at(r.group, u * taps_ + tap, m), std::min(L, s_.channels - u * L));
        }
  }

  ConvShape s_;
  bool gather_, x_rows_join_, g_rows_join_;
  int64_t taps_, channel_blocks_, lane_count_, columns_, panels_, units_, rows_per_chunk_, chunks_, line_, size_;
  int64_t row_cuts_ = 1, unit_cuts_ = 1;
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
