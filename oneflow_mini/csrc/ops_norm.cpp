// layer_norm and batch_norm. The fused ops give values and first gradients; under create_graph a gradient is the same formula in
// differentiable ops, in the compute type, with the same bits.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace id = hal::op;

namespace {

using AxisList = std::vector<int64_t>;

void check_float(const char *op, const Tensor &x) {
  if (!hal::is_float(x.dtype()))
    throw Error(ErrorKind::Type, std::string("[") + op + "] only defined for floating point dtypes: got " + dtype_long_name(x.dtype()));
}

Tensor in_compute(const Tensor &t) { return t.defined() ? cast(t, hal::compute_type(t.dtype())) : t; }

Tensor mean_or_same(const Tensor &t, const AxisList &axes) { return axes.empty() ? t : mean(t, axes, true); }
Tensor sum_or_same(const Tensor &t, const AxisList &axes) { return axes.empty() ? t : sum(t, axes, true); }

struct Standardised {
  Tensor xhat, rstd;
};
// x̂ = (x − mean)·rstd from x in C, differentiable.
Standardised standardise(const Tensor &x, const AxisList &axes, double eps) {
  const Tensor d = sub(x, mean_or_same(x, axes));
  const Tensor rstd = div(1.0, sqrt(add(mean_or_same(mul(d, d), axes), eps)));
  return {mul(d, rstd), rstd};
}

struct LayerNormPlan {
  int64_t axis;
  AxisList inner, outer;
  Dims parameters;
  double eps;
};

hal_attributes_layer_norm layer_attributes(int64_t axis) {
  hal_attributes_layer_norm a{};
  a.struct_size = sizeof(a);
  a.axis = axis;
  return a;
}

Tensors layer_norm_composite_gradient(Node &n, const Tensor &g, const Tensor &x, const Tensor &weight, const LayerNormPlan &p) {
  Tensors gin(3);
  const hal_dtype dtype = x.dtype();
  const Tensor gc = in_compute(g);
  const Standardised s = standardise(in_compute(x), p.inner, p.eps);
  if (n.needs(0)) {
    const Tensor h = weight.defined() ? mul(gc, in_compute(weight)) : gc;
    const Tensor s1 = mean_or_same(h, p.inner), s2 = mean_or_same(mul(h, s.xhat), p.inner);
    gin[0] = cast(mul(sub(sub(h, s1), mul(s.xhat, s2)), s.rstd), dtype);
  }
  if (n.needs(1)) gin[1] = cast(reshape(sum_or_same(mul(gc, s.xhat), p.outer), p.parameters), dtype);
  if (n.needs(2)) gin[2] = cast(reshape(sum_or_same(gc, p.outer), p.parameters), dtype);
  return gin;
}

Tensor parameter_of(const char *op, const char *name, const Tensor &t, const Dims &sizes, hal_dtype dtype) {
  if (!t.defined()) return t;
  if (t.sizes() != sizes)
    throw Error(ErrorKind::Value,
                std::string("[") + op + "] " + name + ": got shape " + to_string(t.sizes()) + ", expected " + to_string(sizes));
  return cast(t, dtype);
}

}  // namespace

Tensor layer_norm(const Tensor &x, const Dims &normalized_shape, const Tensor &weight_, const Tensor &bias_, double eps) {
  check_float("layer_norm", x);
  same_device("layer_norm", {&x, &weight_, &bias_});
  const int64_t inner = static_cast<int64_t>(normalized_shape.size()), axis = x.dim() - inner;
  if (inner == 0 || axis < 0 || Dims(x.sizes().data() + axis, normalized_shape.size()) != normalized_shape)
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[layer_norm] input: got shape " + to_string(x.sizes()) +
                                                ", expected one that ends with normalized_shape=" + to_string(normalized_shape));
  LayerNormPlan plan{axis, {}, {}, normalized_shape, eps};
  Dims kept = x.sizes();
  for (int64_t d = 0; d < x.dim(); ++d) {
    (d < axis ? plan.outer : plan.inner).push_back(d);
    if (d >= axis) kept[d] = 1;
  }
  const Tensor weight = parameter_of("layer_norm", "weight", weight_, normalized_shape, x.dtype());
  const Tensor bias = parameter_of("layer_norm", "bias", bias_, normalized_shape, x.dtype());
  const hal_dtype c = hal::compute_type(x.dtype());
  Tensor out = empty(x.sizes(), x.dtype(), x.device()), mu = empty(kept, c, x.device()), rstd = empty(kept, c, x.device());
  const auto attributes = layer_attributes(axis);
  if (mu.numel()) launch(id::layer_norm, {x, weight, bias, Arg::immediate("layer_norm", eps, c)}, {&out, &mu, &rstd}, &attributes);
  if (needs_grad(x, weight, bias))
    record(out, "LayerNormBackward", {&x, &weight, &bias},
           [plan, sx = Saved(x), sw = weight.defined() ? Saved(weight) : Saved(), mu, rstd](Node &n, const Tensor &g, Tensors &gin) {
             const Tensor x = sx.get(n), w = sw ? sw.get(n) : Tensor();
             if (grad_enabled()) {
               gin = layer_norm_composite_gradient(n, g, x, w, plan);
               return;
             }
             const auto attributes = layer_attributes(plan.axis);
             if (n.needs(0)) {
               gin[0] = empty(x.sizes(), x.dtype(), x.device());
               if (x.numel()) launch(id::layer_norm_backward, {g, x, mu, rstd, w}, {&gin[0]}, &attributes);
             }
             if (n.needs(1) || n.needs(2)) {
               Tensor gw = empty(plan.parameters, x.dtype(), x.device()), gb = empty(plan.parameters, x.dtype(), x.device());
               if (gw.numel()) launch(id::layer_norm_param_grad, {g, x, mu, rstd}, {&gw, &gb}, &attributes);
               if (n.needs(1)) gin[1] = gw;
               if (n.needs(2)) gin[2] = gb;
             }
           });
  return out;
}

namespace {

struct BatchNormPlan {
  AxisList axes;   // all but the channels'
  Dims broadcast;  // (1, C, 1, …)
  double eps;
};

BatchNormPlan batch_plan(const Tensor &x, double eps) {
  BatchNormPlan p{{}, {}, eps};
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) p.axes.push_back(d);
    p.broadcast.push_back(d == 1 ? x.sizes()[1] : 1);
  }
  return p;
}

// running = (1 − momentum)·running + momentum·batch, in running's dtype.
void update_running(const Tensor &running, const Tensor &batch, double momentum, double factor) {
  inplace_binary(binary_op(id::mul), running, Value(1 - momentum));
  inplace_binary(binary_op(id::add), running, cast(mul(batch, factor), running.dtype()));
}

Tensor batch_norm_training(const Tensor &x, const Tensor &running_mean, const Tensor &running_var, const Tensor &weight, const Tensor &bias,
                           double momentum, double eps) {
  const int64_t channels = x.sizes()[1], count = channels ? x.numel() / channels : 0;
  const hal_dtype c = hal::compute_type(x.dtype());
  Tensor out = empty(x.sizes(), x.dtype(), x.device());
  Tensor mu = empty({channels}, c, x.device()), var = empty({channels}, c, x.device()), rstd = empty({channels}, c, x.device());
  if (channels) launch(id::batch_norm, {x, weight, bias, Arg::immediate("batch_norm", eps, c)}, {&out, &mu, &var, &rstd});
  if (running_mean.defined() || running_var.defined()) {
    GradMode off(false);
    if (running_mean.defined()) update_running(running_mean, mu, momentum, momentum);
    if (running_var.defined()) update_running(running_var, var, momentum, momentum * (double(count) / double(count - 1)));
  }
  if (needs_grad(x, weight, bias))
    record(out, "BatchNormBackward", {&x, &weight, &bias},
           [plan = batch_plan(x, eps), sx = Saved(x), sw = weight.defined() ? Saved(weight) : Saved(), mu, rstd](Node &n, const Tensor &g,
                                                                                                                 Tensors &gin) {
             const Tensor x = sx.get(n), w = sw ? sw.get(n) : Tensor();
             const Dims channels{x.sizes()[1]};
             if (!grad_enabled()) {
               Tensor gx = empty(x.sizes(), x.dtype(), x.device()), gw = empty(channels, x.dtype(), x.device()),
                      gb = empty(channels, x.dtype(), x.device());
               if (gw.numel()) launch(id::batch_norm_backward, {g, x, mu, rstd, w}, {&gx, &gw, &gb});
               if (n.needs(0)) gin[0] = gx;
               if (n.needs(1)) gin[1] = gw;
               if (n.needs(2)) gin[2] = gb;
               return;
             }
             const double count = x.numel() && channels[0] ? double(x.numel() / channels[0]) : 0;
             const Tensor gc = in_compute(g);
             const Standardised s = standardise(in_compute(x), plan.axes, plan.eps);
             const Tensor sb = sum(gc, plan.axes, true), sg = sum(mul(gc, s.xhat), plan.axes, true);
             if (n.needs(0)) {
               const Tensor scale = w.defined() ? mul(s.rstd, view(contiguous(in_compute(w)), plan.broadcast)) : s.rstd;
               gin[0] = cast(mul(sub(sub(gc, div(sb, count)), mul(s.xhat, div(sg, count))), scale), x.dtype());
             }
             if (n.needs(1)) gin[1] = cast(reshape(sg, channels), x.dtype());
             if (n.needs(2)) gin[2] = cast(reshape(sb, channels), x.dtype());
           });
  return out;
}

Tensor batch_norm_eval(const Tensor &x, const Tensor &running_mean, const Tensor &running_var, const Tensor &weight, const Tensor &bias,
                       double eps) {
  const hal_dtype c = hal::compute_type(x.dtype());
  Tensor mu, rstd, out = empty(x.sizes(), x.dtype(), x.device());
  {
    GradMode off(false);
    mu = cast(running_mean, c);
    if (mu->storage == running_mean->storage) mu = clone(mu);  // the buffers change in place before the backward pass may come
    rstd = div(1.0, sqrt(add(cast(running_var, c), eps)));
  }
  if (out.numel()) launch(id::batch_norm_eval, {x, mu, rstd, weight, bias}, {&out});
  if (needs_grad(x, weight, bias))
    record(out, "BatchNormBackward", {&x, &weight, &bias},
           [plan = batch_plan(x, eps), sx = Saved(x), sw = weight.defined() ? Saved(weight) : Saved(), mu, rstd](Node &n, const Tensor &g,
                                                                                                                 Tensors &gin) {
             const Tensor x = sx.get(n), gc = in_compute(g), r = view(rstd, plan.broadcast);
             if (n.needs(0)) gin[0] = cast(mul(gc, sw ? mul(r, view(contiguous(in_compute(sw.get(n))), plan.broadcast)) : r), x.dtype());
             if (n.needs(1)) {
               const Tensor xhat = mul(sub(in_compute(x), view(mu, plan.broadcast)), r);
               gin[1] = cast(sum(mul(gc, xhat), plan.axes), x.dtype());
             }
             if (n.needs(2)) gin[2] = cast(sum(gc, plan.axes), x.dtype());
           });
  return out;
}

}  // namespace

Tensor batch_norm(const Tensor &x, const Tensor &running_mean, const Tensor &running_var, const Tensor &weight_, const Tensor &bias_,
                  bool training, double momentum, double eps) {
  check_float("batch_norm", x);
  same_device("batch_norm", {&x, &running_mean, &running_var, &weight_, &bias_});
  if (x.dim() < 2)
    throw Error(ErrorKind::Value, "[batch_norm] input: got " + std::to_string(x.dim()) + "D input, expected at least 2D (N, C, …)");
  const Dims channels{x.sizes()[1]};
  const Tensor weight = parameter_of("batch_norm", "weight", weight_, channels, x.dtype());
  const Tensor bias = parameter_of("batch_norm", "bias", bias_, channels, x.dtype());
  for (const Tensor *t : {&running_mean, &running_var})
    if (t->defined() && t->sizes() != channels)
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[batch_norm] running statistics: got shape " + to_string(t->sizes()) + ", expected " + to_string(channels));
  if (!training) {
    if (!running_mean.defined() || !running_var.defined())
      throw Error(HAL_ERROR_INVALID_ARGUMENT, "[batch_norm] Expected running_mean and running_var to be defined when training=False");
    return batch_norm_eval(x, running_mean, running_var, weight, bias, eps);
  }
  if (channels[0] && x.numel() / channels[0] <= 1)
    throw Error(ErrorKind::Value, "Expected more than 1 value per channel when training, got input size " + to_string(x.sizes()));
  return batch_norm_training(x, running_mean, running_var, weight, bias, momentum, eps);
}

}  // namespace flow
