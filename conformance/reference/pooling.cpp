// Section 9, pooling. Planes are (planes, H, W): batch and channel are one axis.
#include <limits>

#include "reference.hpp"

namespace reference {
namespace {

using Pair = std::pair<int64_t, int64_t>;

// The first NaN, else the first largest, of the window's positions inside the input.
template <class F>
py::tuple max_pool2d(const Array<F> &x, Pair kernel, Pair stride, Pair padding, Pair dilation, Pair out_shape) {
  DefaultFloatMode mode;
  const int64_t planes = x.shape(0), H = x.shape(1), W = x.shape(2);
  Array<F> out({planes, out_shape.first, out_shape.second});
  Array<int64_t> indices({planes, out_shape.first, out_shape.second});
  const auto X = x.template unchecked<3>();
  auto Y = out.template mutable_unchecked<3>();
  auto I = indices.template mutable_unchecked<3>();
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t oh = 0; oh < out_shape.first; ++oh)
      for (int64_t ow = 0; ow < out_shape.second; ++ow) {
        int64_t best = -1;
        F value = F(0);
        for (int64_t kh = 0; kh < kernel.first; ++kh)
          for (int64_t kw = 0; kw < kernel.second; ++kw) {
            const int64_t ih = oh * stride.first - padding.first + kh * dilation.first;
            const int64_t iw = ow * stride.second - padding.second + kw * dilation.second;
            if (ih < 0 || ih >= H || iw < 0 || iw >= W) continue;
            const F candidate = X(p, ih, iw);
            const bool better = best < 0 || (value == value && (candidate != candidate || candidate > value));
            if (better) {
              best = ih * W + iw;
              value = candidate;
            }
          }
        if (best < 0) {  // nothing inside the input
          best = 0;
          value = -std::numeric_limits<F>::infinity();
        }
        Y(p, oh, ow) = value;
        I(p, oh, ow) = best;
      }
  return py::make_tuple(out, indices);
}

// g, indices (planes, outputs) -> (planes, inputs)
template <class F>
Array<F> max_pool2d_backward(const Array<F> &g, const Array<int64_t> &indices, int64_t inputs) {
  DefaultFloatMode mode;
  Array<F> out({static_cast<int64_t>(g.shape(0)), inputs});
  const auto G = g.template unchecked<2>();
  const auto I = indices.unchecked<2>();
  auto X = out.template mutable_unchecked<2>();
  for (int64_t p = 0; p < g.shape(0); ++p)
    for (int64_t i = 0; i < inputs; ++i) {
      F sum = F(0);
      for (int64_t o = 0; o < g.shape(1); ++o)
        if (I(p, o) == i) sum = sum + G(p, o);
      X(p, i) = sum;
    }
  return out;
}

template <class F>
void bind_one(py::module_ &m) {
  m.def("max_pool2d", &max_pool2d<F>, py::arg("x").noconvert(), py::arg("kernel"), py::arg("stride"), py::arg("padding"),
        py::arg("dilation"), py::arg("out_shape"));
  m.def("max_pool2d_backward", &max_pool2d_backward<F>, py::arg("g").noconvert(), py::arg("indices").noconvert(), py::arg("inputs"));
}

}  // namespace

void bind_pooling(py::module_ &m) {
  bind_one<float>(m);
  bind_one<double>(m);
}

}  // namespace reference
