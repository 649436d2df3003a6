// conv2d and conv2d_input_grad where a group has few channels (depthwise): a row of output pixels runs its chains side by side, tap after
// tap, straight from the source. A group's channels fit into one block, so there is one chunk (docs/numerics.md, 8).
#include "convolution_lattice.hpp"

namespace cpu {
namespace {

thread_local Scratch row_chains;

template <class S>
class ConvRows final : public Kernel {
 public:
  using T = compute_t<S>;

  ConvRows(const ConvShape &s, bool gradient, std::unique_ptr<Kernel> general)
      : shape_(s),
        gradient_(gradient),
        source_(conv_source(s, gradient)),
        lattices_(conv_lattices(s, gradient)),
        general_(std::move(general)) {
    out_channels_ = gradient ? s.channels : s.filters;
    out_ = gradient ? s.x : s.y;
    workspace_size = general_->workspace_size;
  }

  void run(void *const *data, void *workspace) const override {
    const S *source = static_cast<const S *>(data[0]), *weight = static_cast<const S *>(data[1]);
    S *out = static_cast<S *>(data[2]);
    // A tap in the padding adds ±0 to a chain, which shows only where the weight isn't finite.
    if (!all_finite(weight)) return general_->run(data, workspace);
    for (const Lattice &l : lattices_)
      parallel_for(shape_.batch * shape_.groups * out_channels_ * l.y.count,
                   std::max<int64_t>(1, 4096 / std::max<int64_t>(1, l.x.count * l.taps())), [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) row(l, source, weight, out, i / l.y.count, i % l.y.count);
                   });
  }

 private:
  bool all_finite(const S *weight) const {
    for (int64_t o = 0; o < shape_.groups * shape_.filters; ++o)
      for (int64_t c = 0; c < shape_.channels; ++c)
        for (int64_t kh = 0; kh < shape_.kernel_h; ++kh)
          for (int64_t kw = 0; kw < shape_.kernel_w; ++kw) {
            const T w = widen(weight[shape_.weight(o, c, kh, kw)]);
            if (w - w != T(0)) return false;
          }
    return true;
  }

  // Row i of output channel `plane`, images and groups flattened.
  void row(const Lattice &l, const S *source, const S *weight, S *out, int64_t plane, int64_t i) const {
    const int64_t m = plane % out_channels_, group = plane / out_channels_ % shape_.groups, n = plane / (out_channels_ * shape_.groups);
    const int64_t count = l.x.count, step = l.x.step * source_.strides.at[3];
    T *chain = row_chains.get<T>(count);
    std::fill_n(chain, count, T(0));
    for (const auto &ty : l.y.taps) {
      const int64_t y = i * l.y.step + ty.at;
      if (y < 0 || y >= source_.height) continue;
      for (const auto &tx : l.x.taps) {
        const int64_t first = std::min(count, tx.at < 0 ? (-tx.at + l.x.step - 1) / l.x.step : 0);
        const int64_t end = std::max(first, std::min(count, source_.width > tx.at ? (source_.width - tx.at + l.x.step - 1) / l.x.step : 0));
        for (int64_t c = 0; c < source_.channels; ++c) {
          const int64_t filter = group * shape_.filters + (gradient_ ? c : m), channel = gradient_ ? m : c;
          const T w = widen(weight[shape_.weight(filter, channel, ty.kernel, tx.kernel)]);
          const S *from = source + source_.strides(n, group * source_.channels + c, y, tx.at);
          if (step == 1) {
            for (int64_t j = first; j < end; ++j) chain[j] = fused(T(widen(from[j])), w, chain[j]);
          } else {
            for (int64_t j = first; j < end; ++j) chain[j] = fused(T(widen(from[j * step])), w, chain[j]);
          }
        }
      }
    }
    S *to = out + out_(n, group * out_channels_ + m, l.y.out_first + i * l.y.out_step, l.x.out_first);
    for (int64_t j = 0; j < count; ++j) to[j * l.x.out_step * out_.at[3]] = narrow<S>(chain[j] + T(0));
  }

  ConvShape shape_;
  bool gradient_;
  int64_t out_channels_;  // of a group
  ConvSource source_;
  Strides4 out_;
  std::vector<Lattice> lattices_;
  std::unique_ptr<Kernel> general_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, float, std::unique_ptr<Kernel> general) {
  return std::make_unique<ConvRows<float>>(s, gradient, std::move(general));
}
std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, double, std::unique_ptr<Kernel> general) {
  return std::make_unique<ConvRows<double>>(s, gradient, std::move(general));
}
std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, f16, std::unique_ptr<Kernel> general) {
  return std::make_unique<ConvRows<f16>>(s, gradient, std::move(general));
}
std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, bf16, std::unique_ptr<Kernel> general) {
  return std::make_unique<ConvRows<bf16>>(s, gradient, std::move(general));
}

}  // namespace cpu
