// What operands an op takes and what its outputs look like: checks with messages for people, and the shape rule of each op.
#include <hal/ops.h>

#include <algorithm>

#include "shape_use.hpp"

namespace hal {

namespace shape {

constexpr int64_t kMaxElements = int64_t(1) << 56;  // so that bytes and strides fit 64 bits

void set_shape(const Use &use, hal_operand &o, uint32_t rank, const int64_t *dims) {
  int64_t count = 1;
  o.rank = rank;
  for (uint32_t d = 0; d < rank; ++d) {
    o.dims[d] = dims[d];
    if (dims[d] != 0 && (__builtin_mul_overflow(count, dims[d], &count) || count > kMaxElements))
      use.fail("the output is too large: more than 2^56 elements");
  }
  set_row_major(o);
}

void check_rank(const Use &use, uint32_t i, uint32_t rank, const char *meaning) {
  if (use.operands[i].rank != rank)
    use.fail(use.name(i) + " shape: got " + shape_text(use.operands[i]) + ", expected " + std::to_string(rank) + " dimensions " + meaning);
}

void check_same_shape(const Use &use, uint32_t i, const hal_operand &model, const std::string &model_name) {
  const hal_operand &o = use.operands[i];
  bool same = o.rank == model.rank;
  for (uint32_t d = 0; same && d < o.rank; ++d) same = o.dims[d] == model.dims[d];
  if (!same) use.fail(use.name(i) + " shape: got " + shape_text(o) + ", expected " + shape_text(model) + ", that of " + model_name);
}

void check_positive(const Use &use, const char *name, const int64_t *values, int count, int64_t least) {
  for (int i = 0; i < count; ++i)
    if (values[i] < least || values[i] > int64_t(1) << 40)
      use.fail(std::string(name) + ": got " + std::to_string(values[i]) + ", expected at least " + std::to_string(least));
}

}  // namespace shape

using shape::check_positive;
using shape::check_rank;
using shape::check_same_shape;
using shape::set_shape;
using shape::Use;

namespace {

std::string dtype_list(uint32_t mask) {
  std::string out;
  for (hal_dtype d = 1; d < HAL_DTYPE_COUNT; ++d)
    if (mask & HAL_DTYPE_BIT(d)) out += (out.empty() ? "" : ", ") + std::string(dtype_name(d));
  return out;
}

hal_dtype expected_dtype(const OperandInfo &info, hal_dtype t) {
  switch (info.rule) {
    case DTypeRule::Same:
      return t;
    case DTypeRule::Compute:
      return compute_type(t);
    case DTypeRule::Accumulated:
      return is_float(t) ? t : accumulator_type(t);
    case DTypeRule::Fixed:
      return info.fixed;
    case DTypeRule::Any:
      return 0;
  }
  return 0;
}

// The op's dtype T: the primary operand's. If that is an output that isn't given yet, the first tensor input of dtype T tells.
hal_dtype infer_dtype(const Use &use) {
  const OperandInfo &primary = use.info.operands[use.info.primary];
  if (use.info.primary < use.num_inputs) return use.in(use.info.primary).dtype;
  if (primary.rule == DTypeRule::Same)
    for (uint32_t i = 0; i < use.num_inputs; ++i)
      if (use.info.operands[i].rule == DTypeRule::Same && is_tensor(use.in(i))) return use.in(i).dtype;
  return use.operands[use.info.primary].dtype;  // creation ops, and pointwise ops on immediates alone: the caller says
}

void check_inputs(const Use &use, hal_dtype t) {
  if (t <= 0 || t >= HAL_DTYPE_COUNT || !(use.info.dtypes & HAL_DTYPE_BIT(t)))
    use.fail(use.name(use.info.primary) + " dtype: got " + (t > 0 && t < HAL_DTYPE_COUNT ? dtype_name(t) : "none") + ", expected one of " +
                 dtype_list(use.info.dtypes),
             ErrorKind::Type);
  for (uint32_t i = 0; i < use.num_inputs; ++i) {
    const hal_operand &o = use.in(i);
    const OperandInfo &info = use.info.operands[i];
    if (o.flags & ~(HAL_OPERAND_IMMEDIATE | HAL_OPERAND_ABSENT))
      use.fail(use.name(i) + " flags: an input has flags " + std::to_string(o.flags));
    if (o.flags & HAL_OPERAND_ABSENT) {
      if (!info.optional) use.fail(use.name(i) + " is required, got none");
      continue;
    }
    const bool immediate = (o.flags & HAL_OPERAND_IMMEDIATE) != 0;
    if (immediate && info.kind == OperandKind::Tensor) use.fail(use.name(i) + " must be a tensor, got a scalar", ErrorKind::Type);
    if (!immediate && info.kind == OperandKind::Scalar) use.fail(use.name(i) + " must be a scalar, got a tensor", ErrorKind::Type);
    if (o.rank > HAL_MAX_RANK || (immediate && o.rank != 0))
      use.fail(use.name(i) + " rank: got " + std::to_string(o.rank) + ", expected at most " + (immediate ? "0" : "16"));
    for (uint32_t d = 0; d < o.rank; ++d)
      if (o.dims[d] < 0) use.fail(use.name(i) + " shape: got " + shape_text(o) + ", expected no negative size");
    hal_dtype expected = expected_dtype(info, t);
    if (immediate && info.kind == OperandKind::Either) expected = compute_type(t);
    if (expected && o.dtype != expected)
      use.fail(use.name(i) + " dtype: got " + (o.dtype > 0 && o.dtype < HAL_DTYPE_COUNT ? dtype_name(o.dtype) : "none") + ", expected " +
                   dtype_name(expected),
               ErrorKind::Type);
    if (o.dtype <= 0 || o.dtype >= HAL_DTYPE_COUNT)
      use.fail(use.name(i) + " dtype: unknown code " + std::to_string(o.dtype), ErrorKind::Type);
  }
}

void broadcast(const Use &use) {
  int64_t dims[HAL_MAX_RANK];
  uint32_t rank = 0;
  for (uint32_t i = 0; i < use.num_inputs; ++i)
    if (is_tensor(use.in(i))) rank = std::max(rank, use.in(i).rank);
  std::fill_n(dims, rank, 1);
  for (uint32_t i = 0; i < use.num_inputs; ++i) {
    const hal_operand &o = use.in(i);
    if (!is_tensor(o)) continue;
    for (uint32_t d = 0; d < o.rank; ++d) {
      int64_t &dim = dims[rank - o.rank + d];
      if (o.dims[d] == dim || o.dims[d] == 1) continue;
      if (dim != 1) {
        std::string shapes;
        for (uint32_t j = 0; j < use.num_inputs; ++j)
          if (is_tensor(use.in(j))) shapes += (shapes.empty() ? "" : ", ") + use.name(j) + " " + shape_text(use.in(j));
        use.fail("shapes don't broadcast: got " + shapes);
      }
      dim = o.dims[d];
    }
  }
  set_shape(use, use.out(0), rank, dims);
}

void same(const Use &use) {
  const hal_operand &x = use.in(0);
  for (uint32_t i = 1; i < use.num_inputs; ++i)
    if (is_tensor(use.in(i))) check_same_shape(use, i, x, use.name(0));
  if (use.info.attributes_size && std::string_view(use.info.attributes[0].name) == "axis") {
    const int64_t axis = static_cast<const hal_attributes_softmax *>(use.attributes)->axis;
    if (axis < 0 || axis >= int64_t(std::max(x.rank, 1u)))
      use.fail("axis: got " + std::to_string(axis) + ", expected 0 to " + std::to_string(int64_t(std::max(x.rank, 1u)) - 1),
               ErrorKind::Index);
  }
  set_shape(use, use.out(0), x.rank, x.dims);
}

void reduce(const Use &use) {
  const hal_operand &x = use.in(0);
  const int64_t axes = static_cast<const hal_attributes_sum *>(use.attributes)->axes;
  if (axes < 0 || (axes >> x.rank) != 0)
    use.fail("axes: got bits " + std::to_string(axes) + ", expected bits below 2^" + std::to_string(x.rank) + " for " + shape_text(x),
             ErrorKind::Index);
  int64_t dims[HAL_MAX_RANK], reduced = 1, kept = 1;
  for (uint32_t d = 0; d < x.rank; ++d) {
    const bool gone = axes >> d & 1;
    dims[d] = gone ? 1 : x.dims[d];
    (gone ? reduced : kept) *= x.dims[d] > 0 ? 1 : 0;
  }
  const bool needs_one = use.id == op::amax || use.id == op::amin || use.id == op::argmax || use.id == op::argmin;
  if (needs_one && reduced == 0 && kept != 0)
    use.fail("nothing to reduce: got " + shape_text(x) + ", expected reduced axes that aren't empty");
  set_shape(use, use.out(0), x.rank, dims);
}

void matmul(const Use &use) {
  const hal_operand &a = use.in(0), &b = use.in(1);
  if (a.rank != b.rank || a.rank < 2)
    use.fail("shapes: got " + shape_text(a) + " and " + shape_text(b) + ", expected equal ranks of at least 2");
  const uint32_t r = a.rank;
  if (a.dims[r - 1] != b.dims[r - 2])
    use.fail("inner sizes: got " + shape_text(a) + " and " + shape_text(b) + ", expected a's last size equal to b's last but one");
  int64_t dims[HAL_MAX_RANK];
  for (uint32_t d = 0; d + 2 < r; ++d) {
    if (a.dims[d] != b.dims[d] && a.dims[d] != 1 && b.dims[d] != 1)
      use.fail("batch sizes don't broadcast: got " + shape_text(a) + " and " + shape_text(b));
    dims[d] = a.dims[d] == 1 ? b.dims[d] : a.dims[d];
  }
  dims[r - 2] = a.dims[r - 2];
  dims[r - 1] = b.dims[r - 1];
  set_shape(use, use.out(0), r, dims);
}

const hal_attributes_conv2d &conv_attributes(const Use &use) {
  const auto &a = *static_cast<const hal_attributes_conv2d *>(use.attributes);
  check_positive(use, "stride", a.stride, 2, 1);
  check_positive(use, "padding", a.padding, 2, 0);
  check_positive(use, "dilation", a.dilation, 2, 1);
  check_positive(use, "groups", &a.groups, 1, 1);
  return a;
}

// Output sizes of a convolution of input x with weight w; also checks channels and groups.
void conv_shape(const Use &use, const hal_operand &x, const hal_operand &w, int64_t *dims) {
  const auto &a = conv_attributes(use);
  if (x.dims[1] != w.dims[1] * a.groups)
    use.fail("channels: got input " + shape_text(x) + ", weight " + shape_text(w) + " and groups " + std::to_string(a.groups) +
             ", expected input channels = weight.shape[1] * groups");
  if (w.dims[0] % a.groups != 0)
    use.fail("groups: got " + std::to_string(a.groups) + ", expected a divisor of the output channels " + std::to_string(w.dims[0]));
  dims[0] = x.dims[0];
  dims[1] = w.dims[0];
  for (int i = 0; i < 2; ++i) {
    if (w.dims[2 + i] < 1) use.fail("weight shape: got " + shape_text(w) + ", expected a kernel of at least 1 x 1");
    const int64_t room = x.dims[2 + i] + 2 * a.padding[i] - a.dilation[i] * (w.dims[2 + i] - 1) - 1;
    if (room < 0)
      use.fail("output size: got input " + shape_text(x) + ", weight " + shape_text(w) + ", padding " + std::to_string(a.padding[i]) +
               ", dilation " + std::to_string(a.dilation[i]) + ": the kernel is larger than the padded input");
    dims[2 + i] = room / a.stride[i] + 1;
  }
}

void conv2d(const Use &use) {
  check_rank(use, 0, 4, "(N, C, H, W)");
  check_rank(use, 1, 4, "(O, C / groups, KH, KW)");
  int64_t dims[4];
  conv_shape(use, use.in(0), use.in(1), dims);
  set_shape(use, use.out(0), 4, dims);
}

// The gradients' outputs are given (several input sizes lead to one output size); they must fit the forward op.
void conv2d_grad(const Use &use) {
  const bool input_grad = use.id == op::conv2d_input_grad;
  check_rank(use, 0, 4, "(N, O, OH, OW)");
  check_rank(use, 1, 4, input_grad ? "(O, C / groups, KH, KW)" : "(N, C, H, W)");
  check_rank(use, use.num_inputs, 4, input_grad ? "(N, C, H, W)" : "(O, C / groups, KH, KW)");
  const hal_operand &x = input_grad ? use.out(0) : use.in(1), &w = input_grad ? use.in(1) : use.out(0);
  hal_operand forward{};
  forward.rank = 4;
  conv_shape(use, x, w, forward.dims);
  check_same_shape(use, 0, forward, "the forward op's output");
}

void pool_shape(const Use &use, const hal_operand &x, int64_t *dims) {
  const auto &a = *static_cast<const hal_attributes_max_pool2d *>(use.attributes);
  check_positive(use, "kernel", a.kernel, 2, 1);
  check_positive(use, "stride", a.stride, 2, 1);
  check_positive(use, "padding", a.padding, 2, 0);
  check_positive(use, "dilation", a.dilation, 2, 1);
  dims[0] = x.dims[0];
  dims[1] = x.dims[1];
  for (int i = 0; i < 2; ++i) {
    if (a.padding[i] > a.kernel[i] / 2)
      use.fail("padding: got " + std::to_string(a.padding[i]) + ", expected at most half of the kernel size " +
               std::to_string(a.kernel[i]));
    const int64_t room = x.dims[2 + i] + 2 * a.padding[i] - a.dilation[i] * (a.kernel[i] - 1) - 1;
    if (x.dims[2 + i] < 1 || room < 0)
      use.fail("output size: got x " + shape_text(x) + ", kernel " + std::to_string(a.kernel[i]) + ", dilation " +
               std::to_string(a.dilation[i]) + ": the window is larger than the padded input");
    int64_t n = (room + (a.ceil_mode ? a.stride[i] - 1 : 0)) / a.stride[i] + 1;
    // The last window must begin inside the input or its left padding.
    if (a.ceil_mode && (n - 1) * a.stride[i] >= x.dims[2 + i] + a.padding[i]) --n;
    dims[2 + i] = n;
  }
}

void max_pool2d(const Use &use) {
  check_rank(use, 0, 4, "(N, C, H, W)");
  int64_t dims[4];
  pool_shape(use, use.in(0), dims);
  set_shape(use, use.out(0), 4, dims);
  set_shape(use, use.out(1), 4, dims);
}

void max_pool2d_backward(const Use &use) {
  for (uint32_t i = 0; i < 3; ++i) check_rank(use, i, 4, "(N, C, H, W)");
  check_same_shape(use, 1, use.in(0), "grad");
  hal_operand forward{};
  forward.rank = 4;
  pool_shape(use, use.out(0), forward.dims);
  check_same_shape(use, 0, forward, "the forward op's output");
}

void max_pool2d_gather(const Use &use) {
  check_rank(use, 0, 4, "(N, C, H, W)");
  check_rank(use, 1, 4, "(N, C, OH, OW)");
  for (uint32_t d = 0; d < 2; ++d)
    if (use.in(0).dims[d] != use.in(1).dims[d])
      use.fail("indices shape: got " + shape_text(use.in(1)) + ", expected the N and C of x " + shape_text(use.in(0)));
  set_shape(use, use.out(0), 4, use.in(1).dims);
}

void nll_loss(const Use &use) {
  check_rank(use, 0, 2, "(N, C)");
  check_rank(use, 1, 1, "(N,)");
  if (use.in(1).dims[0] != use.in(0).dims[0])
    use.fail("target shape: got " + shape_text(use.in(1)) + ", expected (" + std::to_string(use.in(0).dims[0]) + ",) for x " +
             shape_text(use.in(0)));
  set_shape(use, use.out(0), 1, use.in(0).dims);
}

void nll_loss_backward(const Use &use) {
  check_rank(use, 0, 1, "(N,)");
  check_same_shape(use, 1, use.in(0), "grad");
  check_rank(use, 2, 2, "(N, C)");
  if (use.out(0).dims[0] != use.in(0).dims[0])
    use.fail("out shape: got " + shape_text(use.out(0)) + ", expected (" + std::to_string(use.in(0).dims[0]) + ", C)");
}

void optimizer(const Use &use) {
  const hal_operand &param = use.in(0);
  for (uint32_t i = 1; i < use.num_inputs; ++i)
    if (is_tensor(use.in(i))) check_same_shape(use, i, param, "param");
  // A state that is given in must come out.
  const uint32_t last = use.num_outputs - 1;
  for (uint32_t i = 0; i < use.num_inputs; ++i)
    if (use.info.operands[i].optional && ((use.in(i).flags ^ use.out(last).flags) & HAL_OPERAND_ABSENT))
      use.fail(use.name(i) + " and " + use.name(use.num_inputs + last) + " must be given both or neither");
  for (uint32_t i = 0; i < use.num_outputs; ++i)
    if (!(use.out(i).flags & HAL_OPERAND_ABSENT)) set_shape(use, use.out(i), param.rank, param.dims);
}

int64_t checked_axis(const Use &use, const hal_operand &x, uint32_t least_rank) {
  const int64_t axis = static_cast<const hal_attributes_gather *>(use.attributes)->axis;  // the first attribute of all of them
  if (x.rank < least_rank) use.fail("shape: got " + shape_text(x) + ", expected at least 1 dimension");
  if (axis < 0 || axis >= int64_t(std::max(x.rank, 1u)))
    use.fail("axis: got " + std::to_string(axis) + ", expected 0 to " + std::to_string(int64_t(std::max(x.rank, 1u)) - 1),
             ErrorKind::Index);
  return axis;
}

// The index reaches no further than `whole` in the dimensions other than the axis.
void check_index_inside(const Use &use, const hal_operand &whole, const std::string &name, const hal_operand &index, int64_t axis) {
  bool inside = index.rank == whole.rank;
  for (uint32_t d = 0; inside && d < index.rank; ++d) inside = int64_t(d) == axis || index.dims[d] <= whole.dims[d];
  if (!inside)
    use.fail("index shape: got " + shape_text(index) + ", expected the rank of " + name + " " + shape_text(whole) +
             " and no larger sizes except in dimension " + std::to_string(axis));
}

void gather(const Use &use) {
  const int64_t axis = checked_axis(use, use.in(0), 1);
  check_index_inside(use, use.in(0), "x", use.in(1), axis);
  set_shape(use, use.out(0), use.in(1).rank, use.in(1).dims);
}

void scatter(const Use &use) {
  const int64_t axis = checked_axis(use, use.in(0), 1);
  check_index_inside(use, use.in(0), "x", use.in(1), axis);
  check_same_shape(use, 2, use.in(1), "index");
  set_shape(use, use.out(0), use.in(0).rank, use.in(0).dims);
}

void scatter_add(const Use &use) {
  const int64_t axis = checked_axis(use, use.in(0), 1);
  check_same_shape(use, 1, use.in(0), "src");
  check_index_inside(use, use.out(0), "out", use.in(1), axis);
}

// cumsum, sort, topk: outputs have x's shape; topk's have k along the axis.
void along_axis(const Use &use) {
  const hal_operand &x = use.in(0);
  const int64_t axis = checked_axis(use, x, 0);
  int64_t dims[HAL_MAX_RANK];
  std::copy_n(x.dims, x.rank, dims);
  if (use.id == op::topk) {
    const int64_t k = static_cast<const hal_attributes_topk *>(use.attributes)->k, n = x.rank ? x.dims[axis] : 1;
    if (k < 0 || k > n) use.fail("k: got " + std::to_string(k) + ", expected 0 to " + std::to_string(n), ErrorKind::Index);
    if (x.rank == 0 && k != 1) use.fail("k: got " + std::to_string(k) + ", expected 1 for a scalar", ErrorKind::Index);
    if (x.rank) dims[axis] = k;
  }
  for (uint32_t i = 0; i < use.num_outputs; ++i) set_shape(use, use.out(i), x.rank, dims);
}

void given(const Use &use) {
  switch (use.id) {
    case op::scatter_add:
      scatter_add(use);
      break;
    case op::nonzero:
      check_rank(use, 1, 1, "(count,)");
      break;
    case op::conv2d_input_grad:
    case op::conv2d_weight_grad:
      conv2d_grad(use);
      break;
    case op::max_pool2d_backward:
      max_pool2d_backward(use);
      break;
    case op::nll_loss_backward:
      nll_loss_backward(use);
      break;
    case op::avg_pool2d_backward:
    case op::adaptive_avg_pool2d_backward:
      shape::average_backward(use);
      break;
    default:
      break;
  }
  for (uint32_t i = 0; i < use.num_outputs; ++i) {
    hal_operand &o = use.out(i);
    for (uint32_t d = 0; d < o.rank; ++d)
      if (o.dims[d] < 0) use.fail(use.name(use.num_inputs + i) + " shape: got " + shape_text(o) + ", expected no negative size");
    int64_t dims[HAL_MAX_RANK];
    std::copy_n(o.dims, o.rank, dims);
    set_shape(use, o, o.rank, dims);
  }
}

void check_attributes(const Use &use) {
  if (use.info.attributes_size == 0) return;
  if (!use.attributes) use.fail("attributes are required, got none");
  const uint32_t size = *static_cast<const uint32_t *>(use.attributes);
  if (size < use.info.attributes_size)
    use.fail("attributes.struct_size: got " + std::to_string(size) + ", expected at least " + std::to_string(use.info.attributes_size));
}

void check_counts(const OpInfo &info, uint32_t num_inputs, uint32_t num_outputs) {
  if (num_inputs != info.num_inputs || num_outputs != info.num_outputs)
    throw Error(ErrorKind::Value, std::string("[") + info.name + "] operands: got " + std::to_string(num_inputs) + " inputs and " +
                                      std::to_string(num_outputs) + " outputs, expected " + std::to_string(info.num_inputs) + " and " +
                                      std::to_string(info.num_outputs));
}

}  // namespace

void infer(uint32_t id, hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs, const void *attributes) {
  const OpInfo &info = op_info(id);
  if (info.shape == ShapeRule::custom) return;  // a plugin's own op: the caller gives the outputs
  check_counts(info, num_inputs, num_outputs);
  const Use use{info, id, operands, num_inputs, num_outputs, attributes};
  check_attributes(use);
  const hal_dtype t = infer_dtype(use);
  check_inputs(use, t);
  for (uint32_t i = 0; i < num_outputs; ++i) {
    hal_operand &o = use.out(i);
    const OperandInfo &out = info.operands[num_inputs + i];
    o.struct_size = sizeof(hal_operand);
    if (o.flags & HAL_OPERAND_ABSENT) {
      if (!out.optional) use.fail(use.name(num_inputs + i) + " is required, got none");
      continue;
    }
    o.flags = HAL_OPERAND_OUTPUT;
    o.layout = HAL_LAYOUT_STRIDED;
    if (out.rule != DTypeRule::Any)
      o.dtype = expected_dtype(out, t);
    else if (o.dtype <= 0 || o.dtype >= HAL_DTYPE_COUNT)
      use.fail(use.name(num_inputs + i) + " dtype: this op needs the output's dtype to be given", ErrorKind::Type);
    if (o.rank > HAL_MAX_RANK) use.fail(use.name(num_inputs + i) + " rank: got " + std::to_string(o.rank) + ", expected at most 16");
  }
  switch (info.shape) {
    case ShapeRule::broadcast:
      broadcast(use);
      break;
    case ShapeRule::same:
      same(use);
      break;
    case ShapeRule::given:
      given(use);
      break;
    case ShapeRule::reduce:
      reduce(use);
      break;
    case ShapeRule::matmul:
      matmul(use);
      break;
    case ShapeRule::conv2d:
      conv2d(use);
      break;
    case ShapeRule::max_pool2d:
      max_pool2d(use);
      break;
    case ShapeRule::max_pool2d_gather:
      max_pool2d_gather(use);
      break;
    case ShapeRule::nll_loss:
      nll_loss(use);
      break;
    case ShapeRule::optimizer:
      optimizer(use);
      break;
    case ShapeRule::gather:
      gather(use);
      break;
    case ShapeRule::scatter:
      scatter(use);
      break;
    case ShapeRule::along_axis:
      along_axis(use);
      break;
    case ShapeRule::layer_norm:
      shape::layer_norm(use);
      break;
    case ShapeRule::batch_norm:
      shape::batch_norm(use);
      break;
    case ShapeRule::avg_pool2d:
      shape::avg_pool2d(use);
      break;
    case ShapeRule::adaptive_avg_pool2d:
      shape::adaptive_avg_pool2d(use);
      break;
    case ShapeRule::custom:
      break;
  }
}

void check_operands(const OpInfo &info, uint32_t id, const hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs,
                    const void *attributes) {
  const uint32_t n = num_inputs + num_outputs;
  for (uint32_t i = 0; i < n; ++i) {
    const hal_operand &o = operands[i];
    if (o.struct_size < sizeof(hal_operand))
      throw Error(ErrorKind::Value, std::string("[") + info.name + "] operand " + std::to_string(i) + " struct_size: got " +
                                        std::to_string(o.struct_size) + ", expected " + std::to_string(sizeof(hal_operand)));
    if ((i >= num_inputs) != ((o.flags & HAL_OPERAND_OUTPUT) != 0) && !(o.flags & HAL_OPERAND_ABSENT))
      throw Error(ErrorKind::Value,
                  std::string("[") + info.name + "] operand " + std::to_string(i) + ": the flag OUTPUT must be set on outputs only");
  }
  if (info.shape == ShapeRule::custom) return;
  hal_operand wanted[HAL_MAX_OPERANDS];
  for (uint32_t i = 0; i < n; ++i) wanted[i] = operands[i];
  infer(id, wanted, num_inputs, num_outputs, attributes);
  const Use use{info, id, wanted, num_inputs, num_outputs, attributes};
  for (uint32_t i = num_inputs; i < n; ++i) {
    const hal_operand &o = operands[i], &w = wanted[i];
    if (o.flags & HAL_OPERAND_ABSENT) continue;
    bool equal = o.rank == w.rank;
    for (uint32_t d = 0; equal && d < o.rank; ++d) equal = o.dims[d] == w.dims[d];
    if (!equal) use.fail(use.name(i) + " shape: got " + shape_text(o) + ", expected " + shape_text(w));
    if (o.dtype != w.dtype)
      use.fail(use.name(i) + " dtype: got " + (o.dtype > 0 && o.dtype < HAL_DTYPE_COUNT ? dtype_name(o.dtype) : "none") + ", expected " +
                   dtype_name(w.dtype),
               ErrorKind::Type);
    for (uint32_t d = 0; d < o.rank; ++d)
      if (o.strides[d] == 0 && o.dims[d] > 1)
        use.fail(use.name(i) + " strides: an output can't be broadcast (stride 0 at dimension " + std::to_string(d) + ")");
  }
  // Here broadcasting is by stride 0 already.
  if (info.shape == ShapeRule::broadcast)
    for (uint32_t i = 0; i < num_inputs; ++i)
      if (is_tensor(operands[i])) check_same_shape(use, i, wanted[num_inputs], "the output; expand operands by stride 0");
  if (info.shape == ShapeRule::matmul)
    for (uint32_t i = 0; i < 2; ++i)
      for (uint32_t d = 0; d + 2 < operands[i].rank; ++d)
        if (operands[i].dims[d] != wanted[2].dims[d])
          use.fail(use.name(i) + " shape: got " + shape_text(operands[i]) + ", expected batch dimensions expanded by stride 0");
}

}  // namespace hal
