// layer_norm, layer_norm_backward and layer_norm_param_grad: docs/numerics.md, section 6. A row of at most 4096 values is read once; the
// parameters' gradients go by tiles of columns, whose rows stream by.
#include "norm_rows.hpp"

namespace cpu {
namespace {

using namespace reduce;

constexpr int64_t kTile = 64;  // columns at once

template <class C>
__attribute__((noinline)) void normalize(const C *x, C mean, C rstd, const C *w, const C *b, int64_t n, C *y) {
  if (w && b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * rstd) * w[i] + b[i];
  } else if (w) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * rstd) * w[i];
  } else if (b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd + b[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd;
  }
}
template <class C>
__attribute__((noinline)) void products(const C *__restrict g, const C *__restrict w, int64_t n, C *__restrict h) {
  for (int64_t i = 0; i < n; ++i) h[i] = g[i] * w[i];
}
// y = ((h − s1) − x̂·s2)·rstd.
template <class C>
__attribute__((noinline)) void input_gradients(const C *h, const C *x, C mean, C rstd, C s1, C s2, int64_t n, C *y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = ((h[i] - s1) - ((x[i] - mean) * rstd) * s2) * rstd;
}

int first_axis(const hal_op &op) {
  const int64_t rank = op.operands[0].rank, given = attributes<hal_attributes_layer_norm>(op).axis, axis = given < 0 ? given + rank : given;
  require(axis >= 0 && axis < rank, op, "axis out of range: got " + std::to_string(given) + " for " + shape_text(op.operands[0]));
  return int(axis);
}

// An operand of x's shape: from row to row, and along one.
struct Matrix {
  Side rows, row;
  Matrix() = default;
  Matrix(const hal_operand &o, int axis) : rows(o, 0, axis), row(o, axis, int(o.rank)) {}
};

// weight or bias as contiguous C: where it lies, or in `space`; NULL if absent.
template <int D>
const typename Element<D>::C *parameter(void *data, const hal_operand &o, int64_t n, typename Element<D>::C *space) {
  if (data == nullptr) return nullptr;
  return fetch<D>(static_cast<const typename Element<D>::S *>(data), Side(o, 0, int(o.rank)), 0, n, space);
}

template <int D>
class LayerNorm final : public Kernel {
  using S = typename Element<D>::S;
  using C = typename Element<D>::C;

 public:
  // x, weight, bias, eps -> out, mean, rstd
  explicit LayerNorm(const hal_op &op)
      : axis_(first_axis(op)),
        x_(op.operands[0], axis_),
        out_(op.operands[4], axis_),
        mean_(op.operands[5], 0, axis_),
        rstd_(op.operands[6], 0, axis_),
        weight_(op.operands[1]),
        bias_(op.operands[2]) {
    n_ = x_.row.axes.total();
    workspace_size = uint64_t(2 * n_) * sizeof(C);
  }

  void run(void *const *data, void *workspace) const override {
    const S *x = static_cast<const S *>(data[0]);
    C *space = static_cast<C *>(workspace);
    const C *w = parameter<D>(data[1], weight_, n_, space), *b = parameter<D>(data[2], bias_, n_, space + n_);
    const C eps = *static_cast<const C *>(data[3]);
    S *out = static_cast<S *>(data[4]);
    C *mean = static_cast<C *>(data[5]), *rstd = static_cast<C *>(data[6]);
    parallel_for(x_.rows.axes.total(), grain(n_ * 4), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        row(x + x_.rows.at(r), w, b, eps, out + out_.rows.at(r), mean + mean_.at(r), rstd + rstd_.at(r));
    });
  }

 private:
  void row(const S *x, const C *w, const C *b, C eps, S *out, C *mean, C *rstd) const {
    alignas(64) C buffer[kBlock], t[kBlock];
    const C *whole = n_ <= kBlock ? fetch<D>(x, x_.row, 0, n_, buffer) : nullptr;
    const auto values = [&](int64_t i, int64_t m) { return whole ? whole : fetch<D>(x, x_.row, i, m, buffer); };
    const C mu = sum_blocks<C>(n_, [&](int64_t i, int64_t m) { return block_sum(values(i, m), m); }) / C(n_);
    const C var = sum_blocks<C>(n_,
                                [&](int64_t i, int64_t m) {
                                  squared_deviations(values(i, m), mu, m, t);
                                  return block_sum(t, m);
                                }) /
                  C(n_);
    const C scale = C(1) / square_root(var + eps);
    *mean = mu;
    *rstd = scale;
    for (int64_t i = 0; i < n_; i += kBlock) {
      const int64_t m = std::min(kBlock, n_ - i);
      C *y = target<D>(out, out_.row, i, m, t);
      normalize(values(i, m), mu, scale, w ? w + i : nullptr, b ? b + i : nullptr, m, y);
      deliver<D>(y, t, out, out_.row, i, m);
    }
  }

  int axis_;
  Matrix x_, out_;
  Side mean_, rstd_;
  hal_operand weight_, bias_;
  int64_t n_;
};

template <int D>
class LayerNormBackward final : public Kernel {
  using S = typename Element<D>::S;
  using C = typename Element<D>::C;

 public:
  // grad, x, mean, rstd, weight -> out
  explicit LayerNormBackward(const hal_op &op)
      : axis_(first_axis(op)),
        g_(op.operands[0], axis_),
        x_(op.operands[1], axis_),
        out_(op.operands[5], axis_),
        mean_(op.operands[2], 0, axis_),
        rstd_(op.operands[3], 0, axis_),
        weight_(op.operands[4]) {
    n_ = x_.row.axes.total();
    workspace_size = uint64_t(n_) * sizeof(C);
  }

  void run(void *const *data, void *workspace) const override {
    const S *g = static_cast<const S *>(data[0]), *x = static_cast<const S *>(data[1]);
    const C *mean = static_cast<const C *>(data[2]), *rstd = static_cast<const C *>(data[3]);
    const C *w = parameter<D>(data[4], weight_, n_, static_cast<C *>(workspace));
    S *out = static_cast<S *>(data[5]);
    parallel_for(x_.rows.axes.total(), grain(n_ * 4), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        row(g + g_.rows.at(r), x + x_.rows.at(r), mean[mean_.at(r)], rstd[rstd_.at(r)], w, out + out_.rows.at(r));
    });
  }

 private:
  void row(const S *g, const S *x, C mean, C rstd, const C *w, S *out) const {
    alignas(64) C gb[kBlock], xb[kBlock], hb[kBlock], t[kBlock];
    const C *h = nullptr, *a = nullptr;
    const auto load = [&](int64_t i, int64_t m) {
      h = fetch<D>(g, g_.row, i, m, gb);
      a = fetch<D>(x, x_.row, i, m, xb);
      if (w) {
        products(h, w + i, m, hb);
        h = hb;
      }
    };
    C s1 = 0, s2 = 0;
    SumStream<C> first, second;
    for (int64_t i = 0; i < n_; i += kBlock) {
      const int64_t m = std::min(kBlock, n_ - i);
      load(i, m);
      projections(h, a, mean, rstd, m, t);
      s1 = block_sum(h, m);
      s2 = block_sum(t, m);
      if (n_ <= kBlock) break;
      first.push(s1);
      second.push(s2);
    }
    if (n_ > kBlock) {
      s1 = first.result();
      s2 = second.result();
    }
    s1 = s1 / C(n_);
    s2 = s2 / C(n_);
    for (int64_t i = 0; i < n_; i += kBlock) {
      const int64_t m = std::min(kBlock, n_ - i);
      if (n_ > kBlock) load(i, m);
      C *y = target<D>(out, out_.row, i, m, t);
      input_gradients(h, a, mean, rstd, s1, s2, m, y);
      deliver<D>(y, t, out, out_.row, i, m);
    }
  }

  int axis_;
  Matrix g_, x_, out_;
  Side mean_, rstd_;
  hal_operand weight_;
  int64_t n_;
};

// Σ over the rows of g·x̂ and of g, per column.
template <int D>
class LayerNormParamGrad final : public Kernel {
  using S = typename Element<D>::S;
  using C = typename Element<D>::C;

 public:
  // grad, x, mean, rstd -> weight_grad, bias_grad
  explicit LayerNormParamGrad(const hal_op &op)
      : axis_(first_axis(op)),
        g_(op.operands[0], axis_),
        x_(op.operands[1], axis_),
        mean_(op.operands[2], 0, axis_),
        rstd_(op.operands[3], 0, axis_),
        weight_grad_(op.operands[4], 0, int(op.operands[4].rank)),
        bias_grad_(op.operands[5], 0, int(op.operands[5].rank)) {
    n_ = x_.row.axes.total();
    rows_ = x_.rows.axes.total();
    blocks_ = std::max<int64_t>(1, (rows_ + kBlock - 1) / kBlock);
    if (blocks_ > 1) workspace_size = uint64_t(2 * blocks_ * n_) * sizeof(C);
  }

  void run(void *const *data, void *workspace) const override {
    const S *g = static_cast<const S *>(data[0]), *x = static_cast<const S *>(data[1]);
    const C *mean = static_cast<const C *>(data[2]), *rstd = static_cast<const C *>(data[3]);
    S *weight_grad = static_cast<S *>(data[4]), *bias_grad = static_cast<S *>(data[5]);
    C *partial = static_cast<C *>(workspace);
    const int64_t tiles = (n_ + kTile - 1) / kTile;
    parallel_for(tiles * blocks_, grain(std::min(rows_, kBlock) * kTile * 2), [&](int64_t begin, int64_t end) {
      alignas(64) C weight_lanes[kLanes * kTile], bias_lanes[kLanes * kTile];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % tiles * kTile, b = i / tiles, width = std::min(kTile, n_ - c);
        block(g, x, mean, rstd, b, c, width, weight_lanes, bias_lanes);
        if (blocks_ == 1) {
          scatter<D>(weight_lanes, c, width, weight_grad, weight_grad_.axes);
          scatter<D>(bias_lanes, c, width, bias_grad, bias_grad_.axes);
        } else {
          std::copy_n(weight_lanes, width, partial + b * n_ + c);
          std::copy_n(bias_lanes, width, partial + (blocks_ + b) * n_ + c);
        }
      }
    });
    if (blocks_ == 1) return;
    parallel_for(n_, grain(blocks_ * 2), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        SumStream<C> weight_sum, bias_sum;
        for (int64_t b = 0; b < blocks_; ++b) {
          weight_sum.push(partial[b * n_ + k]);
          bias_sum.push(partial[(blocks_ + b) * n_ + k]);
        }
        weight_grad[weight_grad_.at(k)] = Element<D>::store(weight_sum.result());
        bias_grad[bias_grad_.at(k)] = Element<D>::store(bias_sum.result());
      }
    });
  }

 private:
  static __attribute__((noinline)) void add_row(const C *__restrict g, const C *__restrict x, C mean, C rstd, int64_t width,
                                                C *__restrict weight_lane, C *__restrict bias_lane) {
    for (int64_t k = 0; k < width; ++k) {
      weight_lane[k] += g[k] * ((x[k] - mean) * rstd);
      bias_lane[k] += g[k];
    }
  }
  static void tree_rows(C *lanes, int64_t used, int64_t width) {
    for (int64_t s = kLanes / 2; s >= 1; s /= 2)
      for (int64_t j = 0; j < s && j + s < used; ++j) {
        C *__restrict to = lanes + j * kTile;
        const C *__restrict from = lanes + (j + s) * kTile;
        for (int64_t k = 0; k < width; ++k) to[k] += from[k];
      }
  }

  // Rows of block b, columns [c, c + width): the block's results in the first row of the lanes.
  void block(const S *g, const S *x, const C *mean, const C *rstd, int64_t b, int64_t c, int64_t width, C *weight_lanes,
             C *bias_lanes) const {
    alignas(64) C gb[kTile], xb[kTile];
    const int64_t begin = b * kBlock, m = std::min(kBlock, rows_ - begin), used = std::min<int64_t>(m, kLanes);
    std::fill_n(weight_lanes, std::max<int64_t>(used, 1) * kTile, C(0));
    std::fill_n(bias_lanes, std::max<int64_t>(used, 1) * kTile, C(0));
    for (int64_t i = 0; i < m; ++i) {
      const int64_t r = begin + i, lane = i % kLanes * kTile;
      const C *gr = fetch<D>(g + g_.rows.at(r), g_.row, c, width, gb), *xr = fetch<D>(x + x_.rows.at(r), x_.row, c, width, xb);
      add_row(gr, xr, mean[mean_.at(r)], rstd[rstd_.at(r)], width, weight_lanes + lane, bias_lanes + lane);
    }
    tree_rows(weight_lanes, used, width);
    tree_rows(bias_lanes, used, width);
  }

  int axis_;
  Matrix g_, x_;
  Side mean_, rstd_, weight_grad_, bias_grad_;
  int64_t n_, rows_, blocks_;
};

template <template <int> class K>
std::unique_ptr<Kernel> make(const hal_op &op) {
  return for_float(op.operands[0].dtype, [&](auto d) -> std::unique_ptr<Kernel> { return std::make_unique<K<decltype(d)::value>>(op); });
}

}  // namespace

void add_layer_norm(KernelRows &rows) {
  rows.push_back({"layer_norm", kFloatBits, [](const hal_op &op) {
                    require_operands(op, 4, 3);
                    return make<LayerNorm>(op);
                  }});
  rows.push_back({"layer_norm_backward", kFloatBits, [](const hal_op &op) {
                    require_operands(op, 5, 1);
                    require_same_shape(op, op.operands[0], op.operands[1]);
                    return make<LayerNormBackward>(op);
                  }});
  rows.push_back({"layer_norm_param_grad", kFloatBits, [](const hal_op &op) {
                    require_operands(op, 4, 2);
                    require_same_shape(op, op.operands[0], op.operands[1]);
                    return make<LayerNormParamGrad>(op);
                  }});
}

}  // namespace cpu
