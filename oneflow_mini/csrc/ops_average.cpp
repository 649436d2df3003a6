// Average pooling. Each op is linear, so its gradient is the other one.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace id = hal::op;

namespace {

hal_attributes_avg_pool2d average_attributes(const AverageOptions &o) {
  hal_attributes_avg_pool2d a{};
  a.struct_size = sizeof(a);
  for (int i = 0; i < 2; ++i) {
    a.kernel[i] = o.kernel[i];
    a.stride[i] = o.stride[i];
    a.padding[i] = o.padding[i];
  }
  a.ceil_mode = o.ceil_mode;
  a.count_include_pad = o.count_include_pad;
  a.divisor = o.divisor;
  return a;
}

Dims inferred(uint32_t op, const Tensor &x, const void *attributes) {
  hal_operand operands[2];
  operands[0] = operand_of(x);
  operands[1] = {};
  operands[1].struct_size = sizeof(hal_operand);
  operands[1].flags = HAL_OPERAND_OUTPUT;
  hal::infer(op, operands, 1, 1, attributes);
  return Dims(operands[1].dims, operands[1].rank);
}

void check_planes(const char *op, const Tensor &x) {
  if (x.dim() != 3 && x.dim() != 4)
    throw Error(ErrorKind::Value,
                std::string("[") + op + "] input: got shape " + to_string(x.sizes()) + ", expected (N, C, H, W) or (C, H, W)");
}

template <class Attributes>
Tensor run_forward(uint32_t op, uint32_t backward, const Tensor &x, const Attributes &attributes, const char *name);

template <class Attributes>
Tensor run_backward(uint32_t op, uint32_t backward, const Tensor &g, const Dims &sizes, const Attributes &attributes, const char *name) {
  Tensor out = empty(sizes, g.dtype(), g.device());
  if (out.numel()) launch(backward, {g}, {&out}, &attributes);
  if (needs_grad(g))
    record(out, name, {&g}, [op, backward, attributes, name](Node &, const Tensor &h, Tensors &gin) {
      gin[0] = run_forward(op, backward, h, attributes, name);
    });
  return out;
}

template <class Attributes>
Tensor run_forward(uint32_t op, uint32_t backward, const Tensor &x, const Attributes &attributes, const char *name) {
  Tensor out = empty(inferred(op, x, &attributes), x.dtype(), x.device());
  if (out.numel()) launch(op, {x}, {&out}, &attributes);
  if (needs_grad(x))
    record(out, name, {&x}, [op, backward, attributes, name, sizes = x.sizes()](Node &, const Tensor &g, Tensors &gin) {
      gin[0] = run_backward(op, backward, g, sizes, attributes, name);
    });
  return out;
}

}  // namespace

Tensor avg_pool2d(const Tensor &x, const AverageOptions &o) {
  check_planes("avg_pool2d", x);
  if (x.dim() == 3) return squeeze(avg_pool2d(unsqueeze(x, 0), o), std::vector<int64_t>{0});
  return run_forward(id::avg_pool2d, id::avg_pool2d_backward, x, average_attributes(o), "AvgPool2dBackward");
}

Tensor adaptive_avg_pool2d(const Tensor &x, int64_t height, int64_t width) {
  check_planes("adaptive_avg_pool2d", x);
  if (height == 1 && width == 1 && x.sizes()[x.dim() - 2] > 0 && x.sizes()[x.dim() - 1] > 0)  // the same bits
    return mean(x, std::vector<int64_t>{-2, -1}, true);
  if (x.dim() == 3) return squeeze(adaptive_avg_pool2d(unsqueeze(x, 0), height, width), std::vector<int64_t>{0});
  hal_attributes_adaptive_avg_pool2d a{};
  a.struct_size = sizeof(a);
  a.size[0] = height;
  a.size[1] = width;
  return run_forward(id::adaptive_avg_pool2d, id::adaptive_avg_pool2d_backward, x, a, "AdaptiveAvgPool2dBackward");
}

}  // namespace flow
