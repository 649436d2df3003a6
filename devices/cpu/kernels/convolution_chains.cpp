// conv2d and conv2d_input_grad: a matrix product of packed weights (output channels × k) and packed strips of pixels (k × pixels), where
// k runs as the contract says (docs/numerics.md, 8). Nothing is unrolled in memory: a strip's panel lives in the cache for one chunk.
#include <atomic>

#include "convolution_strips.hpp"

namespace cpu {
namespace {

thread_local Scratch strip_panels, result_tiles;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A lattice, its chunks, and how it is cut into tasks; any cut gives the same bits.
struct Work {
  Lattice lattice;
  std::vector<int64_t> chunks;    // bounds in channels: chunk i is channels [chunks[i], chunks[i + 1]) at every tap
  int64_t depth = 0, packed = 0;  // length of k; where its packed weights begin
  int64_t strips = 0, strips_per_task = 1, blocks = 0, row_cuts = 1;
};

template <class S>
class ConvChains final : public Kernel {
 public:
  using T = compute_t<S>;
  static constexpr int64_t W = NR<T>;

  ConvChains(const ConvShape &s, bool gradient)
      : gradient_(gradient), batch_(s.batch), groups_(s.groups), filters_(s.filters), weight_(s.weight) {
    source_ = conv_source(s, gradient);
    out_channels_ = gradient ? s.channels : s.filters;
    out_ = gradient ? s.x : s.y;
    panels_ = ceil_div(out_channels_, MR);
    int64_t packed = 0;
    for (auto &l : conv_lattices(s, gradient)) {
      if (batch_ * groups_ * out_channels_ * l.pixels() == 0) continue;
      works_.push_back(plan(std::move(l), s));
      works_.back().packed = packed;
      packed += groups_ * panels_ * MR * works_.back().depth;
    }
    workspace_size = uint64_t(packed + 32) * sizeof(T);
  }

  void run(void *const *data, void *workspace) const override {
    const S *source = static_cast<const S *>(data[0]), *weight = static_cast<const S *>(data[1]);
    S *out = static_cast<S *>(data[2]);
    T *packed = static_cast<T *>(workspace);
    std::vector<int64_t> first_task{0};
    std::atomic<bool> finite{true};
    for (const auto &w : works_) {
      pack_weights(w, weight, packed, finite);
      first_task.push_back(first_task.back() + groups_ * w.blocks * w.row_cuts);
    }
    if (works_.empty()) return;
    // Zeros stand for taps that a gradient leaves out. That changes nothing unless a weight isn't finite.
    if (gradient_ && !finite) return run_exact(source, weight, out);
    parallel_for(first_task.back(), 1, [&](int64_t begin, int64_t end) {
      size_t which = 0;
      for (int64_t task = begin; task < end; ++task) {
        while (task >= first_task[which + 1]) ++which;
        const Work &w = works_[which];
        const int64_t index = task - first_task[which], cut = index % w.row_cuts, block = index / w.row_cuts % w.blocks;
        run_block(w, source, out, packed, index / (w.row_cuts * w.blocks), block * w.strips_per_task,
                  std::min(w.strips, (block + 1) * w.strips_per_task), panels_ * cut / w.row_cuts, panels_ * (cut + 1) / w.row_cuts);
      }
    });
  }

 private:
  // Output pixels where a whole strip lies side by side: its tiles are computed in place.
  struct Strip {
    int count, pieces;
    bool in_place;
    S *place;  // of column 0, channel 0
    Piece piece[W];
  };

  Work plan(Lattice l, const ConvShape &s) {
    Work w;
    // A 1×1 kernel: rows follow each other in source and output, so an image is one row.
    if (l.x.is_identity(source_.width) && l.y.is_identity(source_.height) &&
        source_.strides.at[2] == source_.width * source_.strides.at[3] && out_.at[2] == source_.width * out_.at[3]) {
      l.x.count *= l.y.count;
      source_.width *= source_.height;
      l.y.count = source_.height = 1;
    }
    const int64_t step = kChannelBlock * blocks_per_chunk(s);
    w.depth = source_.channels * l.taps();
    w.chunks.push_back(0);
    if (w.depth != 0)
      for (int64_t c = 0; c < source_.channels; c += step) w.chunks.push_back(std::min(source_.channels, c + step));
    const int64_t threads = host().num_threads(), longest = std::max<int64_t>(1, std::min(step, source_.channels) * l.taps());
    const int64_t fit = std::max<int64_t>(1, kStripBytes / (longest * W * int64_t(sizeof(T))));
    w.strips = ceil_div(batch_ * l.pixels(), W);
    w.blocks = std::max(ceil_div(w.strips, fit), std::min(w.strips, threads));
    w.blocks = std::min(w.strips, ceil_div(w.blocks, threads) * threads);
    w.strips_per_task = ceil_div(w.strips, w.blocks);
    w.blocks = ceil_div(w.strips, w.strips_per_task);
    w.row_cuts = std::min(panels_, ceil_div(threads, groups_ * w.blocks));
    w.lattice = std::move(l);
    return w;
  }

  // Weight of output channel m and source channel c of a group, at a tap.
  int64_t weight_at(int64_t group, int64_t m, int64_t c, int64_t kh, int64_t kw) const {
    return gradient_ ? weight_(group * filters_ + c, m, kh, kw) : weight_(group * filters_ + m, c, kh, kw);
  }

  // Panels of MR output channels, chunk by chunk: packed[((group·depth + chunk's start)·panels + panel·chunk's length)·MR + k·MR + row].
  void pack_weights(const Work &w, const S *weight, T *packed, std::atomic<bool> &finite) const {
    if (w.depth == 0) return;
    const int64_t along = gradient_ ? weight_.at[0] : weight_.at[1], across = gradient_ ? weight_.at[1] : weight_.at[0];
    const int64_t taps = w.lattice.taps();
    parallel_for(groups_ * panels_, std::max<int64_t>(1, 4096 / w.depth), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / panels_, panel = task % panels_;
        const int rows = int(std::min<int64_t>(MR, out_channels_ - panel * MR));
        for (size_t chunk = 0; chunk + 1 < w.chunks.size(); ++chunk) {
          const int64_t c0 = w.chunks[chunk], c1 = w.chunks[chunk + 1], run = taps == 1 ? c1 - c0 : kChannelBlock;
          T *dst = packed + w.packed + ((group * w.depth + c0 * taps) * panels_ + panel * (c1 - c0) * taps) * MR;
          for (int64_t c = c0; c < c1; c += run)
            for (const auto &ty : w.lattice.y.taps)
              for (const auto &tx : w.lattice.x.taps) {
                const int64_t count = std::min(run, c1 - c);
                const S *src = weight + weight_at(group, panel * MR, c, ty.kernel, tx.kernel);
                if (along == 1 && rows == MR) {
                  pack_panel_exactly(dst, src, across, count);
                } else {
                  for (int64_t i = 0; i < count; ++i)
                    for (int r = 0; r < MR; ++r) dst[i * MR + r] = r < rows ? T(widen(src[i * along + r * across])) : T(0);
                }
                dst += count * MR;
              }
          if (gradient_ && !all_finite(dst - (c1 - c0) * taps * MR, (c1 - c0) * taps * MR)) finite = false;
        }
      }
    });
  }

  // pack_panel may write beyond a panel's end, which another thread may have filled: the last rows are written one by one.
  static void pack_panel_exactly(T *dst, const S *src, int64_t across, int64_t count) {
    const int64_t safe = std::max<int64_t>(0, count - Vec<T>::lanes) / Vec<T>::lanes * Vec<T>::lanes;
    pack_panel<MR>(dst, src, across, 1, MR, safe);
    for (int64_t i = safe; i < count; ++i)
      for (int r = 0; r < MR; ++r) dst[i * MR + r] = widen(src[i + r * across]);
  }

  static bool all_finite(const T *values, int64_t count) {
    int bad = 0;
    for (int64_t i = 0; i < count; ++i) bad |= values[i] - values[i] != T(0);
    return !bad;
  }

  Strip strip_at(const Work &w, S *out, int64_t index) const {
    const Lattice &l = w.lattice;
    Strip strip;
    strip.count = int(std::min(W, batch_ * l.pixels() - index * W));
    strip.pieces = cut_strip<int(W)>(l, index * W, strip.count, strip.piece);
    strip.place = place(l, strip.piece[0], out);
    strip.in_place = std::is_same_v<S, T> && w.depth != 0 && strip.pieces == 1 && strip.count == W && l.x.out_step * out_.at[3] == 1;
    return strip;
  }

  S *place(const Lattice &l, const Piece &p, S *out) const {
    return out + out_(p.image, 0, l.y.out_first + p.row * l.y.out_step, l.x.out_first + p.column * l.x.out_step);
  }

  // Strips [s0, s1) × panels [p0, p1) of a group.
  void run_block(const Work &w, const S *source, S *out, const T *packed, int64_t group, int64_t s0, int64_t s1, int64_t p0,
                 int64_t p1) const {
    const int64_t taps = w.lattice.taps(), count = s1 - s0;
    source += group * source_.channels * source_.strides.at[1];
    out += group * out_channels_ * out_.at[1];
    std::vector<Strip> strips;
    for (int64_t s = s0; s < s1; ++s) strips.push_back(strip_at(w, out, s));
    T *tiles = result_tiles.get<T>(w.depth == 0 ? W : (p1 - p0) * count * MR * W);
    if (w.depth == 0) std::fill(tiles, tiles + W, T(0));  // no tap reaches these pixels: one row of zeros for all
    for (size_t chunk = 0; chunk + 1 < w.chunks.size(); ++chunk) {
      const int64_t c0 = w.chunks[chunk], c1 = w.chunks[chunk + 1], length = (c1 - c0) * taps;
      T *b = strip_panels.get<T>(count * length * W + W);
      for (int64_t s = 0; s < count; ++s)
        pack_strip(w.lattice, source_, source, strips[s].piece, strips[s].pieces, c0, c1, b + s * length * W);
      const T *a = packed + w.packed + (group * w.depth + c0 * taps) * panels_ * MR;
      for (int64_t p = p0; p < p1; ++p) {
        const int rows = int(std::min<int64_t>(MR, out_channels_ - p * MR));
        for (int64_t s = 0; s < count; ++s) {
          T *c = tiles + ((p - p0) * count + s) * MR * W;
          int64_t stride = W;
          if constexpr (std::is_same_v<S, T>)
            if (strips[s].in_place) c = strips[s].place + p * MR * out_.at[1], stride = out_.at[1];
          tile(rows, int(W), length, a + p * length * MR, b + s * length * W, Dense{W}, c, stride, chunk != 0);
        }
      }
    }
    for (int64_t s = 0; s < count; ++s)
      if (!strips[s].in_place) scatter(w, strips[s], w.depth == 0 ? tiles : tiles + s * MR * W, count * MR * W, p0, p1, out);
  }

  // A strip's tiles, rounded once, to where its pixels lie.
  void scatter(const Work &w, const Strip &strip, const T *tiles, int64_t tile_stride, int64_t p0, int64_t p1, S *out) const {
    const int64_t step = w.lattice.x.out_step * out_.at[3];
    for (int i = 0; i < strip.pieces; ++i) {
      const Piece &piece = strip.piece[i];
      S *first = place(w.lattice, piece, out);
      for (int64_t m = p0 * MR; m < std::min(out_channels_, p1 * MR); ++m) {
        const T *from = w.depth == 0 ? tiles : tiles + (m / MR - p0) * tile_stride + m % MR * W + piece.first;
        S *to = first + m * out_.at[1];
        for (int q = 0; q < piece.count; ++q) to[q * step] = narrow<S>(from[q]);
      }
    }
  }

  // The gradient with every tap judged by itself.
  void run_exact(const S *source, const S *weight, S *out) const {
    for (const auto &w : works_) {
      const Lattice &l = w.lattice;
      parallel_for(batch_ * groups_ * out_channels_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t n = task / (groups_ * out_channels_), group = task / out_channels_ % groups_, m = task % out_channels_;
          for (int64_t i = 0; i < l.y.count; ++i)
            for (int64_t j = 0; j < l.x.count; ++j) {
              S *to = place(l, Piece{0, 1, n, i, j}, out) + (group * out_channels_ + m) * out_.at[1];
              *to = narrow<S>(exact_pixel(w, source, weight, n, group, m, i, j));
            }
        }
      });
    }
  }

  T exact_pixel(const Work &w, const S *source, const S *weight, int64_t n, int64_t group, int64_t m, int64_t i, int64_t j) const {
    const Lattice &l = w.lattice;
    T result = 0;
    for (size_t chunk = 0; chunk + 1 < w.chunks.size(); ++chunk) {
      T acc = 0;
      for (int64_t cb = w.chunks[chunk]; cb < w.chunks[chunk + 1]; cb += kChannelBlock)
        for (const auto &ty : l.y.taps)
          for (const auto &tx : l.x.taps) {
            const Read r = read_of(l, source_, Piece{0, 1, n, i, j}, ty, tx);
            if (r.inside_first == r.inside_end) continue;
            for (int64_t c = cb; c < std::min(source_.channels, cb + kChannelBlock); ++c)
              acc = fused(T(widen(source[r.offset + (group * source_.channels + c) * source_.strides.at[1]])),
                          T(widen(weight[weight_at(group, m, c, ty.kernel, tx.kernel)])), acc);
          }
      acc += T(0);
      result = chunk == 0 ? acc : result + acc;
    }
    return result;
  }

  static constexpr int64_t kStripBytes = 256 * 1024;  // of packed strips: half of a common second-level cache

  bool gradient_;
  int64_t batch_, groups_, filters_;
  int64_t out_channels_ = 0, panels_ = 0;  // channels and panels per group
  ConvSource source_;
  Strides4 out_, weight_;
  std::vector<Work> works_;
};

template <class S>
std::unique_ptr<Kernel> make(const ConvShape &s, bool gradient) {
  auto chains = std::make_unique<ConvChains<S>>(s, gradient);
  if (s.groups > 1 && s.channels <= 4 && s.filters <= 4) return make_conv_rows(s, gradient, S{}, std::move(chains));
  return chains;
}

std::unique_ptr<Kernel> make(const hal_op &op, const ConvShape &s, bool gradient) {
  switch (op.operands[0].dtype) {
    case HAL_F16:
      return make<f16>(s, gradient);
    case HAL_BF16:
      return make<bf16>(s, gradient);
    case HAL_F64:
      return make<double>(s, gradient);
    default:
      return make<float>(s, gradient);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_conv2d(const hal_op &op) { return make(op, conv_shape(op, 0, 1, 2), false); }

std::unique_ptr<Kernel> make_conv2d_input_grad(const hal_op &op) { return make(op, conv_shape(op, 2, 1, 0), true); }

}  // namespace cpu
