#include "convolution.hpp"

namespace cpu {
namespace {

std::string dims_text(const hal_operand &o) {
  std::string text = "(";
  for (uint32_t i = 0; i < o.rank; ++i) text += (i ? ", " : "") + std::to_string(o.dims[i]);
  return text + ")";
}

Strides4 strides(const hal_operand &o) { return {{o.strides[0], o.strides[1], o.strides[2], o.strides[3]}}; }

}  // namespace

ConvShape conv_shape(const hal_op &op, int x_index, int weight_index, int y_index) {
  const std::string prefix = std::string("[") + op.name + "] ";
  const hal_operand &x = op.operands[x_index], &w = op.operands[weight_index], &y = op.operands[y_index];
  const auto a = attributes<hal_attributes_conv2d>(op);
  const auto in_range = [&](const char *name, const int64_t *values, int count, int64_t least) {
    for (int i = 0; i < count; ++i)
      if (values[i] < least || values[i] > (int64_t{1} << 31))
        throw Invalid(prefix + name + ": got " + std::to_string(values[i]) + ", expected at least " + std::to_string(least) +
                      " and at most 2^31");
  };
  in_range("stride", a.stride, 2, 1);
  in_range("padding", a.padding, 2, 0);
  in_range("dilation", a.dilation, 2, 1);
  in_range("groups", &a.groups, 1, 1);
  const std::string got = "got x " + dims_text(x) + ", weight " + dims_text(w) + ", output " + dims_text(y);
  if (x.rank != 4 || w.rank != 4 || y.rank != 4) throw Invalid(prefix + "ranks: " + got + ", expected rank 4 each");
  if (w.dims[2] < 1 || w.dims[3] < 1) throw Invalid(prefix + "kernel size: " + got + ", expected at least 1 × 1");
  if (x.dims[1] % a.groups != 0 || w.dims[0] % a.groups != 0 || w.dims[1] != x.dims[1] / a.groups)
    throw Invalid(prefix + "channels: " + got + " with groups = " + std::to_string(a.groups) +
                  ", expected weight (C_out, C_in / groups, KH, KW) and groups that divide C_in and C_out");
  const auto out_size = [&](int i) { return x.dims[2 + i] + 2 * a.padding[i] - a.dilation[i] * (w.dims[2 + i] - 1) - 1; };
  for (int i = 0; i < 2; ++i)
    if (out_size(i) < 0 || y.dims[2 + i] != out_size(i) / a.stride[i] + 1)
      throw Invalid(prefix + "output size along axis " + std::to_string(2 + i) + ": " + got + ", expected " +
                    (out_size(i) < 0 ? "a kernel that fits into the padded input" : std::to_string(out_size(i) / a.stride[i] + 1)));
  if (y.dims[0] != x.dims[0] || y.dims[1] != w.dims[0]) throw Invalid(prefix + "batch or channels: " + got);
  return {x.dims[0],
          a.groups,
          x.dims[1] / a.groups,
          w.dims[0] / a.groups,
          x.dims[2],
          x.dims[3],
          y.dims[2],
          y.dims[3],
          w.dims[2],
          w.dims[3],
          a.stride[0],
          a.stride[1],
          a.padding[0],
          a.padding[1],
          a.dilation[0],
          a.dilation[1],
          strides(x),
          strides(w),
          strides(y)};
}

void add_convolution(KernelRows &rows) {
  const uint32_t floats = HAL_DTYPE_BIT(HAL_F16) | HAL_DTYPE_BIT(HAL_BF16) | HAL_DTYPE_BIT(HAL_F32) | HAL_DTYPE_BIT(HAL_F64);
  rows.push_back({"conv2d", floats, make_conv2d});
  rows.push_back({"conv2d_input_grad", floats, make_conv2d_input_grad});
  rows.push_back({"conv2d_weight_grad", floats, make_conv2d_weight_grad});
}

}  // namespace cpu
