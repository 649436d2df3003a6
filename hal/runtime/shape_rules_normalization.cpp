// Shape rules of layer_norm and batch_norm, forward and backward.
#include <hal/ops.h>

#include <algorithm>

#include "shape_use.hpp"

namespace hal::shape {
namespace {

std::string dims_text(uint32_t rank, const int64_t *dims) {
  hal_operand o{};
  o.rank = rank;
  std::copy_n(dims, rank, o.dims);
  return shape_text(o);
}

void check_dims(const Use &use, uint32_t i, uint32_t rank, const int64_t *dims, const char *meaning) {
  const hal_operand &o = use.operands[i];
  if (!is_tensor(o)) return;
  if (o.rank != rank || !std::equal(dims, dims + rank, o.dims))
    use.fail(use.name(i) + " shape: got " + shape_text(o) + ", expected " + dims_text(rank, dims) + ", " + meaning);
}

}  // namespace

void layer_norm(const Use &use) {
  const bool forward = use.id == op::layer_norm;
  const hal_operand &x = use.in(0);
  const int64_t rank = x.rank, given = static_cast<const hal_attributes_layer_norm *>(use.attributes)->axis;
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank)
    use.fail("axis: got " + std::to_string(given) + ", expected " + std::to_string(-rank) + " to " + std::to_string(rank - 1) + " for " +
                 shape_text(x),
             ErrorKind::Index);
  const uint32_t inner = uint32_t(rank - axis);
  int64_t statistics[HAL_MAX_RANK];
  for (int64_t d = 0; d < rank; ++d) statistics[d] = d < axis ? x.dims[d] : 1;
  if (forward) {
    for (uint32_t i : {1u, 2u}) check_dims(use, i, inner, x.dims + axis, "x's normalized axes");
    set_shape(use, use.out(0), x.rank, x.dims);
    for (uint32_t i : {1u, 2u}) set_shape(use, use.out(i), x.rank, statistics);
    return;
  }
  check_same_shape(use, 1, x, "grad");
  for (uint32_t i : {2u, 3u}) check_dims(use, i, x.rank, statistics, "grad's shape with 1 in the normalized axes");
  if (use.id == op::layer_norm_backward) {
    check_dims(use, 4, inner, x.dims + axis, "grad's normalized axes");
    set_shape(use, use.out(0), x.rank, x.dims);
  } else {
    for (uint32_t i : {0u, 1u}) set_shape(use, use.out(i), inner, x.dims + axis);
  }
}

void batch_norm(const Use &use) {
  const hal_operand &x = use.in(0);
  if (x.rank < 2) use.fail(use.name(0) + " shape: got " + shape_text(x) + ", expected at least 2 dimensions (N, C, …)");
  const int64_t channels[1] = {x.dims[1]};
  for (uint32_t i = 1; i < use.num_inputs; ++i) {
    if (use.info.operands[i].kind != OperandKind::Tensor) continue;
    if (use.id == op::batch_norm_backward && i == 1)
      check_same_shape(use, 1, x, "grad");
    else
      check_dims(use, i, 1, channels, "one value per channel");
  }
  set_shape(use, use.out(0), x.rank, x.dims);
  for (uint32_t i = 1; i < use.num_outputs; ++i) set_shape(use, use.out(i), 1, channels);
}

}  // namespace hal::shape
