// Shape rules of the averaging pools.
#include <hal/ops.h>

#include "shape_use.hpp"

namespace hal::shape {
namespace {

void average_shape(const Use &use, const hal_operand &x, int64_t *dims) {
  const auto &a = *static_cast<const hal_attributes_avg_pool2d *>(use.attributes);
  check_positive(use, "kernel", a.kernel, 2, 1);
  check_positive(use, "stride", a.stride, 2, 1);
  check_positive(use, "padding", a.padding, 2, 0);
  check_positive(use, "divisor", &a.divisor, 1, 0);
  dims[0] = x.dims[0];
  dims[1] = x.dims[1];
  for (int i = 0; i < 2; ++i) {
    if (a.padding[i] > a.kernel[i] / 2)
      use.fail("padding: got " + std::to_string(a.padding[i]) + ", expected at most half of the kernel size " +
               std::to_string(a.kernel[i]));
    const int64_t room = x.dims[2 + i] + 2 * a.padding[i] - a.kernel[i];
    if (x.dims[2 + i] < 1 || room < 0)
      use.fail("output size: got input " + shape_text(x) + ", kernel " + std::to_string(a.kernel[i]) + ", padding " +
               std::to_string(a.padding[i]) + ": the window is larger than the padded input");
    dims[2 + i] = (room + (a.ceil_mode ? a.stride[i] - 1 : 0)) / a.stride[i] + 1;
    // The last window must begin inside the input or its left padding.
    if (a.ceil_mode && (dims[2 + i] - 1) * a.stride[i] >= x.dims[2 + i] + a.padding[i]) --dims[2 + i];
  }
}

void adaptive_shape(const Use &use, const hal_operand &x, int64_t *dims) {
  const auto &a = *static_cast<const hal_attributes_adaptive_avg_pool2d *>(use.attributes);
  check_positive(use, "size", a.size, 2, 1);
  if (x.dims[2] < 1 || x.dims[3] < 1) use.fail("input shape: got " + shape_text(x) + ", expected a plane of at least 1 x 1");
  for (int i = 0; i < 4; ++i) dims[i] = i < 2 ? x.dims[i] : a.size[i - 2];
}

void forward(const Use &use, void (*shape)(const Use &, const hal_operand &, int64_t *)) {
  check_rank(use, 0, 4, "(N, C, H, W)");
  int64_t dims[4];
  shape(use, use.in(0), dims);
  set_shape(use, use.out(0), 4, dims);
}

}  // namespace

void avg_pool2d(const Use &use) { forward(use, average_shape); }
void adaptive_avg_pool2d(const Use &use) { forward(use, adaptive_shape); }

// The output's shape is given, and must lead to the gradient's.
void average_backward(const Use &use) {
  check_rank(use, 0, 4, "(N, C, OH, OW)");
  check_rank(use, 1, 4, "(N, C, H, W)");
  hal_operand wanted{};
  wanted.rank = 4;
  (use.id == op::avg_pool2d_backward ? average_shape : adaptive_shape)(use, use.out(0), wanted.dims);
  check_same_shape(use, 0, wanted, "the forward op's output");
}

}  // namespace hal::shape
