// Ops that move elements by index (ops_index.cpp), on the order of elements (ops_order.cpp), and x[indices] (index_advanced.cpp).
#pragma once

#include "ops.hpp"

namespace flow {

Tensor gather(const Tensor &x, int64_t dim, const Tensor &index);
Tensor index_select(const Tensor &x, int64_t dim, const Tensor &index);
Tensor take_along_dim(const Tensor &x, const Tensor &index, const std::optional<int64_t> &dim);
Tensor scatter(const Tensor &x, int64_t dim, const Tensor &index, const Value &src);  // of equal destinations the last wins
Tensor scatter_(const Tensor &self, int64_t dim, const Tensor &index, const Value &src);
Tensor scatter_add(const Tensor &x, int64_t dim, const Tensor &index, const Tensor &src);
Tensor scatter_add_(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &src);
Tensor index_add(const Tensor &x, int64_t dim, const Tensor &index, const Tensor &src);
Tensor index_add_(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &src);
Tensor embedding(const Tensor &weight, const Tensor &ids, int64_t padding_idx);  // padding_idx < 0: none
Tensor flat_nonzero(const Tensor &t);                                            // row-major numbers of the elements ≠ 0; synchronises
Tensors nonzero(const Tensor &t);                                                // one coordinate per dimension
Tensor masked_select(const Tensor &x, const Tensor &mask);

// Equal ranks ≥ 1, axis wrapped, index i64.
Tensor gather_along(const Tensor &x, int64_t axis, const Tensor &index);
Tensor scatter_along(const Tensor &x, int64_t axis, const Tensor &index, const Tensor &src);
Tensor scatter_along_(const Tensor &self, int64_t axis, const Tensor &index, const Tensor &src);
Tensor sum_along(const Tensor &src, int64_t axis, const Tensor &index, const Dims &sizes);
// A 1-d index as one of the sizes, with stride 0 in all dimensions but the axis. sizes[axis] is replaced by its length.
Tensor spread_index(const Tensor &index, int64_t axis, Dims sizes);

Tensor flip(const Tensor &x, const std::vector<int64_t> &dims);
Tensor cumsum(const Tensor &x, int64_t dim);
std::pair<Tensor, Tensor> sort(const Tensor &x, int64_t dim, bool descending);
std::pair<Tensor, Tensor> topk(const Tensor &x, int64_t k, int64_t dim, bool largest);

// One dimension's index among several, as x[:, i, j] has: `indices` broadcast together; undefined entries are whole dimensions.
Tensor index_get(const Tensor &x, const Tensors &indices);
void index_put(const Tensor &x, const Tensors &indices, const Value &value, bool accumulate);

}  // namespace flow
