// avg_pool2d, adaptive_avg_pool2d and their backwards: docs/numerics.md, section 9. One plane of one image is one task.
#include <vector>

#include "reduce_lanes.hpp"

namespace cpu {
namespace {

using namespace reduce;

// Where the windows of one direction lie: [begin, end) inside the input, and their size counted with padding.
struct Windows {
  std::vector<int64_t> begin, end, padded;
};

struct Geometry {
  int64_t batch, channels, height, width;  // of the input
  Windows rows, columns;
  int64_t divisor = 0;  // 0: the window's size
  bool count_padding = true;

  int64_t count(size_t oh, size_t ow) const {
    if (divisor) return divisor;
    if (count_padding) return rows.padded[oh] * columns.padded[ow];
    return (rows.end[oh] - rows.begin[oh]) * (columns.end[ow] - columns.begin[ow]);
  }
};

Windows strided_windows(int64_t out, int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  Windows w;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t first = o * stride - padding, last = std::min(first + kernel, size + padding);
    w.padded.push_back(last - first);
    w.begin.push_back(std::max<int64_t>(first, 0));
    w.end.push_back(std::max(std::min(last, size), w.begin.back()));
  }
  return w;
}
Windows adaptive_windows(int64_t out, int64_t size) {
  Windows w;
  for (int64_t o = 0; o < out; ++o) {
    w.begin.push_back(o * size / out);
    w.end.push_back(((o + 1) * size + out - 1) / out);
    w.padded.push_back(w.end.back() - w.begin.back());
  }
  return w;
}

// input: the operand of the input's shape; output: that of the output's.
Geometry geometry(const hal_op &op, const hal_operand &input, const hal_operand &output, bool adaptive) {
  require(input.rank == 4 && output.rank == 4 && input.dims[0] == output.dims[0] && input.dims[1] == output.dims[1], op,
          "shapes: got " + shape_text(input) + " and " + shape_text(output) + ", expected rank 4 and equal batch and channels");
  Geometry g{input.dims[0], input.dims[1], input.dims[2], input.dims[3], {}, {}};
  if (adaptive) {
    g.rows = adaptive_windows(output.dims[2], g.height);
    g.columns = adaptive_windows(output.dims[3], g.width);
    return g;
  }
  const auto a = attributes<hal_attributes_avg_pool2d>(op);
  for (int i = 0; i < 2; ++i)
    require(a.kernel[i] >= 1 && a.stride[i] >= 1 && a.padding[i] >= 0, op, "kernel and stride must be at least 1, padding at least 0");
  g.rows = strided_windows(output.dims[2], g.height, a.kernel[0], a.stride[0], a.padding[0]);
  g.columns = strided_windows(output.dims[3], g.width, a.kernel[1], a.stride[1], a.padding[1]);
  g.divisor = a.divisor;
  g.count_padding = a.count_include_pad != 0;
  return g;
}

int64_t plane_at(const hal_operand &o, int64_t plane) { return plane / o.dims[1] * o.strides[0] + plane % o.dims[1] * o.strides[1]; }

template <int D, bool kAdaptive>
class AveragePool final : public Kernel {
  using E = Element<D>;
  using S = typename E::S;
  using C = typename E::C;

 public:
  explicit AveragePool(const hal_op &op)
      : x_(op.operands[0]), out_(op.operands[1]), g_(geometry(op, op.operands[0], op.operands[1], kAdaptive)) {
    for (size_t oh = 0; oh < g_.rows.begin.size(); ++oh)
      for (size_t ow = 0; ow < g_.columns.begin.size(); ++ow)
        work_ += (g_.rows.end[oh] - g_.rows.begin[oh]) * (g_.columns.end[ow] - g_.columns.begin[ow]);
  }

  void run(void *const *data, void *) const override {
    const S *x = static_cast<const S *>(data[0]);
    S *out = static_cast<S *>(data[1]);
    parallel_for(g_.batch * g_.channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work_)), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) plane(x + plane_at(x_, p), out + plane_at(out_, p));
    });
  }

 private:
  void plane(const S *x, S *out) const {
    constexpr size_t kWide = 512;  // outputs of a row at once
    const size_t height = g_.rows.begin.size(), width = g_.columns.begin.size();
    C sums[kWide];
    for (size_t oh = 0; oh < height; ++oh)
      for (size_t first = 0; first < width; first += kWide) {
        const size_t last = std::min(width, first + kWide);
        for (size_t ow = first; ow < last; ++ow) sums[ow - first] = kAdaptive ? balanced(x, oh, ow) : chain(x, oh, ow);
        for (size_t ow = first; ow < last; ++ow)
          out[int64_t(oh) * out_.strides[2] + int64_t(ow) * out_.strides[3]] = E::store(sums[ow - first] / C(g_.count(oh, ow)));
      }
  }
  C chain(const S *x, size_t oh, size_t ow) const {
    C sum = 0;
    for (int64_t h = g_.rows.begin[oh]; h < g_.rows.end[oh]; ++h)
      for (int64_t w = g_.columns.begin[ow]; w < g_.columns.end[ow]; ++w) sum += E::load(x[h * x_.strides[2] + w * x_.strides[3]]);
    return sum;
  }
  // The sum of section 5 over the window.
  C balanced(const S *x, size_t oh, size_t ow) const {
    const int64_t wide = g_.columns.end[ow] - g_.columns.begin[ow], n = (g_.rows.end[oh] - g_.rows.begin[oh]) * wide;
    const S *const from = x + g_.rows.begin[oh] * x_.strides[2] + g_.columns.begin[ow] * x_.strides[3];
    alignas(64) C values[kBlock];
    SumStream<C> stream;
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      for (int64_t k = 0, h = i / wide, w = i % wide; k < m;) {
        const int64_t run = std::min(m - k, wide - w);
        load_run<D>(from + h * x_.strides[2] + w * x_.strides[3], x_.strides[3], run, values + k);
        k += run;
        ++h;
        w = 0;
      }
      const C block = reduce_block<Plus>(values, m);
      if (n <= kBlock) return block;
      stream.push(block);
    }
    return stream.result();
  }

  hal_operand x_, out_;
  Geometry g_;
  int64_t work_ = 0;
};

template <int D, bool kAdaptive>
class AveragePoolBackward final : public Kernel {
  using E = Element<D>;
  using S = typename E::S;
  using C = typename E::C;

 public:
  explicit AveragePoolBackward(const hal_op &op)
      : grad_(op.operands[0]), out_(op.operands[1]), g_(geometry(op, op.operands[1], op.operands[0], kAdaptive)) {}

  void run(void *const *data, void *) const override {
    const S *grad = static_cast<const S *>(data[0]);
    S *out = static_cast<S *>(data[1]);
    const int64_t size = g_.height * g_.width;
    parallel_for(g_.batch * g_.channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, 2 * size)), [&](int64_t begin, int64_t end) {
      std::vector<C> sums(size_t(size), C(0));
      for (int64_t p = begin; p < end; ++p) {
        std::fill(sums.begin(), sums.end(), C(0));
        plane(grad + plane_at(grad_, p), sums.data());
        for (int64_t h = 0; h < g_.height; ++h)
          store_run<D>(sums.data() + h * g_.width, g_.width, out + plane_at(out_, p) + h * out_.strides[2], out_.strides[3]);
      }
    });
  }

 private:
  void plane(const S *grad, C *sums) const {
    for (size_t oh = 0; oh < g_.rows.begin.size(); ++oh)
      for (size_t ow = 0; ow < g_.columns.begin.size(); ++ow) {
        const C share = E::load(grad[int64_t(oh) * grad_.strides[2] + int64_t(ow) * grad_.strides[3]]) / C(g_.count(oh, ow));
        for (int64_t h = g_.rows.begin[oh]; h < g_.rows.end[oh]; ++h)
          for (int64_t w = g_.columns.begin[ow]; w < g_.columns.end[ow]; ++w) sums[h * g_.width + w] += share;
      }
  }

  hal_operand grad_, out_;
  Geometry g_;
};

template <template <int, bool> class K, bool kAdaptive>
std::unique_ptr<Kernel> make(const hal_op &op) {
  require_operands(op, 1, 1);
  return for_float(op.operands[0].dtype,
                   [&](auto d) -> std::unique_ptr<Kernel> { return std::make_unique<K<decltype(d)::value, kAdaptive>>(op); });
}

}  // namespace

void add_average_pooling(KernelRows &rows) {
  rows.push_back({"avg_pool2d", kFloatBits, make<AveragePool, false>});
  rows.push_back({"avg_pool2d_backward", kFloatBits, make<AveragePoolBackward, false>});
  rows.push_back({"adaptive_avg_pool2d", kFloatBits, make<AveragePool, true>});
  rows.push_back({"adaptive_avg_pool2d_backward", kFloatBits, make<AveragePoolBackward, true>});
}

}  // namespace cpu
