// x[i, mask, …] with tensors: the indexed dimensions become one, numbered row-major, and one gather or scatter does the rest.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"
#include "ops_index.hpp"

namespace flow {

namespace id = hal::op;

namespace {

struct Plan {
  Dims order;        // permutation of x's dimensions that brings the indexed ones together
  size_t first = 0;  // where they stand then
  size_t count = 0;  // how many there are
  Dims index_sizes;  // what they are replaced by
  Tensor linear;     // flat, i64: numbers within the indexed dimensions
};

// Index of one dimension with negatives counted from its end. Reads the extremes, so it waits for the index.
Tensor wrapped(const Tensor &index, int64_t size, int64_t dim) {
  if (index.numel() == 0) return index;
  const int64_t low = item(extremum(index, false, {}, false)).i, high = item(extremum(index, true, {}, false)).i;
  if (low < -size || high >= size)
    throw Error(ErrorKind::Index, "[index] index " + std::to_string(low < -size ? low : high) + " is out of bounds for dimension " +
                                      std::to_string(dim) + " with size " + std::to_string(size));
  return low < 0 ? where(binary(binary_op(id::lt), index, Value(Scalar(0))), add(index, Value(Scalar(size))), index) : index;
}

Plan plan(const Tensor &x, const Tensors &indices) {
  GradMode off(false);
  Plan p;
  std::vector<size_t> indexed;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (&indices[d].device() != &x.device())
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[index] indices must be on the tensor's device: got " + indices[d].device().name() + ", expected " + x.device().name());
    indexed.push_back(d);
    try {
      p.index_sizes = broadcast_shapes("index", p.index_sizes, indices[d].sizes());
    } catch (const Error &) {
      throw Error(ErrorKind::Index, "[index] shape mismatch: indexing tensors could not be broadcast together: got " +
                                        to_string(p.index_sizes) + " and " + to_string(indices[d].sizes()));
    }
  }
  p.count = indexed.size();
  const bool together = indexed.back() - indexed.front() + 1 == indexed.size();
  p.first = together ? indexed.front() : 0;
  for (size_t d = 0; d < p.first; ++d) p.order.push_back(static_cast<int64_t>(d));
  for (size_t d : indexed) p.order.push_back(static_cast<int64_t>(d));
  for (int64_t d = static_cast<int64_t>(p.first); d < x.dim(); ++d)
    if (static_cast<size_t>(d) >= indices.size() || !indices[static_cast<size_t>(d)].defined()) p.order.push_back(d);
  for (size_t d : indexed) {
    const int64_t size = x.sizes()[d];
    const Tensor part = wrapped(cast(indices[d], HAL_I64), size, static_cast<int64_t>(d));
    p.linear = p.linear.defined() ? add(mul(p.linear, Value(Scalar(size))), part) : part;
  }
  p.linear = reshape(expand(p.linear, p.index_sizes), {count(p.index_sizes)});
  return p;
}

// Sizes with `count` dimensions from `first` on replaced.
Dims replaced(const Dims &sizes, size_t first, size_t count, const Dims &by) {
  Dims out;
  for (size_t d = 0; d < first; ++d) out.push_back(sizes[d]);
  for (int64_t s : by) out.push_back(s);
  for (size_t d = first + count; d < sizes.size(); ++d) out.push_back(sizes[d]);
  return out;
}

int64_t indexed_size(const Tensor &x, const Plan &p) {
  int64_t n = 1;
  for (size_t d = p.first; d < p.first + p.count; ++d) n *= x.sizes()[d];
  return n;
}

// Whether the indexed dimensions can be seen as one without a copy.
bool merges(const Tensor &x, const Plan &p) {
  for (size_t d = p.first; d + 1 < p.first + p.count; ++d)
    if (x.strides()[d] != x.strides()[d + 1] * x.sizes()[d + 1]) return false;
  return true;
}

}  // namespace

Tensor index_get(const Tensor &x, const Tensors &indices) {
  const Plan p = plan(x, indices);
  const Tensor turned = permute(x, p.order);
  const Tensor merged = p.count == 1 ? turned : reshape(turned, replaced(turned.sizes(), p.first, p.count, {indexed_size(turned, p)}));
  const int64_t axis = static_cast<int64_t>(p.first);
  const Tensor out = gather_along(merged, axis, spread_index(p.linear, axis, merged.sizes()));
  return view(out, replaced(turned.sizes(), p.first, p.count, p.index_sizes));
}

void index_put(const Tensor &x, const Tensors &indices, const Value &value, bool accumulate) {
  const Plan p = plan(x, indices);
  const Tensor turned = permute(x, p.order);
  const int64_t axis = static_cast<int64_t>(p.first);
  const Dims merged_sizes = replaced(turned.sizes(), p.first, p.count, {indexed_size(turned, p)});
  const Dims place = replaced(turned.sizes(), p.first, p.count, p.index_sizes);
  Dims flat = merged_sizes;
  flat[p.first] = p.linear.sizes()[0];
  Tensor src;
  if (value.is_tensor()) {
    src = to_device(cast(value.tensor, x.dtype()), x.device());
    while (src.dim() > static_cast<int64_t>(place.size()) && src.sizes()[0] == 1) src = squeeze(src, std::vector<int64_t>{0});
    if (src.dim() > static_cast<int64_t>(place.size()) || broadcast_shapes("index", place, src.sizes()) != place)
      throw Error(ErrorKind::Value, "[index] shape mismatch: value of shape " + to_string(value.tensor.sizes()) +
                                        " cannot be broadcast to indexing result of shape " + to_string(place));
    src = reshape(expand(src, place), flat);
  } else {
    src = expand(full({}, value.scalar, x.dtype(), x.device()), flat);
  }
  const Tensor index = spread_index(p.linear, axis, merged_sizes);
  if (!accumulate && (p.count == 1 || merges(turned, p))) {
    scatter_along_(p.count == 1 ? turned : view(turned, merged_sizes), axis, index, src);
    return;
  }
  const Tensor before = reshape(turned, merged_sizes);
  const Tensor after = accumulate ? add(before, sum_along(src, axis, index, merged_sizes)) : scatter_along(before, axis, index, src);
  copy_(turned, view(after, turned.sizes()));
}

}  // namespace flow
