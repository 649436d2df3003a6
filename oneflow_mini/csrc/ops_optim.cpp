// Optimizer steps: one launch per parameter, in place, without autograd.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace id = hal::op;

namespace {
void check_like(const char *op, const char *name, const Tensor &t, const Tensor &param) {
  if (!t.defined()) return;
  if (t.sizes() != param.sizes() || t.dtype() != param.dtype())
    throw Error(ErrorKind::Value, std::string("[") + op + "] " + name + " must be like param: got " + dtype_long_name(t.dtype()) + " " +
                                      to_string(t.sizes()) + ", expected " + dtype_long_name(param.dtype()) + " " +
                                      to_string(param.sizes()));
}
void written(const Tensor &t) {
  if (t.defined()) t.bump_version();
}
}  // namespace

void sgd_step(const Tensor &param, const Tensor &grad, const Tensor &buffer, const SgdOptions &o) {
  check_like("sgd_step", "grad", grad, param);
  check_like("sgd_step", "momentum_buffer", buffer, param);
  if (param.numel() == 0) return;
  const hal_dtype c = hal::compute_type(param.dtype());
  const auto scalar = [c](double v) { return Arg::immediate("sgd_step", v, c); };
  hal_attributes_sgd_step a{};
  a.struct_size = sizeof(a);
  a.nesterov = o.nesterov;
  a.maximize = o.maximize;
  a.first_step = o.first_step;
  launch(id::sgd_step, {param, grad, buffer, scalar(o.lr), scalar(o.momentum), scalar(o.dampening), scalar(o.weight_decay)},
         {&param, &buffer}, &a);
  written(param);
  written(buffer);
}

void adam_step(const Tensor &param, const Tensor &grad, const Tensor &exp_avg, const Tensor &exp_avg_sq, const Tensor &max_exp_avg_sq,
               const AdamOptions &o) {
  check_like("adam_step", "grad", grad, param);
  check_like("adam_step", "exp_avg", exp_avg, param);
  check_like("adam_step", "exp_avg_sq", exp_avg_sq, param);
  check_like("adam_step", "max_exp_avg_sq", max_exp_avg_sq, param);
  if (param.numel() == 0) return;
  const hal_dtype c = hal::compute_type(param.dtype());
  const auto scalar = [c](double v) { return Arg::immediate("adam_step", v, c); };
  hal_attributes_adam_step a{};
  a.struct_size = sizeof(a);
  a.decoupled_weight_decay = o.decoupled;
  a.amsgrad = o.amsgrad;
  a.maximize = o.maximize;
  launch(id::adam_step,
         {param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, scalar(o.lr), scalar(o.beta1), scalar(o.beta2), scalar(o.eps),
          scalar(o.weight_decay), scalar(o.bias_correction1), scalar(o.bias_correction2_sqrt)},
         {&param, &exp_avg, &exp_avg_sq, &max_exp_avg_sq}, &a);
  for (const Tensor *t : {&param, &exp_avg, &exp_avg_sq, &max_exp_avg_sq}) written(*t);
}

}  // namespace flow
