// Views: other sizes, strides and offsets of the same storage; and their opposites, cat and sum_to.
#include <algorithm>

#include "autograd.hpp"
#include "launch.hpp"

namespace flow {

namespace {

// Replaces one -1 by what fits numel.
void resolve(const char *op, Dims &sizes, int64_t numel) {
  int64_t known = 1, free_dim = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1 && free_dim < 0) {
      free_dim = static_cast<int64_t>(i);
    } else if (sizes[i] < 0) {
      throw Error(ErrorKind::Value,
                  std::string("[") + op + "] invalid shape: got " + to_string(sizes) + ", expected sizes >= 0 and at most one -1");
    } else if (__builtin_mul_overflow(known, sizes[i], &known)) {
      throw Error(ErrorKind::Value, std::string("[") + op + "] shape too large: got " + to_string(sizes));
    }
  }
  const bool ambiguous = free_dim >= 0 && known == 0;  // any size would do
  if (free_dim >= 0 && known > 0 && numel % known == 0) {
    sizes[static_cast<size_t>(free_dim)] = numel / known;
    known = numel;
  }
  if (known != numel || ambiguous)
    throw Error(ErrorKind::Value,
                std::string("[") + op + "] shape '" + to_string(sizes) + "' is invalid for input of size " + std::to_string(numel));
}

// Strides of t seen as `sizes`, if its memory allows that.
bool view_strides(const Tensor &t, const Dims &sizes, Dims &strides) {
  strides = contiguous_strides(sizes);
  if (t.numel() == 0 || t.is_contiguous()) return true;
  // Walk from the back; each run of old dimensions that is contiguous in itself must be a product of new dimensions.
  int64_t v = static_cast<int64_t>(sizes.size()) - 1, run = 1, used = 1;
  int64_t base = t.strides()[t.sizes().size() - 1];
  for (int64_t i = t.dim() - 1; i >= 0; --i) {
    run *= t.sizes()[i];
    if (i == 0 || (t.sizes()[i - 1] != 1 && t.strides()[i - 1] != run * base)) {
      while (v >= 0 && (used < run || sizes[v] == 1)) {
        strides[v] = used * base;
        used *= sizes[v--];
      }
      if (used != run) return false;
      if (i > 0) {
        base = t.strides()[i - 1];
        run = used = 1;
      }
    }
  }
  return v == -1;
}

}  // namespace

Tensor as_strided(const Tensor &t, const Dims &sizes, const Dims &strides, int64_t offset) {
  if (sizes.size() != strides.size())
    throw Error(ErrorKind::Value,
                "[as_strided] size and stride must have the same length: got " + to_string(sizes) + " and " + to_string(strides));
  int64_t low = offset, high = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0) throw Error(ErrorKind::Value, "[as_strided] strides must be >= 0: got " + to_string(strides));
    if (sizes[i] > 0) {
      int64_t span;
      if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &span) || __builtin_add_overflow(high, span, &high))
        throw Error(ErrorKind::Value, "[as_strided] out of bounds");
    }
  }
  const int64_t limit = static_cast<int64_t>(t->storage->nbytes / hal::dtype_size(t.dtype()));
  if (low < 0 || (count(sizes) > 0 && high >= limit))
    throw Error(ErrorKind::Value, "[as_strided] out of bounds: got sizes " + to_string(sizes) + ", strides " + to_string(strides) +
                                      ", offset " + std::to_string(offset) + " for a storage of " + std::to_string(limit) + " elements");
  return make_view(t, "AsStridedBackward", sizes, strides, offset, strided_gradient(t, sizes, strides, offset));
}

Tensor view(const Tensor &t, Dims sizes) {
  resolve("view", sizes, t.numel());
  Dims strides;
  if (!view_strides(t, sizes, strides))
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[view] size is not compatible with input tensor's size and stride: got size " +
                                                to_string(t.sizes()) + ", stride " + to_string(t.strides()) + ", expected to see it as " +
                                                to_string(sizes) + ": use reshape");
  return make_view(t, "ViewBackward", sizes, strides, t->offset, [from = t.sizes()](const Tensor &g) { return reshape(g, from); });
}

Tensor reshape(const Tensor &t, Dims sizes) {
  resolve("reshape", sizes, t.numel());
  if (sizes == t.sizes() && !needs_grad(t)) return make_view(t, "ViewBackward", sizes, t.strides(), t->offset, {});
  Dims strides;
  if (view_strides(t, sizes, strides)) return view(t, sizes);
  return view(clone(t), sizes);
}

Tensor permute(const Tensor &t, const Dims &dims) {
  const size_t n = t.sizes().size();
  if (dims.size() != n)
    throw Error(ErrorKind::Value,
                "[permute] number of dims doesn't match: got " + to_string(dims) + " for a tensor of " + std::to_string(n) + " dimensions");
  Dims sizes = t.sizes(), strides = t.strides(), inverse = t.sizes();
  std::vector<bool> seen(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t d = static_cast<size_t>(wrap_dim(dims[i], static_cast<int64_t>(n), "permute"));
    if (seen[d]) throw Error(ErrorKind::Value, "[permute] duplicate dims are not allowed: got " + to_string(dims));
    seen[d] = true;
    sizes[i] = t.sizes()[d];
    strides[i] = t.strides()[d];
    inverse[d] = static_cast<int64_t>(i);
  }
  return make_view(t, "PermuteBackward", sizes, strides, t->offset, [inverse](const Tensor &g) { return permute(g, inverse); });
}

Tensor transpose(const Tensor &t, int64_t a, int64_t b) {
  a = wrap_dim(a, t.dim(), "transpose");
  b = wrap_dim(b, t.dim(), "transpose");
  Dims sizes = t.sizes(), strides = t.strides();
  if (t.dim() > 0) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return make_view(t, "TransposeBackward", sizes, strides, t->offset, [a, b](const Tensor &g) { return transpose(g, a, b); });
}

Tensor expand(const Tensor &t, const Dims &want) {
  if (want.size() < t.sizes().size())
    throw Error(ErrorKind::Value, "[expand] the number of sizes must be at least the number of dimensions: got " + to_string(want) +
                                      " for a tensor of shape " + to_string(t.sizes()));
  Dims sizes = want, strides = want;
  const size_t lead = want.size() - t.sizes().size();
  for (size_t i = 0; i < want.size(); ++i) {
    const int64_t have = i < lead ? 1 : t.sizes()[i - lead];
    if (sizes[i] == -1 && i >= lead) sizes[i] = have;
    if (sizes[i] < 0 || (have != 1 && have != sizes[i]))
      throw Error(ErrorKind::Value,
                  "[expand] can't expand: got shape " + to_string(t.sizes()) + ", expected to be broadcastable to " + to_string(want));
    strides[i] = i < lead || (have == 1 && sizes[i] != 1) ? 0 : t.strides()[i - lead];
  }
  return make_view(t, "ExpandBackward", sizes, strides, t->offset, [from = t.sizes()](const Tensor &g) { return sum_to(g, from); });
}

Tensor squeeze(const Tensor &t, const std::optional<std::vector<int64_t>> &dims) {
  std::vector<bool> drop(t.sizes().size(), !dims);
  if (dims)
    for (int64_t d : *dims) {
      const int64_t w = wrap_dim(d, t.dim(), "squeeze");
      if (t.dim()) drop[static_cast<size_t>(w)] = true;
    }
  Dims sizes, strides;
  for (size_t i = 0; i < drop.size(); ++i) {
    if (drop[i] && t.sizes()[i] == 1) continue;
    sizes.push_back(t.sizes()[i]);
    strides.push_back(t.strides()[i]);
  }
  return make_view(t, "SqueezeBackward", sizes, strides, t->offset, [from = t.sizes()](const Tensor &g) { return reshape(g, from); });
}

Tensor unsqueeze(const Tensor &t, int64_t dim) {
  const size_t at = static_cast<size_t>(wrap_dim(dim, t.dim() + 1, "unsqueeze"));
  Dims sizes = t.sizes(), strides = t.strides();
  sizes.insert(at, 1);
  strides.insert(at, at < t.sizes().size() ? t.sizes()[at] * t.strides()[at] : 1);
  return make_view(t, "UnsqueezeBackward", sizes, strides, t->offset, [from = t.sizes()](const Tensor &g) { return reshape(g, from); });
}

Tensor flatten(const Tensor &t, int64_t start, int64_t end) {
  start = wrap_dim(start, t.dim(), "flatten");
  end = wrap_dim(end, t.dim(), "flatten");
  if (start > end)
    throw Error(ErrorKind::Value,
                "[flatten] start_dim must come before end_dim: got " + std::to_string(start) + " and " + std::to_string(end));
  if (t.dim() == 0) return reshape(t, {1});
  Dims sizes;
  int64_t merged = 1;
  for (int64_t i = 0; i < t.dim(); ++i) {
    if (i < start || i > end) {
      sizes.push_back(t.sizes()[i]);
    } else {
      merged *= t.sizes()[i];
      if (i == end) sizes.push_back(merged);
    }
  }
  return reshape(t, sizes);
}

namespace {
// Gradient of a view that picks elements: zeros, with g at their place.
std::function<Tensor(const Tensor &)> scatter_back(const Tensor &t, std::function<Tensor(const Tensor &)> pick) {
  return [sizes = t.sizes(), pick = std::move(pick)](const Tensor &g) {
    Tensor whole = zeros(sizes, g.dtype(), g.device());
    copy_(pick(whole), g);
    return whole;
  };
}
}  // namespace

Tensor select(const Tensor &t, int64_t dim, int64_t index) {
  if (t.dim() == 0) throw Error(ErrorKind::Index, "[index] invalid index of a 0-dim tensor: use item()");
  dim = wrap_dim(dim, t.dim(), "select");
  const int64_t n = t.sizes()[dim];
  if (index < -n || index >= n)
    throw Error(ErrorKind::Index, "[index] index " + std::to_string(index) + " is out of bounds for dimension " + std::to_string(dim) +
                                      " with size " + std::to_string(n));
  if (index < 0) index += n;
  Dims sizes = t.sizes(), strides = t.strides();
  sizes.erase(dim);
  strides.erase(dim);
  return make_view(t, "SelectBackward", sizes, strides, t->offset + index * t.strides()[dim],
                   scatter_back(t, [dim, index](const Tensor &w) { return select(w, dim, index); }));
}

Tensor slice(const Tensor &t, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  Dims sizes = t.sizes(), strides = t.strides();
  sizes[dim] = stop > start ? (stop - start + step - 1) / step : 0;
  strides[dim] *= step;
  return make_view(t, "SliceBackward", sizes, strides, t->offset + (sizes[dim] ? start * t.strides()[dim] : 0),
                   scatter_back(t, [=](const Tensor &w) { return slice(w, dim, start, stop, step); }));
}

Tensors split(const Tensor &t, const std::vector<int64_t> &sections, int64_t dim) {
  dim = wrap_dim(dim, t.dim(), "split");
  if (t.dim() == 0) throw Error(ErrorKind::Value, "[split] expects at least a 1-dimensional tensor");
  int64_t at = 0;
  Tensors out;
  for (int64_t n : sections) {
    if (n < 0 || at + n > t.sizes()[dim])
      throw Error(ErrorKind::Value, "[split] sections must be >= 0 and sum to the size of dimension " + std::to_string(dim));
    out.push_back(slice(t, dim, at, at + n, 1));
    at += n;
  }
  if (at != t.sizes()[dim])
    throw Error(ErrorKind::Value, "[split] sections must sum exactly to " + std::to_string(t.sizes()[dim]) + ": got " + std::to_string(at));
  return out;
}

Tensor cat(const Tensors &tensors, int64_t dim) {
  if (tensors.empty()) throw Error(ErrorKind::Value, "[cat] expected a non-empty list of Tensors");
  hal_dtype dtype = tensors[0].dtype();
  for (const Tensor &t : tensors) dtype = promote(dtype, t.dtype());
  // A tensor of shape (0,) is nothing, whatever the others' shapes: PyTorch's habit, which growing a tensor from empty relies on.
  const auto is_nothing = [](const Tensor &t) { return t.sizes() == Dims{0}; };
  const auto first = std::find_if_not(tensors.begin(), tensors.end(), is_nothing);
  Dims sizes = first == tensors.end() ? tensors[0].sizes() : first->sizes();
  dim = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "cat");
  if (sizes.empty()) throw Error(ErrorKind::Value, "[cat] zero-dimensional tensor cannot be concatenated");
  sizes[dim] = 0;
  for (const Tensor &t : tensors) {
    Dims expected = sizes;
    if (t.sizes().size() == expected.size()) expected[dim] = t.sizes()[dim];
    if (t.sizes() != expected && !is_nothing(t))
      throw Error(ErrorKind::Value, "[cat] sizes of tensors must match except in dimension " + std::to_string(dim) + ": got " +
                                        to_string(t.sizes()) + ", expected " + to_string(expected));
    if (&t.device() != &tensors[0].device())
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[cat] Expected all tensors to be on the same device: got " + tensors[0].device().name() + " and " + t.device().name());
    if (!is_nothing(t)) sizes[dim] += t.sizes()[dim];
  }
  Tensor out = empty(sizes, dtype, tensors[0].device());
  bool needs = false;
  int64_t at = 0;
  for (const Tensor &t : tensors) {
    needs |= needs_grad(t);
    if (is_nothing(t)) continue;
    Tensor part = alias(out, t.sizes(), out.strides(), at * out.strides()[dim]);
    copy_into(part, t);
    at += t.sizes()[dim];
  }
  if (needs && hal::is_float(dtype)) {
    std::vector<int64_t> lengths;
    std::vector<hal_dtype> dtypes;
    for (const Tensor &t : tensors) {
      lengths.push_back(is_nothing(t) ? -1 : t.sizes()[dim]);
      dtypes.push_back(t.dtype());
    }
    auto backward = [dim, lengths, dtypes](Node &n, const Tensor &g, Tensors &gin) {
      int64_t start = 0;
      for (size_t i = 0; i < lengths.size(); ++i) {
        const int64_t length = std::max<int64_t>(0, lengths[i]);
        if (n.needs(i))
          gin[i] = lengths[i] < 0 ? zeros({0}, dtypes[i], g.device()) : cast(slice(g, dim, start, start + length, 1), dtypes[i]);
        start += length;
      }
    };
    Ref<Node> node(new OpNode<decltype(backward)>("CatBackward", backward));
    for (const Tensor &t : tensors) node->edges.push_back(hal::is_float(t.dtype()) ? gradient_edge(t) : Edge{});
    set_history(out, node);
  }
  return out;
}

Tensor stack(const Tensors &tensors, int64_t dim) {
  if (tensors.empty()) throw Error(ErrorKind::Value, "[stack] expected a non-empty list of Tensors");
  dim = wrap_dim(dim, tensors[0].dim() + 1, "stack");
  Tensors rows;
  for (const Tensor &t : tensors) {
    if (t.sizes() != tensors[0].sizes())
      throw Error(ErrorKind::Value, "[stack] expects each tensor to be equal size: got " + to_string(t.sizes()) + ", expected " +
                                        to_string(tensors[0].sizes()));
    rows.push_back(unsqueeze(t, dim));
  }
  return cat(rows, dim);
}

Tensor sum_to(const Tensor &t, const Dims &sizes) {
  if (t.sizes() == sizes) return t;
  const size_t lead = t.sizes().size() - sizes.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < t.sizes().size(); ++i)
    if (i < lead || (sizes[i - lead] == 1 && t.sizes()[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  Tensor s = axes.empty() ? t : sum(t, axes, true);
  return s.sizes() == sizes ? s : reshape(s, sizes);
}

}  // namespace flow
