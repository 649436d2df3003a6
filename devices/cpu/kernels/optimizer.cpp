// sgd_step, adam_step: docs/numerics.md, section 11. The step is one loop on contiguous values of the compute type; other dtypes and
// strides go through buffers in L1. Outputs may be the inputs.
#include "reduce.hpp"

namespace cpu {
namespace {

using namespace reduce;

constexpr int64_t kChunk = 1024;  // elements in the buffers at once
constexpr int kMost = 5;          // tensors in or out of one op

template <class C>
CPU_INLINE C larger(C a, C b) {
  if constexpr (std::is_same_v<C, float>)
    return hal_maximum_f32(a, b);
  else
    return hal_maximum_f64(a, b);
}
template <class C>
CPU_INLINE C root(C a) {
  if constexpr (std::is_same_v<C, float>)
    return HAL_SQRT_F32(a);
  else
    return HAL_SQRT_F64(a);
}
template <class C>
C scalar(const void *data) {
  return *static_cast<const C *>(data);
}

// in, out: contiguous values of the tensors in the table's order; absent inputs nullptr, absent outputs too. An output may be its input.
template <class C>
struct Sgd {
  static constexpr uint32_t kInputs = 7, kTensors = 3, kOutputs = 2;
  bool nesterov, maximize, first_step, has_buffer;
  C lr, momentum, rest, weight_decay;

  static void check(const hal_op &op) {
    const bool in = !is_absent(op.operands[2]), out = !is_absent(op.operands[8]);
    const auto a = attributes<hal_attributes_sgd_step>(op);
    require(!out || in || a.first_step, op, "momentum_buffer: got none, expected one after the first step");
    require(!in || out, op, "new_momentum_buffer: got none, expected one beside momentum_buffer");
  }
  Sgd(const hal_attributes_sgd_step &a, bool buffer, void *const *data)
      : nesterov(a.nesterov != 0),
        maximize(a.maximize != 0),
        first_step(a.first_step != 0),
        has_buffer(buffer),
        lr(scalar<C>(data[3])),
        momentum(scalar<C>(data[4])),
        rest(C(1) - scalar<C>(data[5])),
        weight_decay(scalar<C>(data[6])) {}

  void operator()(const C *const *in, C *const *out, int64_t n) const {
    if (!has_buffer)
      loop<false>(in[0], in[1], in[0], out[0], out[0], n);
    else
      loop<true>(in[0], in[1], in[2] != nullptr ? in[2] : in[0], out[0], out[1], n);
  }
  template <bool kBuffer>
  void loop(const C *param, const C *grad, const C *buffer, C *new_param, C *new_buffer, int64_t n) const {
    const Sgd s = *this;  // a local copy: no store can change it
    const bool decays = s.weight_decay != C(0);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const C p = param[i], g = s.maximize ? -grad[i] : grad[i];
      C d = decays ? g + s.weight_decay * p : g;
      if constexpr (kBuffer) {
        const C b = s.first_step ? d : s.momentum * buffer[i] + s.rest * d;
        d = s.nesterov ? d + s.momentum * b : b;
        new_buffer[i] = b;
      }
      new_param[i] = p - s.lr * d;
    }
  }
};

template <class C>
struct Adam {
  static constexpr uint32_t kInputs = 12, kTensors = 5, kOutputs = 4;
  bool decoupled, amsgrad, maximize;
  C beta1, beta2, rest1, rest2, eps, weight_decay, keep, step, root2;

  static void check(const hal_op &op) {
    const auto a = attributes<hal_attributes_adam_step>(op);
    const bool in = !is_absent(op.operands[4]), out = !is_absent(op.operands[15]);
    require((a.amsgrad != 0) == in && in == out, op,
            std::string("max_exp_avg_sq: got ") + (in ? "one" : "none") + ", new_max_exp_avg_sq: got " + (out ? "one" : "none") +
                ", expected both with amsgrad, else none");
  }
  Adam(const hal_attributes_adam_step &a, bool, void *const *data)
      : decoupled(a.decoupled_weight_decay != 0),
        amsgrad(a.amsgrad != 0),
        maximize(a.maximize != 0),
        beta1(scalar<C>(data[6])),
        beta2(scalar<C>(data[7])),
        rest1(C(1) - beta1),
        rest2(C(1) - beta2),
        eps(scalar<C>(data[8])),
        weight_decay(scalar<C>(data[9])),
        keep(C(1) - scalar<C>(data[5]) * weight_decay),
        step(scalar<C>(data[5]) / scalar<C>(data[10])),
        root2(scalar<C>(data[11])) {}

  void operator()(const C *const *in, C *const *out, int64_t n) const {
    if (amsgrad)
      loop<true>(in[0], in[1], in[2], in[3], in[4], out[0], out[1], out[2], out[3], n);
    else
      loop<false>(in[0], in[1], in[2], in[3], in[0], out[0], out[1], out[2], out[0], n);
  }
  template <bool kAmsgrad>
  void loop(const C *param, const C *grad, const C *avg, const C *avg_sq, const C *max_sq, C *new_param, C *new_avg, C *new_avg_sq,
            C *new_max_sq, int64_t n) const {
    const Adam s = *this;
    const bool couples = s.weight_decay != C(0) && !s.decoupled, decouples = s.weight_decay != C(0) && s.decoupled;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const C p0 = param[i];
      C g = s.maximize ? -grad[i] : grad[i];
      g = couples ? g + s.weight_decay * p0 : g;
      const C p = decouples ? p0 * s.keep : p0;
      const C m = s.beta1 * avg[i] + s.rest1 * g;
      const C v = s.beta2 * avg_sq[i] + (s.rest2 * g) * g;
      C top = v;
      if constexpr (kAmsgrad) {
        top = larger(max_sq[i], v);
        new_max_sq[i] = top;
      }
      const C denom = root(top) / s.root2 + s.eps;
      new_avg[i] = m;
      new_avg_sq[i] = v;
      new_param[i] = p - s.step * (m / denom);
    }
  }
};

// Inputs 0 ... kTensors - 1 are tensors, then scalars; then kOutputs outputs.
template <int D, template <class> class Step, class Attributes>
std::unique_ptr<Kernel> make_step(const hal_op &op) {
  using S = typename Element<D>::S;
  using C = typename Element<D>::C;
  using Rule = Step<C>;
  constexpr int kIn = Rule::kTensors, kOut = Rule::kOutputs, kFirstOut = Rule::kInputs;
  bool dense = std::is_same_v<S, C>;
  struct Layout {
    Axes axes[kIn + kOut];
    bool present[kIn + kOut];
  } layout;
  for (int k = 0; k < kIn + kOut; ++k) {
    const hal_operand &o = op.operands[k < kIn ? k : kFirstOut + k - kIn];
    layout.present[k] = !is_absent(o);
    if (!layout.present[k]) continue;
    require_same_shape(op, op.operands[0], o);
    dense = dense && is_contiguous(o);
    layout.axes[k] = axes_of({&o});
  }
  const int64_t n = element_count(op.operands[0]);
  return make_kernel([layout, dense, n, attributes = attributes<Attributes>(op)](void *const *data, void *) {
    const Rule rule(attributes, layout.present[kIn + kOut - 1], data);
    S *tensor[kIn + kOut];
    for (int k = 0; k < kIn + kOut; ++k)
      tensor[k] = layout.present[k] ? static_cast<S *>(data[k < kIn ? k : kFirstOut + k - kIn]) : nullptr;
    parallel_for(n, kGrain / 2, [&](int64_t begin, int64_t end) {
      const C *in[kMost] = {};
      C *out[kMost] = {};
      if constexpr (std::is_same_v<S, C>) {
        if (dense) {
          for (int k = 0; k < kIn; ++k) in[k] = layout.present[k] ? tensor[k] + begin : nullptr;
          for (int k = 0; k < kOut; ++k) out[k] = layout.present[kIn + k] ? tensor[kIn + k] + begin : nullptr;
          return rule(in, out, end - begin);
        }
      }
      alignas(64) C buffer[kIn + kOut][kChunk];
      for (int k = 0; k < kIn; ++k) in[k] = layout.present[k] ? buffer[k] : nullptr;
      for (int k = 0; k < kOut; ++k) out[k] = layout.present[kIn + k] ? buffer[kIn + k] : nullptr;
      for (int64_t first = begin; first < end; first += kChunk) {
        const int64_t m = std::min(kChunk, end - first);
        for (int k = 0; k < kIn; ++k)
          if (in[k] != nullptr) gather<D>(tensor[k], layout.axes[k], first, m, buffer[k]);
        rule(in, out, m);
        for (int k = 0; k < kOut; ++k)
          if (out[k] != nullptr) scatter<D>(buffer[kIn + k], first, m, tensor[kIn + k], layout.axes[kIn + k]);
      }
    });
  });
}

std::unique_ptr<Kernel> make_sgd(const hal_op &op) {
  require_operands(op, Sgd<float>::kInputs, Sgd<float>::kOutputs);
  Sgd<float>::check(op);
  return for_float(op.operands[0].dtype, [&](auto d) { return make_step<decltype(d)::value, Sgd, hal_attributes_sgd_step>(op); });
}
std::unique_ptr<Kernel> make_adam(const hal_op &op) {
  require_operands(op, Adam<float>::kInputs, Adam<float>::kOutputs);
  Adam<float>::check(op);
  return for_float(op.operands[0].dtype, [&](auto d) { return make_step<decltype(d)::value, Adam, hal_attributes_adam_step>(op); });
}

}  // namespace

void add_optimizer(KernelRows &rows) {
  rows.push_back({"sgd_step", kFloatBits, make_sgd});
  rows.push_back({"adam_step", kFloatBits, make_adam});
}

}  // namespace cpu
