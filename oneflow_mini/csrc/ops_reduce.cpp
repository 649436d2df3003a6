// Reductions and softmax.
#include <algorithm>

#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace id = hal::op;

namespace {

struct Reduced {
  uint64_t mask = 0;
  int64_t count = 1;  // elements that go into one result
  Dims kept;          // sizes with 1 in place of the reduced ones
  Dims dropped;       // sizes without them
};

Reduced reduce_shape(const char *op, const Tensor &t, const Axes &dims) {
  Reduced r;
  const int64_t rank = t.dim();
  if (dims && !dims->empty()) {
    for (int64_t d : *dims) {
      const int64_t w = wrap_dim(d, rank, op);
      if (rank == 0) continue;
      if (r.mask >> w & 1)
        throw Error(ErrorKind::Value, std::string("[") + op + "] dim " + std::to_string(w) + " appears multiple times in the list of dims");
      r.mask |= uint64_t{1} << w;
    }
  } else {
    r.mask = (uint64_t{1} << rank) - 1;
  }
  r.kept = t.sizes();
  for (int64_t i = 0; i < rank; ++i) {
    if (r.mask >> i & 1) {
      r.count *= t.sizes()[i];
      r.kept[i] = 1;
    } else {
      r.dropped.push_back(t.sizes()[i]);
    }
  }
  return r;
}

Tensor launch_reduce(uint32_t op, const Tensor &t, const Reduced &r, hal_dtype out_dtype) {
  hal_attributes_sum attributes{};
  attributes.struct_size = sizeof(attributes);
  attributes.axes = static_cast<int64_t>(r.mask);
  Tensor out = empty(r.kept, out_dtype, t.device());
  if (out.numel()) launch(op, {t}, {&out}, &attributes);
  return out;
}

// The result without the reduced dims, unless they are to be kept.
Tensor finish(const Tensor &out, const Reduced &r, bool keepdim) { return keepdim || r.kept == r.dropped ? out : view(out, r.dropped); }

Tensor unfinish(const Tensor &g, const Reduced &r) { return g.sizes() == r.kept ? g : reshape(g, r.kept); }

void check_not_empty(const char *op, const Tensor &t, const Reduced &r) {
  if (r.count == 0 && count(r.dropped) > 0)
    throw Error(ErrorKind::Index,
                std::string("[") + op + "] Expected reduction dim to be specified or non-zero: got shape " + to_string(t.sizes()));
}

hal_dtype sum_dtype(hal_dtype d) { return hal::is_float(d) ? d : HAL_I64; }

}  // namespace

Tensor sum(const Tensor &input, const Axes &dims, bool keepdim, hal_dtype dtype) {
  const Tensor t = dtype ? cast(input, dtype) : input;
  const Reduced r = reduce_shape("sum", t, dims);
  Tensor out = launch_reduce(id::sum, t, r, sum_dtype(t.dtype()));
  if (needs_grad(t))
    record(out, "SumBackward", {&t},
           [r, sizes = t.sizes()](Node &, const Tensor &g, Tensors &gin) { gin[0] = expand(unfinish(g, r), sizes); });
  out = finish(out, r, keepdim);
  return dtype && out.dtype() != dtype ? cast(out, dtype) : out;
}

Tensor mean(const Tensor &input, const Axes &dims, bool keepdim, hal_dtype dtype) {
  const Tensor t = dtype ? cast(input, dtype) : input;
  if (!hal::is_float(t.dtype()))
    throw Error(ErrorKind::Type, std::string("[mean] could not infer output dtype. Input dtype must be a floating point dtype: got ") +
                                     dtype_long_name(t.dtype()));
  const Reduced r = reduce_shape("mean", t, dims);
  Tensor out = launch_reduce(id::mean, t, r, t.dtype());
  if (needs_grad(t))
    record(out, "MeanBackward", {&t}, [r, sizes = t.sizes()](Node &, const Tensor &g, Tensors &gin) {
      gin[0] = expand(div(unfinish(g, r), static_cast<double>(r.count)), sizes);
    });
  return finish(out, r, keepdim);
}

namespace {
// Gradient of a product without dividing (a factor may be 0): the product of what comes before and of what comes after.
Tensor prod_gradient(const Tensor &g, const Tensor &x, const Reduced &r) {
  Dims order;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (!(r.mask >> i & 1)) order.push_back(i);
  for (int64_t i = 0; i < x.dim(); ++i)
    if (r.mask >> i & 1) order.push_back(i);
  const Tensor p = permute(x, order);
  const Dims permuted = p.sizes();
  Tensor rows = reshape(p, {count(r.dropped), r.count});
  const int64_t n = r.count;
  // ones[i, j] = factor j is left out of row i: an n × n mask; fine for the short axes that products are taken over.
  const Tensor i = arange(Scalar(0), Scalar(1), n, HAL_I64, x.device());
  const Tensor same = eq(unsqueeze(i, 1), unsqueeze(i, 0));
  const Tensor others = prod(where(same, 1.0, unsqueeze(rows, 1)), std::vector<int64_t>{2}, false);
  Tensor out = mul(others, reshape(g, {count(r.dropped), 1}));
  Dims inverse = order;
  for (size_t k = 0; k < order.size(); ++k) inverse[order[k]] = static_cast<int64_t>(k);
  return permute(reshape(out, permuted), inverse);
}
}  // namespace

Tensor prod(const Tensor &input, const Axes &dims, bool keepdim, hal_dtype dtype) {
  const Tensor t = dtype ? cast(input, dtype) : input;
  const Reduced r = reduce_shape("prod", t, dims);
  Tensor out = launch_reduce(id::prod, t, r, sum_dtype(t.dtype()));
  if (needs_grad(t))
    record(out, "ProdBackward", {&t}, [r, s = Saved(t)](Node &n, const Tensor &g, Tensors &gin) {
      const Tensor x = s.get(n);
      gin[0] = x.numel() ? prod_gradient(unfinish(g, r), x, r) : zeros(x.sizes(), x.dtype(), x.device());
    });
  return finish(out, r, keepdim);
}

Tensor extremum(const Tensor &t, bool largest, const Axes &dims, bool keepdim) {
  const char *name = largest ? "amax" : "amin";
  const Reduced r = reduce_shape(name, t, dims);
  check_not_empty(name, t, r);
  Tensor out = launch_reduce(largest ? id::amax : id::amin, t, r, t.dtype());
  if (needs_grad(t))
    record(out, largest ? "AmaxBackward" : "AminBackward", {&t},
           [r, s = Saved(t), y = Saved::output(out)](Node &n, const Tensor &g, Tensors &gin) {
             // Shared evenly among those that are equal to the result.
             Tensor x, best, hit, hits;
             {
               GradMode off(false);
               x = s.get(n);
               best = y.get(n);
               hit = cast(eq(x, best), g.dtype());
               std::vector<int64_t> axes;
               for (int64_t i = 0; i < x.dim(); ++i)
                 if (r.mask >> i & 1) axes.push_back(i);
               hits = axes.empty() ? hit : sum(hit, axes, true);
             }
             gin[0] = mul(hit, div(unfinish(g, r), hits));
           });
  return finish(out, r, keepdim);
}

Tensor arg_extremum(const Tensor &t, bool largest, const Axes &dims, bool keepdim) {
  const char *name = largest ? "argmax" : "argmin";
  const Reduced r = reduce_shape(name, t, dims);
  check_not_empty(name, t, r);
  return finish(launch_reduce(largest ? id::argmax : id::argmin, t, r, HAL_I64), r, keepdim);
}

std::pair<Tensor, Tensor> extremum_with_index(const Tensor &t, bool largest, int64_t dim, bool keepdim) {
  const std::vector<int64_t> axes{wrap_dim(dim, t.dim(), largest ? "max" : "min")};
  const Tensor index = arg_extremum(t, largest, axes, true);
  Tensor value;
  {
    GradMode off(false);
    value = extremum(t, largest, axes, true);
  }
  if (needs_grad(t))
    record(value, largest ? "MaxBackward" : "MinBackward", {&t},
           [index, sizes = t.sizes(), d = axes[0]](Node &, const Tensor &g, Tensors &gin) {
             if (sizes.empty()) {
               gin[0] = g;
               return;
             }
             Dims shape;
             for (size_t i = 0; i < sizes.size(); ++i) shape.push_back(static_cast<int64_t>(i) == d ? sizes[i] : 1);
             const Tensor positions = view(arange(Scalar(0), Scalar(1), sizes[d], HAL_I64, g.device()), shape);
             gin[0] = where(eq(positions, index), g, 0.0);
           });
  const bool drop = !keepdim && t.dim() > 0;
  return drop ? std::pair(squeeze(value, axes), squeeze(index, axes)) : std::pair(value, index);
}

Tensor any_all(const Tensor &t, bool all, const Axes &dims, bool keepdim) {
  const Reduced r = reduce_shape(all ? "all" : "any", t, dims);
  return finish(launch_reduce(all ? id::all : id::any, t, r, HAL_BOOL), r, keepdim);
}

namespace {
Tensor launch_axis(uint32_t op, std::initializer_list<Arg> inputs, const Tensor &like, int64_t axis) {
  hal_attributes_softmax attributes{};
  attributes.struct_size = sizeof(attributes);
  attributes.axis = axis;
  Tensor out = empty(like.sizes(), like.dtype(), like.device());
  if (out.numel()) launch(op, inputs, {&out}, &attributes);
  return out;
}

Tensor softmax_backward(const Tensor &g, const Tensor &y, int64_t axis) {
  Tensor out = launch_axis(id::softmax_backward, {g, y}, y, axis);
  if (needs_grad(g, y))
    record(out, "SoftmaxBackwardBackward", {&g, &y}, [sg = Saved(g), sy = Saved(y), axis](Node &n, const Tensor &h, Tensors &gin) {
      // out = y·(g − s) with s = Σ g·y.
      const Tensor a = sg.get(n), b = sy.get(n);
      if (n.needs(0)) gin[0] = softmax_backward(h, b, axis);
      if (n.needs(1)) {
        const std::vector<int64_t> axes{axis};
        const Tensor s = sum(mul(a, b), axes, true), hy = sum(mul(h, b), axes, true);
        gin[1] = sub(mul(h, sub(a, s)), mul(a, hy));
      }
    });
  return out;
}

Tensor log_softmax_backward(const Tensor &g, const Tensor &y, int64_t axis) {
  Tensor out = launch_axis(id::log_softmax_backward, {g, y}, y, axis);
  if (needs_grad(g, y))
    record(out, "LogSoftmaxBackwardBackward", {&g, &y}, [sg = Saved(g), sy = Saved(y), axis](Node &n, const Tensor &h, Tensors &gin) {
      // out = g − p·Σ g with p = exp(y).
      const std::vector<int64_t> axes{axis};
      const Tensor p = exp(sy.get(n));
      const Tensor hp = mul(h, p);
      if (n.needs(0)) gin[0] = sub(h, sum(hp, axes, true));
      if (n.needs(1)) gin[1] = neg(mul(hp, sum(sg.get(n), axes, true)));
    });
  return out;
}
}  // namespace

Tensor softmax(const Tensor &t, int64_t dim, bool log) {
  const char *name = log ? "log_softmax" : "softmax";
  if (!hal::is_float(t.dtype()))
    throw Error(ErrorKind::Type, std::string("[") + name + "] only defined for floating point dtypes: got " + dtype_long_name(t.dtype()));
  if (t.dim() == 0) return view(softmax(view(t, {1}), 0, log), {});
  const int64_t axis = wrap_dim(dim, t.dim(), name);
  Tensor out = launch_axis(log ? id::log_softmax : id::softmax, {t}, t, axis);
  if (needs_grad(t))
    record(out, log ? "LogSoftmaxBackward" : "SoftmaxBackward", {&t},
           [y = Saved::output(out), axis, log](Node &n, const Tensor &g, Tensors &gin) {
             gin[0] = log ? log_softmax_backward(g, y.get(n), axis) : softmax_backward(g, y.get(n), axis);
           });
  return out;
}

}  // namespace flow
