// batch_norm, batch_norm_eval and batch_norm_backward: docs/numerics.md, section 6. One channel is one task: its planes go through cache
// once more for each pass, and through memory once.
#include "norm_rows.hpp"

namespace cpu {
namespace {

using namespace reduce;

// y = ((x − mean)·rstd)·w + b; the affine steps only where they are.
template <class C>
__attribute__((noinline)) void normalize(const C *x, C mean, C rstd, const C *w, const C *b, int64_t n, C *y) {
  const C weight = w ? *w : C(1), bias = b ? *b : C(0);
  if (w && b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * rstd) * weight + bias;
  } else if (w) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * rstd) * weight;
  } else if (b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd + bias;
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd;
  }
}

// y = ((g − bias_mean) − x̂·weight_mean)·scale.
template <class C>
__attribute__((noinline)) void input_gradients(const C *g, const C *x, C mean, C rstd, C bias_mean, C weight_mean, C scale, int64_t n,
                                               C *y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = ((g[i] - bias_mean) - ((x[i] - mean) * rstd) * weight_mean) * scale;
}

// The axes of a channel, and from channel to channel.
struct Channels {
  Side inside;
  int64_t step;
  Channels() = default;
  explicit Channels(const hal_operand &o) : inside(o, 0, int(o.rank), 1), step(o.strides[1]) {}
};

// f(begin, m): pieces of [0, n), of at most kBlock, that follow the runs of x if these are long enough to be worth it.
template <class F>
void pieces(int64_t n, int64_t run, F &&f) {
  if (run < 16) run = n;
  for (int64_t i = 0; i < n;) {
    const int64_t m = std::min({kBlock, n - i, run - i % run});
    f(i, m);
    i += m;
  }
}

template <class S>
struct PerChannel {  // a (C,) operand
  S *data;
  int64_t step;
  PerChannel(void *p, const hal_operand &o) : data(static_cast<S *>(p)), step(is_absent(o) ? 0 : o.strides[0]) {}
  explicit operator bool() const { return data != nullptr; }
  S &operator[](int64_t c) const { return data[c * step]; }
};

template <int D>
class BatchNorm final : public Kernel {
  using E = Element<D>;
  using S = typename E::S;
  using C = typename E::C;

 public:
  // eval: x, mean, rstd, weight, bias -> out; else x, weight, bias, eps -> out, mean, var, rstd.
  BatchNorm(const hal_op &op, bool eval)
      : eval_(eval), x_(op.operands[0]), out_(op.operands[eval ? 5 : 4]), channels_(op.operands[0].dims[1]) {
    std::copy(op.operands, op.operands + op.num_inputs + op.num_outputs, operands_);
    n_ = x_.inside.axes.total();
  }

  void run(void *const *data, void *) const override {
    const S *x = static_cast<const S *>(data[0]);
    S *out = static_cast<S *>(data[eval_ ? 5 : 4]);
    const int iw = eval_ ? 3 : 1, im = eval_ ? 1 : 5, ir = eval_ ? 2 : 7;
    const PerChannel<S> weight(data[iw], operands_[iw]), bias(data[iw + 1], operands_[iw + 1]);
    const PerChannel<C> mean(data[im], operands_[im]), rstd(data[ir], operands_[ir]), var(data[eval_ ? im : 6], operands_[eval_ ? im : 6]);
    const C eps = eval_ ? C(0) : *static_cast<const C *>(data[3]);
    parallel_for(channels_, grain(n_ * 4), [&](int64_t begin, int64_t end) {
      alignas(64) C a[kBlock], t[kBlock];
      for (int64_t c = begin; c < end; ++c) {
        const S *from = x + c * x_.step;
        if (!eval_) {
          const C m = sum_blocks<C>(n_, [&](int64_t i, int64_t k) { return block_sum(fetch<D>(from, x_.inside, i, k, a), k); }) / C(n_);
          const C v = sum_blocks<C>(n_,
                                    [&](int64_t i, int64_t k) {
                                      squared_deviations(fetch<D>(from, x_.inside, i, k, a), m, k, t);
                                      return block_sum(t, k);
                                    }) /
                      C(n_);
          mean[c] = m;
          var[c] = v;
          rstd[c] = C(1) / square_root(v + eps);
        }
        const C m = mean[c], r = rstd[c];
        C w = 0, b = 0;
        if (weight) w = E::load(weight[c]);
        if (bias) b = E::load(bias[c]);
        S *const place = out + c * out_.step;
        pieces(n_, std::min(x_.inside.run(), out_.inside.run()), [&](int64_t i, int64_t k) {
          C *y = target<D>(place, out_.inside, i, k, t);
          normalize(fetch<D>(from, x_.inside, i, k, a), m, r, weight ? &w : nullptr, bias ? &b : nullptr, k, y);
          deliver<D>(y, t, place, out_.inside, i, k);
        });
      }
    });
  }

 private:
  bool eval_;
  Channels x_, out_;
  int64_t channels_, n_;
  hal_operand operands_[8];
};

template <int D>
class BatchNormBackward final : public Kernel {
  using E = Element<D>;
  using S = typename E::S;
  using C = typename E::C;

 public:
  // grad, x, mean, rstd, weight -> out, weight_grad, bias_grad
  explicit BatchNormBackward(const hal_op &op)
      : g_(op.operands[0]), x_(op.operands[1]), out_(op.operands[5]), channels_(op.operands[0].dims[1]) {
    std::copy(op.operands, op.operands + 8, operands_);
    n_ = x_.inside.axes.total();
  }

  void run(void *const *data, void *) const override {
    const S *g = static_cast<const S *>(data[0]), *x = static_cast<const S *>(data[1]);
    const PerChannel<C> mean(data[2], operands_[2]), rstd(data[3], operands_[3]);
    const PerChannel<S> weight(data[4], operands_[4]), weight_grad(data[6], operands_[6]), bias_grad(data[7], operands_[7]);
    S *out = static_cast<S *>(data[5]);
    parallel_for(channels_, grain(n_ * 4), [&](int64_t begin, int64_t end) {
      alignas(64) C a[kBlock], b[kBlock], t[kBlock];
      for (int64_t c = begin; c < end; ++c) {
        const S *gc = g + c * g_.step, *xc = x + c * x_.step;
        const C m = mean[c], r = rstd[c];
        C sw = 0;
        const C sb = sums(gc, xc, m, r, a, b, t, &sw);
        weight_grad[c] = E::store(sw);
        bias_grad[c] = E::store(sb);
        const C bias_mean = sb / C(n_), weight_mean = sw / C(n_), scale = weight ? r * E::load(weight[c]) : r;
        S *const place = out + c * out_.step;
        pieces(n_, std::min({x_.inside.run(), g_.inside.run(), out_.inside.run()}), [&](int64_t i, int64_t k) {
          C *y = target<D>(place, out_.inside, i, k, t);
          input_gradients(fetch<D>(gc, g_.inside, i, k, a), fetch<D>(xc, x_.inside, i, k, b), m, r, bias_mean, weight_mean, scale, k, y);
          deliver<D>(y, t, place, out_.inside, i, k);
        });
      }
    });
  }

 private:
  // Σ g, and in *sw Σ g·x̂.
  C sums(const S *gc, const S *xc, C m, C r, C *a, C *b, C *t, C *sw) const {
    SumStream<C> weight_stream, bias_stream;
    C sb = 0;
    for (int64_t i = 0; i < n_; i += kBlock) {
      const int64_t k = std::min(kBlock, n_ - i);
      const C *gi = fetch<D>(gc, g_.inside, i, k, a);
      projections(gi, fetch<D>(xc, x_.inside, i, k, b), m, r, k, t);
      sb = block_sum(gi, k);
      *sw = block_sum(t, k);
      if (n_ <= kBlock) return sb;
      bias_stream.push(sb);
      weight_stream.push(*sw);
    }
    if (n_ == 0) return sb;
    *sw = weight_stream.result();
    return bias_stream.result();
  }

  Channels g_, x_, out_;
  int64_t channels_, n_;
  hal_operand operands_[8];
};

}  // namespace

void add_batch_norm(KernelRows &rows) {
  rows.push_back({"batch_norm", kFloatBits, [](const hal_op &op) {
                    require_operands(op, 4, 4);
                    require_same_shape(op, op.operands[0], op.operands[4]);
                    return for_float(op.operands[0].dtype, [&](auto d) -> std::unique_ptr<Kernel> {
                      return std::make_unique<BatchNorm<decltype(d)::value>>(op, false);
                    });
                  }});
  rows.push_back({"batch_norm_eval", kFloatBits, [](const hal_op &op) {
                    require_operands(op, 5, 1);
                    require_same_shape(op, op.operands[0], op.operands[5]);
                    return for_float(op.operands[0].dtype, [&](auto d) -> std::unique_ptr<Kernel> {
                      return std::make_unique<BatchNorm<decltype(d)::value>>(op, true);
                    });
                  }});
  rows.push_back({"batch_norm_backward", kFloatBits, [](const hal_op &op) {
                    require_operands(op, 5, 3);
                    require_same_shape(op, op.operands[0], op.operands[1]);
                    require_same_shape(op, op.operands[0], op.operands[5]);
                    return for_float(op.operands[0].dtype, [&](auto d) -> std::unique_ptr<Kernel> {
                      return std::make_unique<BatchNormBackward<decltype(d)::value>>(op);
                    });
                  }});
}

}  // namespace cpu
