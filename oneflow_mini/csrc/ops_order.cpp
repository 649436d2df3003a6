// flip, cumsum, sort, topk.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"
#include "ops_index.hpp"

namespace flow {

namespace id = hal::op;

Tensor flip(const Tensor &x, const std::vector<int64_t> &dims) {
  Dims strides = x.strides();
  int64_t offset = x->offset;
  std::vector<bool> seen(x.sizes().size());
  for (int64_t given : dims) {
    const size_t d = static_cast<size_t>(wrap_dim(given, x.dim(), "flip"));
    if (x.dim() == 0) continue;
    if (seen[d]) throw Error(ErrorKind::Value, "[flip] dim " + std::to_string(d) + " appears multiple times in the list of dims");
    seen[d] = true;
    if (x.sizes()[d] > 1) {
      offset += (x.sizes()[d] - 1) * strides[d];
      strides[d] = -strides[d];
    }
  }
  Tensor out = empty(x.sizes(), x.dtype(), x.device());
  if (out.numel()) launch(id::copy, {alias(x, x.sizes(), strides, offset)}, {&out});
  if (needs_grad(x)) record(out, "FlipBackward", {&x}, [dims](Node &, const Tensor &g, Tensors &gin) { gin[0] = flip(g, dims); });
  return out;
}

Tensor cumsum(const Tensor &x, int64_t dim) {
  hal_attributes_cumsum attributes{};
  attributes.struct_size = sizeof(attributes);
  attributes.axis = wrap_dim(dim, x.dim(), "cumsum");
  Tensor out = empty(x.sizes(), hal::is_float(x.dtype()) ? x.dtype() : HAL_I64, x.device());
  if (out.numel()) launch(id::cumsum, {x}, {&out}, &attributes);
  if (needs_grad(x))
    record(out, "CumsumBackward", {&x},
           [axis = attributes.axis](Node &, const Tensor &g, Tensors &gin) { gin[0] = flip(cumsum(flip(g, {axis}), axis), {axis}); });
  return out;
}

namespace {

template <class Attributes>
std::pair<Tensor, Tensor> ordered(const char *node, uint32_t op, const Tensor &x, const Dims &sizes, const Attributes &attributes) {
  Tensor values = empty(sizes, x.dtype(), x.device()), indices = empty(sizes, HAL_I64, x.device());
  if (values.numel()) launch(op, {x}, {&values, &indices}, &attributes);
  if (needs_grad(x))
    record(values, node, {&x}, [axis = attributes.axis, indices, from = x.sizes()](Node &, const Tensor &g, Tensors &gin) {
      gin[0] = from.empty() ? g : sum_along(g, axis, indices, from);
    });
  return {values, indices};
}

}  // namespace

std::pair<Tensor, Tensor> sort(const Tensor &x, int64_t dim, bool descending) {
  hal_attributes_sort attributes{};
  attributes.struct_size = sizeof(attributes);
  attributes.axis = wrap_dim(dim, x.dim(), "sort");
  attributes.descending = descending;
  return ordered("SortBackward", id::sort, x, x.sizes(), attributes);
}

std::pair<Tensor, Tensor> topk(const Tensor &x, int64_t k, int64_t dim, bool largest) {
  hal_attributes_topk attributes{};
  attributes.struct_size = sizeof(attributes);
  attributes.axis = wrap_dim(dim, x.dim(), "topk");
  attributes.k = k;
  attributes.largest = largest;
  Dims sizes = x.sizes();
  const int64_t n = x.dim() ? sizes[static_cast<size_t>(attributes.axis)] : 1;
  if (k < 0 || k > n || (x.dim() == 0 && k != 1))
    throw Error(ErrorKind::Index, "[topk] selected index k out of range: got " + std::to_string(k) + " for size " + std::to_string(n));
  if (x.dim()) sizes[static_cast<size_t>(attributes.axis)] = k;
  return ordered("TopkBackward", id::topk, x, sizes, attributes);
}

}  // namespace flow
