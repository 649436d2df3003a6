// gather, scatter and their kin. The sum over equal destinations is the op scatter_add of the table, so gradients have fixed bits.
#include "ops_index.hpp"

#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace id = hal::op;

namespace {

hal_attributes_gather axis_attribute(int64_t axis) {
  hal_attributes_gather a{};
  a.struct_size = sizeof(a);
  a.axis = axis;
  return a;
}

Tensor checked_index(const char *op, const Tensor &index) {
  if (index.dtype() != HAL_I64 && index.dtype() != HAL_I32)
    throw Error(ErrorKind::Type, std::string("[") + op + "] index must be int64: got " + dtype_long_name(index.dtype()));
  return cast(index, HAL_I64);
}

void check_dtype(const char *op, const Tensor &x, const Tensor &src) {
  if (x.dtype() != src.dtype())
    throw Error(HAL_ERROR_INVALID_ARGUMENT, std::string("[") + op + "] expected self and src to have the same dtype: got " +
                                                dtype_long_name(x.dtype()) + " and " + dtype_long_name(src.dtype()));
}

Tensor at_least_1d(const Tensor &t) { return t.dim() ? t : view(t, {1}); }

void check_rank(const char *op, const Tensor &x, const Tensor &index) {
  if (std::max<int64_t>(1, x.dim()) != std::max<int64_t>(1, index.dim()))
    throw Error(ErrorKind::Value, std::string("[") + op + "] index must have as many dimensions as the input: got shapes " +
                                      to_string(index.sizes()) + " and " + to_string(x.sizes()));
}

// The part of src that an index of these sizes reads.
Tensor front_of(const char *op, const Tensor &src, const Dims &sizes) {
  Tensor out = src;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (src.sizes()[d] < sizes[d])
      throw Error(ErrorKind::Value,
                  std::string("[") + op + "] index must be no larger than src: got " + to_string(sizes) + " and " + to_string(src.sizes()));
    if (src.sizes()[d] != sizes[d]) out = slice(out, static_cast<int64_t>(d), 0, sizes[d], 1);
  }
  return out;
}

Tensor source(const char *op, const Tensor &x, const Value &src, const Tensor &index) {
  if (!src.is_tensor()) return expand(full({}, src.scalar, x.dtype(), x.device()), index.sizes());
  same_device(op, {&x, &src.tensor});
  check_dtype(op, x, src.tensor);
  check_rank(op, src.tensor, index);
  return front_of(op, at_least_1d(src.tensor), index.sizes());
}

}  // namespace

Tensor spread_index(const Tensor &index, int64_t axis, Dims sizes) {
  sizes[static_cast<size_t>(axis)] = index.sizes()[0];
  Dims strides = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) strides[d] = static_cast<int64_t>(d) == axis ? index.strides()[0] : 0;
  return alias(index, sizes, strides, index->offset);
}

Tensor gather_along(const Tensor &x, int64_t axis, const Tensor &index) {
  const auto attributes = axis_attribute(axis);
  Tensor out = empty(index.sizes(), x.dtype(), x.device());
  if (out.numel()) launch(id::gather, {x, index}, {&out}, &attributes);
  if (needs_grad(x))
    record(out, "GatherBackward", {&x},
           [axis, index, sizes = x.sizes()](Node &, const Tensor &g, Tensors &gin) { gin[0] = sum_along(g, axis, index, sizes); });
  return out;
}

Tensor sum_along(const Tensor &src, int64_t axis, const Tensor &index, const Dims &sizes) {
  const auto attributes = axis_attribute(axis);
  Tensor out = src.numel() ? empty(sizes, src.dtype(), src.device()) : zeros(sizes, src.dtype(), src.device());
  if (out.numel() && src.numel()) launch(id::scatter_add, {src, index}, {&out}, &attributes);
  if (needs_grad(src))
    record(out, "ScatterAddBackward", {&src},
           [axis, index](Node &, const Tensor &g, Tensors &gin) { gin[0] = gather_along(g, axis, index); });
  return out;
}

namespace {

// True where src[i] is what its destination ended with: the last of equal destinations.
Tensor winners(const Dims &sizes, int64_t axis, const Tensor &index) {
  GradMode off(false);
  Dims shape = index.sizes();
  for (size_t d = 0; d < shape.size(); ++d)
    if (static_cast<int64_t>(d) != axis) shape[d] = 1;
  const Tensor numbers =
      expand(view(arange(Scalar(0), Scalar(1), shape[static_cast<size_t>(axis)], HAL_I64, index.device()), shape), index.sizes());
  const Tensor last = scatter_along(full(sizes, Scalar(-1), HAL_I64, index.device()), axis, index, numbers);
  return eq(gather_along(last, axis, index), numbers);
}

// x is gone where something was written; src reaches where it won.
struct ScatterBackward {
  int64_t axis;
  Tensor index;
  void operator()(Node &n, const Tensor &g, Tensors &gin) const {
    if (n.needs(0)) gin[0] = scatter_along(g, axis, index, expand(zeros({}, g.dtype(), g.device()), index.sizes()));
    if (n.needs(1)) gin[1] = where(winners(g.sizes(), axis, index), gather_along(g, axis, index), 0.0);
  }
};

}  // namespace

Tensor scatter_along(const Tensor &x, int64_t axis, const Tensor &index, const Tensor &src) {
  const auto attributes = axis_attribute(axis);
  Tensor out = empty(x.sizes(), x.dtype(), x.device());
  if (out.numel()) launch(id::scatter, {x, index, src}, {&out}, &attributes);
  if (needs_grad(x, src)) record(out, "ScatterBackward", {&x, &src}, ScatterBackward{axis, index});
  return out;
}

Tensor scatter_along_(const Tensor &self, int64_t axis, const Tensor &given_index, const Tensor &given_src) {
  const Tensor before = before_inplace("scatter_", self, needs_grad(given_src));
  const Tensor index = given_index->storage == self->storage ? clone(given_index) : given_index;
  const Tensor src = given_src->storage == self->storage ? clone(given_src) : given_src;
  const auto attributes = axis_attribute(axis);
  if (self.numel() && index.numel()) launch(id::scatter, {self, index, src}, {&self}, &attributes);
  Tensor result = self;
  if (before.impl() != self.impl()) {
    result = alias(self, self.sizes(), self.strides(), self->offset);
    record(result, "ScatterBackward", {&before, &src}, ScatterBackward{axis, index});
  }
  after_inplace(self, before, result);
  return self;
}

Tensor gather(const Tensor &x, int64_t dim, const Tensor &given) {
  same_device("gather", {&x, &given});
  check_rank("gather", x, given);
  const Tensor index = checked_index("gather", given);
  const int64_t axis = wrap_dim(dim, x.dim(), "gather");
  const Tensor out = gather_along(at_least_1d(x), axis, at_least_1d(index));
  return given.dim() ? out : view(out, {});
}

Tensor index_select(const Tensor &x, int64_t dim, const Tensor &given) {
  same_device("index_select", {&x, &given});
  const Tensor index = at_least_1d(checked_index("index_select", given));
  if (index.dim() != 1)
    throw Error(ErrorKind::Index, "[index_select] index is supposed to be a vector: got shape " + to_string(given.sizes()));
  const int64_t axis = wrap_dim(dim, x.dim(), "index_select");
  if (x.dim() == 0) return view(index_select(view(x, {1}), 0, index), {});
  return gather_along(x, axis, spread_index(index, axis, x.sizes()));
}

Tensor take_along_dim(const Tensor &x, const Tensor &given, const std::optional<int64_t> &dim) {
  if (!dim) return gather(reshape(x, {-1}), 0, reshape(given, {-1}));
  const int64_t axis = wrap_dim(*dim, x.dim(), "take_along_dim");
  if (x.dim() != given.dim())
    throw Error(ErrorKind::Value, "[take_along_dim] input and indices should have the same number of dimensions: got " +
                                      to_string(x.sizes()) + " and " + to_string(given.sizes()));
  if (x.dim() == 0) return gather(x, 0, given);
  Dims a = x.sizes(), b = given.sizes();
  const size_t d = static_cast<size_t>(axis);
  const int64_t size = a[d], count = b[d];
  a[d] = b[d] = 1;
  Dims both = broadcast_shapes("take_along_dim", a, b), left = both;
  both[d] = count;
  left[d] = size;
  return gather(expand(x, left), axis, expand(given, both));
}

Tensor scatter(const Tensor &x, int64_t dim, const Tensor &given, const Value &src) {
  same_device("scatter", {&x, &given});
  check_rank("scatter", x, given);
  const int64_t axis = wrap_dim(dim, x.dim(), "scatter");
  const Tensor index = at_least_1d(checked_index("scatter", given));
  const Tensor out = scatter_along(at_least_1d(x), axis, index, source("scatter", x, src, index));
  return x.dim() ? out : view(out, {});
}

Tensor scatter_(const Tensor &self, int64_t dim, const Tensor &given, const Value &src) {
  same_device("scatter_", {&self, &given});
  check_rank("scatter_", self, given);
  const int64_t axis = wrap_dim(dim, self.dim(), "scatter_");
  const Tensor index = at_least_1d(checked_index("scatter_", given));
  scatter_along_(at_least_1d(self), axis, index, source("scatter_", self, src, index));
  return self;
}

namespace {

Tensor contributions(const char *op, const Tensor &x, int64_t dim, const Tensor &given, const Tensor &src) {
  same_device(op, {&x, &given});
  check_rank(op, x, given);
  const int64_t axis = wrap_dim(dim, x.dim(), op);
  const Tensor index = at_least_1d(checked_index(op, given));
  const Tensor sum = sum_along(source(op, x, src, index), axis, index, at_least_1d(x).sizes());
  return x.dim() ? sum : view(sum, {});
}

Tensor row_contributions(const char *op, const Tensor &x, int64_t dim, const Tensor &given, const Tensor &src) {
  same_device(op, {&x, &given, &src});
  check_dtype(op, x, src);
  const int64_t axis = wrap_dim(dim, x.dim(), op);
  const Tensor index = at_least_1d(checked_index(op, given)), values = at_least_1d(src);
  Dims expected = at_least_1d(x).sizes();
  if (index.dim() == 1) expected[static_cast<size_t>(axis)] = index.sizes()[0];
  if (index.dim() != 1 || values.sizes() != expected)
    throw Error(ErrorKind::Value, std::string("[") + op + "] source must have the input's shape with the index's length in dimension " +
                                      std::to_string(axis) + ": got " + to_string(src.sizes()) + " for an index of shape " +
                                      to_string(given.sizes()));
  const Tensor sum = sum_along(values, axis, spread_index(index, axis, expected), at_least_1d(x).sizes());
  return x.dim() ? sum : view(sum, {});
}

}  // namespace

Tensor scatter_add(const Tensor &x, int64_t dim, const Tensor &index, const Tensor &src) {
  return add(x, contributions("scatter_add", x, dim, index, src));
}
Tensor scatter_add_(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &src) {
  return inplace_binary(binary_op(id::add), self, contributions("scatter_add_", self, dim, index, src));
}
Tensor index_add(const Tensor &x, int64_t dim, const Tensor &index, const Tensor &src) {
  return add(x, row_contributions("index_add", x, dim, index, src));
}
Tensor index_add_(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &src) {
  return inplace_binary(binary_op(id::add), self, row_contributions("index_add_", self, dim, index, src));
}

Tensor embedding(const Tensor &weight, const Tensor &ids, int64_t padding_idx) {
  same_device("embedding", {&weight, &ids});
  if (weight.dim() != 2) throw Error(ErrorKind::Value, "[embedding] weight must be 2-D: got shape " + to_string(weight.sizes()));
  Dims sizes = ids.sizes();
  sizes.push_back(weight.sizes()[1]);
  const Tensor flat = reshape(checked_index("embedding", ids), {ids.numel()});
  const Tensor index = spread_index(flat, 0, weight.sizes());
  Tensor rows;
  {
    GradMode off(false);
    rows = gather_along(weight, 0, index);
  }
  if (needs_grad(weight))
    record(rows, "EmbeddingBackward", {&weight}, [flat, index, padding_idx, from = weight.sizes()](Node &, const Tensor &g, Tensors &gin) {
      // The padding row gets zeros only, so its gradient is +0.
      gin[0] = sum_along(padding_idx < 0 ? g : where(unsqueeze(eq(flat, Value(Scalar(padding_idx))), 1), 0.0, g), 0, index, from);
    });
  return view(rows, sizes);
}

Tensor flat_nonzero(const Tensor &t) {
  GradMode off(false);
  const Tensor mask = cast(t, HAL_BOOL);
  const int64_t count = t.numel() ? item(sum(mask)).i : 0;
  Tensor out = empty({count}, HAL_I64, t.device());
  if (count) launch(id::nonzero, {mask}, {&out});
  return out;
}

Tensors nonzero(const Tensor &t) {
  GradMode off(false);
  Tensor rest = flat_nonzero(t);
  Tensors out(static_cast<size_t>(t.dim()));
  for (size_t d = out.size(); d-- > 0;) {
    const Value size(Scalar(std::max<int64_t>(1, t.sizes()[d])));
    out[d] = d ? binary(binary_op(id::remainder), rest, size) : rest;
    if (d) rest = binary(binary_op(id::floor_divide), rest, size);
  }
  return out;
}

Tensor masked_select(const Tensor &x, const Tensor &mask) {
  same_device("masked_select", {&x, &mask});
  if (mask.dtype() != HAL_BOOL)
    throw Error(ErrorKind::Type, std::string("[masked_select] mask must be bool: got ") + dtype_long_name(mask.dtype()));
  const Dims sizes = broadcast_shapes("masked_select", x.sizes(), mask.sizes());
  return index_select(reshape(expand(x, sizes), {-1}), 0, flat_nonzero(expand(mask, sizes)));
}

}  // namespace flow
