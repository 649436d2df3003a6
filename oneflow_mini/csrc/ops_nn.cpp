// Matrix products, convolution, pooling and losses.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace id = hal::op;

namespace {

// (…, M, K) × (…, K, N) of equal rank, batch dimensions equal.
Tensor matmul_nd(const Tensor &a, const Tensor &b) {
  const size_t r = a.sizes().size();
  Dims sizes = a.sizes();
  sizes[r - 1] = b.sizes()[r - 1];
  Tensor out = empty(sizes, a.dtype(), a.device());
  if (out.numel()) launch(id::matmul, {a, b}, {&out});
  if (needs_grad(a, b))
    record(out, "MatmulBackward", {&a, &b}, [sa = Saved(a), sb = Saved(b)](Node &n, const Tensor &g, Tensors &gin) {
      if (n.needs(0)) gin[0] = matmul_nd(g, transpose(sb.get(n), -2, -1));
      if (n.needs(1)) gin[1] = matmul_nd(transpose(sa.get(n), -2, -1), g);
    });
  return out;
}

void same_dtype(const char *op, const Tensor &a, const char *name_a, const Tensor &b, const char *name_b) {
  if (a.dtype() != b.dtype())
    throw Error(HAL_ERROR_INVALID_ARGUMENT, std::string("[") + op + "] expected " + name_a + " and " + name_b +
                                                " to have the same dtype, but got: " + dtype_long_name(a.dtype()) + " and " +
                                                dtype_long_name(b.dtype()));
}

}  // namespace

Tensor matmul(const Tensor &a, const Tensor &b) {
  same_device("matmul", {&a, &b});
  same_dtype("matmul", a, "input", b, "other");
  if (a.dim() == 0 || b.dim() == 0)
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[matmul] both arguments need to be at least 1D: got " + std::to_string(a.dim()) + "D and " +
                                                std::to_string(b.dim()) + "D");
  const bool row = a.dim() == 1, column = b.dim() == 1;
  Tensor x = row ? unsqueeze(a, 0) : a, y = column ? unsqueeze(b, 1) : b;
  if (x.sizes().back() != y.sizes()[y.dim() - 2])
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[matmul] shapes cannot be multiplied: got " + to_string(a.sizes()) + " and " +
                                                to_string(b.sizes()) + ", expected " + std::to_string(x.sizes().back()) +
                                                " rows in the second, found " + std::to_string(y.sizes()[y.dim() - 2]));
  Tensor out;
  if (y.dim() == 2 && x.dim() > 2 && x.is_contiguous()) {
    // One large product instead of a batch of small ones: the same chains.
    Dims sizes = x.sizes();
    const int64_t k = sizes.back();
    sizes[sizes.size() - 1] = y.sizes()[1];
    out = view(matmul_nd(view(x, {k ? x.numel() / k : count(Dims(sizes.data(), sizes.size() - 1)), k}), y), sizes);
  } else {
    Dims batch_a(x.sizes().data(), x.sizes().size() - 2), batch_b(y.sizes().data(), y.sizes().size() - 2);
    if (batch_a != batch_b) {
      Dims batch = broadcast_shapes("matmul", batch_a, batch_b), sx = batch, sy = batch;
      for (int i = 2; i > 0; --i) {
        sx.push_back(x.sizes()[x.dim() - i]);
        sy.push_back(y.sizes()[y.dim() - i]);
      }
      x = expand(x, sx);
      y = expand(y, sy);
    }
    out = matmul_nd(x, y);
  }
  if (row) out = squeeze(out, std::vector<int64_t>{out.dim() - (column ? 2 : 2)});
  if (column) out = squeeze(out, std::vector<int64_t>{out.dim() - 1});
  return out;
}

Tensor linear(const Tensor &x, const Tensor &weight, const Tensor &bias) {
  if (weight.dim() != 2) throw Error(ErrorKind::Value, "[linear] weight must have 2 dimensions: got shape " + to_string(weight.sizes()));
  if (x.dim() == 0 || x.sizes().back() != weight.sizes()[1])
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[linear] shapes cannot be multiplied: got input " + to_string(x.sizes()) + " and weight " +
                                                to_string(weight.sizes()) + ", expected input's last size " +
                                                std::to_string(weight.sizes()[1]));
  const Tensor y = matmul(x, transpose(weight, 0, 1));
  return bias.defined() ? add(y, bias) : y;
}

namespace {

hal_attributes_conv2d conv_attributes(const ConvOptions &o) {
  hal_attributes_conv2d a{};
  a.struct_size = sizeof(a);
  for (int i = 0; i < 2; ++i) {
    a.stride[i] = o.stride[i];
    a.padding[i] = o.padding[i];
    a.dilation[i] = o.dilation[i];
  }
  a.groups = o.groups;
  return a;
}

// Sizes of the output by the table's rule, with its checks.
Dims inferred(uint32_t op, std::initializer_list<const Tensor *> inputs, const void *attributes, uint32_t num_outputs = 1) {
  hal_operand operands[8];
  uint32_t n = 0;
  for (const Tensor *t : inputs) operands[n++] = operand_of(*t);
  for (uint32_t i = 0; i < num_outputs; ++i) {
    operands[n + i] = {};
    operands[n + i].struct_size = sizeof(hal_operand);
    operands[n + i].flags = HAL_OPERAND_OUTPUT;
  }
  hal::infer(op, operands, n, num_outputs, attributes);
  return Dims(operands[n].dims, operands[n].rank);
}

Tensor conv_input_grad(const Tensor &g, const Tensor &w, const Dims &x_sizes, const ConvOptions &o);
Tensor conv_weight_grad(const Tensor &g, const Tensor &x, const Dims &w_sizes, const ConvOptions &o);

Tensor conv_forward(const Tensor &x, const Tensor &w, const ConvOptions &o) {
  const auto attributes = conv_attributes(o);
  Tensor out = empty(inferred(id::conv2d, {&x, &w}, &attributes), x.dtype(), x.device());
  if (out.numel()) launch(id::conv2d, {x, w}, {&out}, &attributes);
  if (needs_grad(x, w))
    record(out, "Conv2dBackward", {&x, &w}, [sx = Saved(x), sw = Saved(w), o](Node &n, const Tensor &g, Tensors &gin) {
      const Tensor a = sx.get(n), b = sw.get(n);
      if (n.needs(0)) gin[0] = conv_input_grad(g, b, a.sizes(), o);
      if (n.needs(1)) gin[1] = conv_weight_grad(g, a, b.sizes(), o);
    });
  return out;
}

Tensor conv_input_grad(const Tensor &g, const Tensor &w, const Dims &x_sizes, const ConvOptions &o) {
  const auto attributes = conv_attributes(o);
  Tensor out = empty(x_sizes, g.dtype(), g.device());
  if (out.numel()) launch(id::conv2d_input_grad, {g, w}, {&out}, &attributes);
  if (needs_grad(g, w))
    record(out, "Conv2dInputGradBackward", {&g, &w}, [sg = Saved(g), sw = Saved(w), o](Node &n, const Tensor &h, Tensors &gin) {
      const Tensor w = sw.get(n);
      if (n.needs(0)) gin[0] = conv_forward(h, w, o);
      if (n.needs(1)) gin[1] = conv_weight_grad(sg.get(n), h, w.sizes(), o);
    });
  return out;
}

Tensor conv_weight_grad(const Tensor &g, const Tensor &x, const Dims &w_sizes, const ConvOptions &o) {
  const auto attributes = conv_attributes(o);
  Tensor out = empty(w_sizes, g.dtype(), g.device());
  if (out.numel()) launch(id::conv2d_weight_grad, {g, x}, {&out}, &attributes);
  if (needs_grad(g, x))
    record(out, "Conv2dWeightGradBackward", {&g, &x}, [sg = Saved(g), sx = Saved(x), o](Node &n, const Tensor &h, Tensors &gin) {
      const Tensor x = sx.get(n);
      if (n.needs(0)) gin[0] = conv_forward(x, h, o);
      if (n.needs(1)) gin[1] = conv_input_grad(sg.get(n), h, x.sizes(), o);
    });
  return out;
}

}  // namespace

Tensor conv2d(const Tensor &x, const Tensor &weight, const Tensor &bias, const ConvOptions &o) {
  same_device("conv2d", {&x, &weight, &bias});
  same_dtype("conv2d", x, "input", weight, "weight");
  if (x.dim() == 3) return squeeze(conv2d(unsqueeze(x, 0), weight, bias, o), std::vector<int64_t>{0});
  Tensor y = conv_forward(x, weight, o);
  if (!bias.defined()) return y;
  if (bias.dim() != 1 || bias.sizes()[0] != weight.sizes()[0])
    throw Error(ErrorKind::Value, "[conv2d] bias must have one element per output channel: got shape " + to_string(bias.sizes()) +
                                      ", expected " + to_string({weight.sizes()[0]}));
  return add(y, view(contiguous(bias), {1, bias.sizes()[0], 1, 1}));
}

Tensor conv2d_input_grad(const Tensor &g, const Tensor &weight, const Dims &sizes, const ConvOptions &o) {
  same_device("conv2d_input_grad", {&g, &weight});
  same_dtype("conv2d_input_grad", g, "input", weight, "weight");
  return conv_input_grad(g, weight, sizes, o);
}

namespace {

hal_attributes_max_pool2d pool_attributes(const PoolOptions &o) {
  hal_attributes_max_pool2d a{};
  a.struct_size = sizeof(a);
  for (int i = 0; i < 2; ++i) {
    a.kernel[i] = o.kernel[i];
    a.stride[i] = o.stride[i];
    a.padding[i] = o.padding[i];
    a.dilation[i] = o.dilation[i];
  }
  a.ceil_mode = o.ceil_mode;
  return a;
}

Tensor pool_gather(const Tensor &x, const Tensor &indices, const PoolOptions &o);

Tensor pool_backward(const Tensor &g, const Tensor &indices, const Dims &x_sizes, const PoolOptions &o) {
  const auto attributes = pool_attributes(o);
  Tensor out = empty(x_sizes, g.dtype(), g.device());
  if (out.numel()) launch(id::max_pool2d_backward, {g, indices}, {&out}, &attributes);
  if (needs_grad(g))
    record(out, "MaxPool2dBackwardBackward", {&g},
           [indices, o](Node &, const Tensor &h, Tensors &gin) { gin[0] = pool_gather(h, indices, o); });
  return out;
}

Tensor pool_gather(const Tensor &x, const Tensor &indices, const PoolOptions &o) {
  Tensor out = empty(indices.sizes(), x.dtype(), x.device());
  if (out.numel()) launch(id::max_pool2d_gather, {x, indices}, {&out});
  if (needs_grad(x))
    record(out, "MaxPool2dGatherBackward", {&x},
           [indices, o, sizes = x.sizes()](Node &, const Tensor &g, Tensors &gin) { gin[0] = pool_backward(g, indices, sizes, o); });
  return out;
}

}  // namespace

std::pair<Tensor, Tensor> max_pool2d(const Tensor &x, const PoolOptions &o) {
  if (x.dim() == 3) {
    auto [y, indices] = max_pool2d(unsqueeze(x, 0), o);
    return {squeeze(y, std::vector<int64_t>{0}), squeeze(indices, std::vector<int64_t>{0})};
  }
  const auto attributes = pool_attributes(o);
  const Dims sizes = inferred(id::max_pool2d, {&x}, &attributes, 2);
  Tensor out = empty(sizes, x.dtype(), x.device()), indices = empty(sizes, HAL_I64, x.device());
  if (out.numel()) launch(id::max_pool2d, {x}, {&out, &indices}, &attributes);
  if (needs_grad(x))
    record(out, "MaxPool2dBackward", {&x},
           [indices, o, from = x.sizes()](Node &, const Tensor &g, Tensors &gin) { gin[0] = pool_backward(g, indices, from, o); });
  return {out, indices};
}

namespace {

Tensor nll_backward(const Tensor &g, const Tensor &target, int64_t classes, int64_t ignore_index) {
  hal_attributes_nll_loss attributes{};
  attributes.struct_size = sizeof(attributes);
  attributes.ignore_index = ignore_index;
  Tensor out = empty({target.sizes()[0], classes}, g.dtype(), g.device());
  if (out.numel()) launch(id::nll_loss_backward, {g, target}, {&out}, &attributes);
  if (needs_grad(g))
    record(out, "NllLossBackwardBackward", {&g},
           [target, ignore_index](Node &, const Tensor &h, Tensors &gin) { gin[0] = nll_loss(h, target, ignore_index); });
  return out;
}

}  // namespace

Tensor nll_loss(const Tensor &x, const Tensor &target, int64_t ignore_index) {
  same_device("nll_loss", {&x, &target});
  if (x.dim() != 2 || target.dim() != 1 || x.sizes()[0] != target.sizes()[0])
    throw Error(ErrorKind::Value,
                "[nll_loss] expected input (N, C) and target (N,): got " + to_string(x.sizes()) + " and " + to_string(target.sizes()));
  if (!hal::is_integer(target.dtype()))
    throw Error(ErrorKind::Type, std::string("[nll_loss] target must have an integer dtype: got ") + dtype_long_name(target.dtype()));
  const Tensor t = cast(target, HAL_I64);
  hal_attributes_nll_loss attributes{};
  attributes.struct_size = sizeof(attributes);
  attributes.ignore_index = ignore_index;
  Tensor out = empty(t.sizes(), x.dtype(), x.device());
  if (out.numel()) launch(id::nll_loss, {x, t}, {&out}, &attributes);
  if (needs_grad(x))
    record(out, "NllLossBackward", {&x}, [t, ignore_index, classes = x.sizes()[1]](Node &, const Tensor &g, Tensors &gin) {
      gin[0] = nll_backward(g, t, classes, ignore_index);
    });
  return out;
}

Tensor cross_entropy(const Tensor &x, const Tensor &target, int64_t ignore_index, const std::string &reduction) {
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    throw Error(ErrorKind::Value, "[cross_entropy] " + reduction + " is not a valid value for reduction: expected 'mean', 'sum' or 'none'");
  if (x.dim() != 2) throw Error(ErrorKind::Value, "[cross_entropy] expected input (N, C): got " + to_string(x.sizes()));
  const Tensor losses = nll_loss(softmax(x, 1, true), target, ignore_index);
  if (reduction == "none") return losses;
  const Tensor total = sum(losses);
  if (reduction == "sum") return total;
  const Tensor counted = sum(binary(binary_op(id::ne), target, Value(Scalar(ignore_index))));
  return div(total, cast(counted, losses.dtype()));
}

Tensor gelu(const Tensor &x, bool tanh_form) { return unary(unary_op(tanh_form ? id::gelu_tanh : id::gelu), x); }

}  // namespace flow
