// Section 11, optimizer steps, on flat arrays in the compute type C; the caller rounds the results to T.
#include "reference.hpp"

namespace reference {
namespace {

template <class C>
py::tuple sgd_step(const Array<C> &param, const Array<C> &grad, const py::object &buffer, C lr, C momentum, C dampening, C weight_decay,
                   bool nesterov, bool maximize, bool first_step) {
  DefaultFloatMode mode;
  const bool has_buffer = !buffer.is_none();
  const Array<C> b = has_buffer ? buffer.cast<Array<C>>() : Array<C>(0);
  const int64_t n = param.size();
  Array<C> new_param(n), new_buffer(has_buffer ? n : 0);
  for (int64_t i = 0; i < n; ++i) {
    const C p = param.data()[i];
    const C g = maximize ? -grad.data()[i] : grad.data()[i];
    C d = g;
    if (weight_decay != 0) {
      const C decay = weight_decay * p;
      d = g + decay;
    }
    if (has_buffer) {
      C next;
      if (first_step) {
        next = d;
      } else {
        const C kept = momentum * b.data()[i];
        const C rate = C(1) - dampening;
        const C fresh = rate * d;
        next = kept + fresh;
      }
      new_buffer.mutable_data()[i] = next;
      if (nesterov) {
        const C ahead = momentum * next;
        d = d + ahead;
      } else {
        d = next;
      }
    }
    const C step = lr * d;
    new_param.mutable_data()[i] = p - step;
  }
  return py::make_tuple(new_param, new_buffer);
}

template <class C>
py::tuple adam_step(const Array<C> &param, const Array<C> &grad, const Array<C> &exp_avg, const Array<C> &exp_avg_sq,
                    const py::object &max_exp_avg_sq, C lr, C beta1, C beta2, C eps, C weight_decay, C bias_correction1,
                    C bias_correction2_sqrt, bool decoupled, bool amsgrad, bool maximize) {
  DefaultFloatMode mode;
  const int64_t n = param.size();
  const Array<C> vmax = amsgrad ? max_exp_avg_sq.cast<Array<C>>() : Array<C>(0);
  Array<C> new_param(n), new_m(n), new_v(n), new_vmax(amsgrad ? n : 0);
  for (int64_t i = 0; i < n; ++i) {
    C p = param.data()[i];
    C g = maximize ? -grad.data()[i] : grad.data()[i];
    if (weight_decay != 0) {
      if (decoupled) {
        const C decay = lr * weight_decay;
        const C factor = C(1) - decay;
        p = p * factor;
      } else {
        const C decay = weight_decay * p;
        g = g + decay;
      }
    }
    const C rate1 = C(1) - beta1, rate2 = C(1) - beta2;
    const C kept1 = beta1 * exp_avg.data()[i], fresh1 = rate1 * g;
    const C m = kept1 + fresh1;
    const C kept2 = beta2 * exp_avg_sq.data()[i], scaled = rate2 * g;
    const C fresh2 = scaled * g;
    const C v = kept2 + fresh2;
    C s = v;
    if (amsgrad) {
      s = maximum(vmax.data()[i], v);
      new_vmax.mutable_data()[i] = s;
    }
    const C root = std::sqrt(s);
    const C corrected = root / bias_correction2_sqrt;
    const C denominator = corrected + eps;
    const C rate = lr / bias_correction1;
    const C direction = m / denominator;
    const C step = rate * direction;
    new_param.mutable_data()[i] = p - step;
    new_m.mutable_data()[i] = m;
    new_v.mutable_data()[i] = v;
  }
  return py::make_tuple(new_param, new_m, new_v, new_vmax);
}

}  // namespace

void bind_optimizer(py::module_ &m) {
  m.def("sgd_step_f32", &sgd_step<float>);
  m.def("sgd_step_f64", &sgd_step<double>);
  m.def("adam_step_f32", &adam_step<float>);
  m.def("adam_step_f64", &adam_step<double>);
}

}  // namespace reference
