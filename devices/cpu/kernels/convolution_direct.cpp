// conv2d and conv2d_input_grad: both are convolutions that read a zero-padded copy of a few rows (docs/numerics.md, 8).
//
// Rows of the output matrix are channels, its columns are the pixels of a block of rows, flattened over the width of the padded copy.
// So row k = (channel, tap) of the operand B is the copy itself, shifted: nothing is unrolled. The columns between two rows of pixels are
// computed and dropped. A stride is taken out by splitting the copy into its row and column phases.
#include <cmath>

#include "convolution.hpp"
#include "tile.hpp"

namespace cpu {
namespace {

thread_local Scratch source_block, result_block;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One axis of a lattice of output pixels: pixel i reads, for each tap, source position i·step + tap.at.
struct Axis {
  struct Tap {
    int64_t kernel;  // index into the weight
    int64_t at;
    int64_t phase = 0, shift = 0;  // of the padded copy: i·step + at lies in this phase at i + shift
  };
  int64_t count;      // pixels
  int64_t out_first;  // of pixel 0 in the output
  int64_t out_step;
  int64_t step;
  std::vector<Tap> taps;
  int64_t first = 0, phases = 1, reach = 0;  // source position of phase 0 at 0; phases; largest shift

  void place() {
    if (taps.empty()) return;
    first = taps[0].at;
    for (const auto &t : taps) first = std::min(first, t.at);
    phases = 1;
    for (auto &t : taps) {
      t.phase = (t.at - first) % step;
      t.shift = (t.at - first) / step;
      phases = std::max(phases, t.phase + 1);
      reach = std::max(reach, t.shift);
    }
  }
};

Axis forward_axis(int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  Axis axis{out, 0, 1, stride, {}};
  for (int64_t k = 0; k < kernel; ++k) axis.taps.push_back({k, k * dilation - padding});
  axis.place();
  return axis;
}

// The positions i of the input with (i + padding) mod stride = phase.
Axis gradient_axis(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, int64_t phase) {
  const int64_t first = ((phase - padding) % stride + stride) % stride;
  Axis axis{first < size ? (size - first + stride - 1) / stride : 0, first, stride, 1, {}};
  for (int64_t k = 0; k < kernel; ++k)
    if ((first + padding - k * dilation) % stride == 0) axis.taps.push_back({k, (first + padding - k * dilation) / stride});
  axis.place();
  return axis;
}

// A lattice of output pixels that all use the same taps, and the order of their chains.
struct Lattice {
  Axis y, x;
  int64_t rows_per_block = 1, blocks = 0;
  int64_t line = 0, copy_rows = 0, plane = 0;  // of the padded copy: row length, rows per phase, size per channel
  std::vector<int64_t> offsets;                // of row k of B
  std::vector<int64_t> chunks;                 // bounds: chunk i is k in [chunks[i], chunks[i + 1])
  int64_t packed = 0;                          // where its packed weights begin
};

template <class S>
class DirectConv final : public Kernel {
 public:
  using T = compute_t<S>;

  DirectConv(const ConvShape &s, bool gradient)
      : gradient_(gradient), batch_(s.batch), groups_(s.groups), blocks_per_chunk_(blocks_per_chunk(s)) {
    if (gradient) {
      in_channels_ = s.filters, out_channels_ = s.channels;
      source_ = s.y, out_ = s.x;
      source_h_ = s.out_h, source_w_ = s.out_w;
      for (int64_t ph = 0; ph < s.stride_h; ++ph)
        for (int64_t pw = 0; pw < s.stride_w; ++pw) {
          Lattice l;
          l.y = gradient_axis(s.height, s.kernel_h, s.stride_h, s.padding_h, s.dilation_h, ph);
          if (l.y.count == 0) break;
          l.x = gradient_axis(s.width, s.kernel_w, s.stride_w, s.padding_w, s.dilation_w, pw);
          if (l.x.count > 0) lattices_.push_back(std::move(l));
        }
    } else {
      in_channels_ = s.channels, out_channels_ = s.filters;
      source_ = s.x, out_ = s.y;
      source_h_ = s.height, source_w_ = s.width;
      Lattice l;
      l.y = forward_axis(s.out_h, s.kernel_h, s.stride_h, s.padding_h, s.dilation_h);
      l.x = forward_axis(s.out_w, s.kernel_w, s.stride_w, s.padding_w, s.dilation_w);
      lattices_.push_back(std::move(l));
    }
    weight_ = s.weight;
    filters_ = s.filters;
    if (batch_ == 0 || out_channels_ == 0 || groups_ == 0) lattices_.clear();
    panels_ = ceil_div(out_channels_, MR);
    int64_t packed = 0;
    for (auto &l : lattices_) {
      plan(l);
      l.packed = packed;
      packed += groups_ * panels_ * MR * int64_t(l.offsets.size());
    }
    workspace_size = uint64_t(packed + 32) * sizeof(T);
  }

  void run(void *const *data, void *workspace) const override {
    const S *source = static_cast<const S *>(data[0]), *weight = static_cast<const S *>(data[1]);
    S *out = static_cast<S *>(data[2]);
    T *packed = static_cast<T *>(workspace);
    std::vector<int64_t> first_task{0};
    for (const auto &l : lattices_) {
      pack_weights(l, weight, packed);
      first_task.push_back(first_task.back() + batch_ * groups_ * l.blocks);
    }
    if (lattices_.empty()) return;
    // The zeros around the source stand for taps that a gradient leaves out. That changes nothing unless a weight isn't finite.
    if (gradient_ && !all_finite(packed)) return run_exact(source, weight, out);
    parallel_for(first_task.back(), 1, [&](int64_t begin, int64_t end) {
      size_t which = 0;
      for (int64_t task = begin; task < end; ++task) {
        while (task >= first_task[which + 1]) ++which;
        const Lattice &l = lattices_[which];
        const int64_t index = task - first_task[which];
        block(l, source, out, packed, index / (l.blocks * groups_), index / l.blocks % groups_, index % l.blocks);
      }
    });
  }

 private:
  void plan(Lattice &l) {
    l.line = l.x.count + l.x.reach;
    const int64_t phases = l.y.phases * l.x.phases;
    // As many rows as keep the copy and the result in the second-level cache, and every thread at work.
    const int64_t row_bytes = (in_channels_ * phases + out_channels_) * l.line * int64_t(sizeof(T));
    const int64_t fit = std::max<int64_t>(
        1, (384 * 1024 - in_channels_ * phases * l.y.reach * l.line * int64_t(sizeof(T))) / std::max<int64_t>(1, row_bytes));
    const int64_t least_rows = ceil_div(4 * NR<T>, l.line);
    const int64_t wanted = ceil_div(2 * host().num_threads(), batch_ * groups_);
    const int64_t rows = std::min({l.y.count, std::max(fit, least_rows), std::max(least_rows, ceil_div(l.y.count, wanted))});
    l.blocks = ceil_div(l.y.count, rows);
    l.rows_per_block = ceil_div(l.y.count, l.blocks);
    l.blocks = ceil_div(l.y.count, l.rows_per_block);
    l.copy_rows = l.rows_per_block + l.y.reach;
    l.plane = (ceil_div(phases * l.copy_rows * l.line, 16) | 1) * 16;  // an odd number of lines: channels spread over the cache's sets
    const int64_t channel_blocks = ceil_div(in_channels_, kChannelBlock);
    l.chunks.push_back(0);
    for (int64_t b = 0; b < channel_blocks; ++b) {
      const int64_t end = std::min(in_channels_, (b + 1) * kChannelBlock);
      for (const auto &ty : l.y.taps)
        for (const auto &tx : l.x.taps)
          for (int64_t c = b * kChannelBlock; c < end; ++c)
            l.offsets.push_back(c * l.plane + ((ty.phase * l.x.phases + tx.phase) * l.copy_rows + ty.shift) * l.line + tx.shift);
      if ((b + 1) % blocks_per_chunk_ == 0 || b + 1 == channel_blocks) l.chunks.push_back(int64_t(l.offsets.size()));
    }
    if (l.offsets.empty()) l.chunks = {0};
  }

  // Weight of output channel m and input channel c of a group, at a tap.
  int64_t weight_at(int64_t group, int64_t m, int64_t c, int64_t kh, int64_t kw) const {
    return gradient_ ? weight_(group * filters_ + c, m, kh, kw) : weight_(group * filters_ + m, c, kh, kw);
  }

  // Panels of MR output channels, per group and chunk: packed[((group·K + chunk start)·panels + panel·depth)·MR + k·MR + row].
  void pack_weights(const Lattice &l, const S *weight, T *packed) const {
    const int64_t depth = int64_t(l.offsets.size());
    if (depth == 0) return;
    const int64_t along = gradient_ ? weight_.at[0] : weight_.at[1], across = gradient_ ? weight_.at[1] : weight_.at[0];
    parallel_for(groups_ * panels_, std::max<int64_t>(1, 4096 / depth), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / panels_, panel = task % panels_;
        const int rows = int(std::min<int64_t>(MR, out_channels_ - panel * MR));
        int64_t k = 0;
        size_t chunk = 0;
        for (int64_t c = 0; c < in_channels_; c += kChannelBlock) {
          const int64_t count = std::min(kChannelBlock, in_channels_ - c);
          for (const auto &ty : l.y.taps)
            for (const auto &tx : l.x.taps) {
              while (k >= l.chunks[chunk + 1]) ++chunk;
              const int64_t k0 = l.chunks[chunk], length = l.chunks[chunk + 1] - k0;
              T *dst = packed + l.packed + ((group * depth + k0) * panels_ + panel * length + (k - k0)) * MR;
              const S *src = weight + weight_at(group, panel * MR, c, ty.kernel, tx.kernel);
              for (int64_t i = 0; i < count; ++i)
                for (int r = 0; r < MR; ++r) dst[i * MR + r] = r < rows ? T(widen(src[i * along + r * across])) : T(0);
              k += count;
            }
        }
      }
    });
  }

  bool all_finite(const T *packed) const {
    const auto &l = lattices_.back();
    const int64_t count = l.packed + groups_ * panels_ * MR * int64_t(l.offsets.size());
    int bad = 0;
    for (int64_t i = 0; i < count; ++i) bad |= packed[i] - packed[i] != T(0);
    return !bad;
  }

  void block(const Lattice &l, const S *source, S *out, const T *packed, int64_t n, int64_t group, int64_t index) const {
    const int64_t row0 = index * l.rows_per_block, rows = std::min(l.rows_per_block, l.y.count - row0);
    const int64_t columns = (rows - 1) * l.line + l.x.count, ldc = ceil_div(columns, NR<T>) * NR<T>;
    const int64_t depth = int64_t(l.offsets.size());
    T *c = result_block.get<T>(out_channels_ * ldc);
    if (depth == 0) std::fill(c, c + out_channels_ * ldc, T(0));
    T *copy = source_block.get<T>(in_channels_ * l.plane + 2 * NR<T>);
    if (depth != 0) copy_source(l, source + source_(n, group * in_channels_, 0, 0), row0, rows, copy);
    for (size_t chunk = 0; chunk + 1 < l.chunks.size(); ++chunk) {
      const int64_t k0 = l.chunks[chunk], length = l.chunks[chunk + 1] - k0;
      const T *a = packed + l.packed + (group * depth + k0) * panels_ * MR;
      for (int64_t j = 0; j < columns; j += NR<T>)
        for (int64_t i = 0; i < out_channels_; i += MR)
          tile(int(std::min<int64_t>(MR, out_channels_ - i)), NR<T>, length, a + i * length, copy + j, Table{l.offsets.data() + k0},
               c + i * ldc + j, ldc, chunk != 0);
    }
    for (int64_t m = 0; m < out_channels_; ++m) {
      S *place = out + out_(n, group * out_channels_ + m, l.y.out_first + row0 * l.y.out_step, l.x.out_first);
      store_block(Matrix<S>{place, l.y.out_step * out_.at[2], l.x.out_step * out_.at[3]}, c + m * ldc, l.line, rows, l.x.count);
    }
  }

  // The rows of the source that `rows` rows of pixels read, all channels, each phase apart, zeros around.
  void copy_source(const Lattice &l, const S *source, int64_t row0, int64_t rows, T *copy) const {
    for (int64_t c = 0; c < in_channels_; ++c)
      for (int64_t py = 0; py < l.y.phases; ++py)
        for (int64_t px = 0; px < l.x.phases; ++px) {
          T *dst = copy + c * l.plane + (py * l.x.phases + px) * l.copy_rows * l.line;
          // Positions of this phase in the source: first + px + i·step; those inside are i in [i0, i1).
          const int64_t x0 = l.x.first + px, i0 = std::min(l.line, x0 < 0 ? ceil_div(-x0, l.x.step) : 0);
          const int64_t i1 = std::max(i0, std::min(l.line, source_w_ > x0 ? ceil_div(source_w_ - x0, l.x.step) : 0));
          for (int64_t r = 0; r < rows + l.y.reach; ++r, dst += l.line) {
            const int64_t y = l.y.first + py + (row0 + r) * l.y.step;
            if (y < 0 || y >= source_h_) {
              std::fill(dst, dst + l.line, T(0));
              continue;
            }
            const S *src = source + c * source_.at[1] + y * source_.at[2] + x0 * source_.at[3];
            const int64_t stride = l.x.step * source_.at[3];
            std::fill(dst, dst + i0, T(0));
            if (stride == 1) {
              for (int64_t i = i0; i < i1; ++i) dst[i] = widen(src[i]);
            } else {
              for (int64_t i = i0; i < i1; ++i) dst[i] = widen(src[i * stride]);
            }
            std::fill(dst + i1, dst + l.line, T(0));
          }
        }
  }

  // The gradient with every tap judged by itself.
  void run_exact(const S *source, const S *weight, S *out) const {
    for (const auto &l : lattices_)
      parallel_for(batch_ * groups_ * out_channels_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t n = task / (groups_ * out_channels_), group = task / out_channels_ % groups_, m = task % out_channels_;
          for (int64_t i = 0; i < l.y.count; ++i)
            for (int64_t j = 0; j < l.x.count; ++j)
              out[out_(n, group * out_channels_ + m, l.y.out_first + i * l.y.out_step, l.x.out_first + j * l.x.out_step)] =
                  narrow<S>(exact_pixel(l, source, weight, n, group, m, i, j));
        }
      });
  }

  T exact_pixel(const Lattice &l, const S *source, const S *weight, int64_t n, int64_t group, int64_t m, int64_t i, int64_t j) const {
    T result = 0;
    const int64_t step = kChannelBlock * blocks_per_chunk_;
    for (int64_t c0 = 0; c0 < in_channels_; c0 += step) {
      T acc = 0;
      for (int64_t cb = c0; cb < std::min(in_channels_, c0 + step); cb += kChannelBlock)
        for (const auto &ty : l.y.taps)
          for (const auto &tx : l.x.taps) {
            const int64_t y = i + ty.at, x = j + tx.at;
            if (y < 0 || y >= source_h_ || x < 0 || x >= source_w_) continue;
            for (int64_t c = cb; c < std::min(in_channels_, cb + kChannelBlock); ++c)
              acc = fused(T(widen(source[source_(n, group * in_channels_ + c, y, x)])),
                          T(widen(weight[weight_at(group, m, c, ty.kernel, tx.kernel)])), acc);
          }
      acc += T(0);
      result = c0 == 0 ? acc : result + acc;
    }
    return result;
  }

  bool gradient_;
  int64_t batch_, groups_, blocks_per_chunk_;
  int64_t in_channels_, out_channels_, filters_, panels_;  // per group
  int64_t source_h_, source_w_;
  Strides4 source_, out_, weight_;
  std::vector<Lattice> lattices_;
};

std::unique_ptr<Kernel> make(const hal_op &op, const ConvShape &s, bool gradient) {
  switch (op.operands[0].dtype) {
    case HAL_F16:
      return std::make_unique<DirectConv<f16>>(s, gradient);
    case HAL_BF16:
      return std::make_unique<DirectConv<bf16>>(s, gradient);
    case HAL_F64:
      return std::make_unique<DirectConv<double>>(s, gradient);
    default:
      return std::make_unique<DirectConv<float>>(s, gradient);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_conv2d(const hal_op &op) { return make(op, conv_shape(op, 0, 1, 2), false); }

std::unique_ptr<Kernel> make_conv2d_input_grad(const hal_op &op) { return make(op, conv_shape(op, 2, 1, 0), true); }

}  // namespace cpu
