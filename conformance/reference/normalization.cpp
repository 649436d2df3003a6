// Section 6, layer_norm and batch_norm (rows are the normalized sets, in C), and section 9, averages. Written from docs/numerics.md.
#include "reference.hpp"

namespace reference {
namespace {

// Section 5: blocks of 4096, 32 lanes, a tree.
template <class C>
C total(std::vector<C> x) {
  if (x.empty()) return C(0);
  while (true) {
    std::vector<C> results;
    for (size_t begin = 0; begin < x.size(); begin += 4096) {
      std::vector<C> lane(32, C(0));
      const size_t end = std::min(x.size(), begin + 4096);
      for (size_t i = begin; i < end; ++i) lane[(i - begin) % 32] = lane[(i - begin) % 32] + x[i];
      for (size_t s = 16; s >= 1; s /= 2)
        for (size_t j = 0; j < s; ++j) lane[j] = lane[j] + lane[j + s];
      results.push_back(lane[0]);
    }
    if (results.size() == 1) return results[0];
    x = results;
  }
}

template <class C>
std::vector<C> row(const Array<C> &x, py::ssize_t r) {
  const py::ssize_t n = x.shape(1);
  return std::vector<C>(x.data() + r * n, x.data() + (r + 1) * n);
}

// x (rows, n) -> mean, var, rstd (rows)
template <class C>
py::tuple statistics(const Array<C> &x, C eps) {
  DefaultFloatMode mode;
  Array<C> mean(x.shape(0)), var(x.shape(0)), rstd(x.shape(0));
  const C n = static_cast<C>(static_cast<int64_t>(x.shape(1)));
  for (py::ssize_t r = 0; r < x.shape(0); ++r) {
    std::vector<C> values = row(x, r);
    const C m = total(values) / n;
    for (C &v : values) {
      const C d = v - m;
      v = d * d;
    }
    const C variance = total(values) / n, shifted = variance + eps, root = std::sqrt(shifted);
    mean.mutable_data()[r] = m;
    var.mutable_data()[r] = variance;
    rstd.mutable_data()[r] = C(1) / root;
  }
  return py::make_tuple(mean, var, rstd);
}

// x̂ (rows, n)
template <class C>
Array<C> normalized(const Array<C> &x, const Array<C> &mean, const Array<C> &rstd) {
  DefaultFloatMode mode;
  Array<C> out({x.shape(0), x.shape(1)});
  for (py::ssize_t r = 0; r < x.shape(0); ++r)
    for (py::ssize_t i = 0; i < x.shape(1); ++i) {
      const C d = x.data()[r * x.shape(1) + i] - mean.data()[r];
      out.mutable_data()[r * x.shape(1) + i] = d * rstd.data()[r];
    }
  return out;
}

// Of values that lie equally in both: a∘b, elementwise.
template <class C>
Array<C> times(const Array<C> &a, const Array<C> &b) {
  DefaultFloatMode mode;
  require(a.size() == b.size(), "sizes differ");
  Array<C> out({a.shape(0), a.shape(1)});
  for (py::ssize_t i = 0; i < a.size(); ++i) out.mutable_data()[i] = a.data()[i] * b.data()[i];
  return out;
}
template <class C>
Array<C> plus(const Array<C> &a, const Array<C> &b) {
  DefaultFloatMode mode;
  require(a.size() == b.size(), "sizes differ");
  Array<C> out({a.shape(0), a.shape(1)});
  for (py::ssize_t i = 0; i < a.size(); ++i) out.mutable_data()[i] = a.data()[i] + b.data()[i];
  return out;
}

template <class C>
Array<C> sums(const Array<C> &x) {
  DefaultFloatMode mode;
  Array<C> out(x.shape(0));
  for (py::ssize_t r = 0; r < x.shape(0); ++r) out.mutable_data()[r] = total(row(x, r));
  return out;
}

// ((h − s1/n) − x̂·(s2/n))·scale, with one s1, s2 and scale per row.
template <class C>
Array<C> input_gradient(const Array<C> &h, const Array<C> &xhat, const Array<C> &s1, const Array<C> &s2, const Array<C> &scale) {
  DefaultFloatMode mode;
  Array<C> out({h.shape(0), h.shape(1)});
  const C n = static_cast<C>(static_cast<int64_t>(h.shape(1)));
  for (py::ssize_t r = 0; r < h.shape(0); ++r)
    for (py::ssize_t i = 0; i < h.shape(1); ++i) {
      const py::ssize_t k = r * h.shape(1) + i;
      const C first = s1.data()[r] / n, second = s2.data()[r] / n;
      const C centred = h.data()[k] - first, along = xhat.data()[k] * second, rest = centred - along;
      out.mutable_data()[k] = rest * scale.data()[r];
    }
  return out;
}

// x (planes, H, W); windows: begin, end per output row and column; counts (OH, OW). balanced: the sum of section 5, else a chain.
template <class C>
Array<C> average(const Array<C> &x, const Array<int64_t> &rows, const Array<int64_t> &columns, const Array<int64_t> &counts,
                 bool balanced) {
  DefaultFloatMode mode;
  Array<C> out({x.shape(0), counts.shape(0), counts.shape(1)});
  const auto X = x.template unchecked<3>();
  auto Y = out.template mutable_unchecked<3>();
  for (py::ssize_t p = 0; p < x.shape(0); ++p)
    for (py::ssize_t oh = 0; oh < counts.shape(0); ++oh)
      for (py::ssize_t ow = 0; ow < counts.shape(1); ++ow) {
        std::vector<C> window;
        for (int64_t h = rows.at(oh, 0); h < rows.at(oh, 1); ++h)
          for (int64_t w = columns.at(ow, 0); w < columns.at(ow, 1); ++w) window.push_back(X(p, h, w));
        C sum = 0;
        if (balanced)
          sum = total(window);
        else
          for (C v : window) sum = sum + v;
        Y(p, oh, ow) = sum / static_cast<C>(counts.at(oh, ow));
      }
  return out;
}

// For each input position, its outputs in ascending order.
template <class C>
Array<C> average_backward(const Array<C> &g, const Array<int64_t> &rows, const Array<int64_t> &columns, const Array<int64_t> &counts,
                          int64_t height, int64_t width) {
  DefaultFloatMode mode;
  Array<C> out({int64_t(g.shape(0)), height, width});
  const auto G = g.template unchecked<3>();
  auto X = out.template mutable_unchecked<3>();
  for (py::ssize_t p = 0; p < g.shape(0); ++p)
    for (int64_t h = 0; h < height; ++h)
      for (int64_t w = 0; w < width; ++w) {
        C sum = 0;
        for (py::ssize_t oh = 0; oh < counts.shape(0); ++oh)
          for (py::ssize_t ow = 0; ow < counts.shape(1); ++ow) {
            if (h < rows.at(oh, 0) || h >= rows.at(oh, 1) || w < columns.at(ow, 0) || w >= columns.at(ow, 1)) continue;
            const C share = G(p, oh, ow) / static_cast<C>(counts.at(oh, ow));
            sum = sum + share;
          }
        X(p, h, w) = sum;
      }
  return out;
}

template <class C>
void bind_one(py::module_ &m) {
  const auto x = py::arg("x").noconvert(), a = py::arg("a").noconvert(), b = py::arg("b").noconvert();
  m.def("norm_statistics", &statistics<C>, x, py::arg("eps"));
  m.def("norm_normalized", &normalized<C>, x, py::arg("mean").noconvert(), py::arg("rstd").noconvert());
  m.def("norm_times", &times<C>, a, b);
  m.def("norm_plus", &plus<C>, a, b);
  m.def("norm_sums", &sums<C>, x);
  m.def("norm_input_gradient", &input_gradient<C>, py::arg("h").noconvert(), py::arg("xhat").noconvert(), py::arg("s1").noconvert(),
        py::arg("s2").noconvert(), py::arg("scale").noconvert());
  m.def("average", &average<C>, x, py::arg("rows"), py::arg("columns"), py::arg("counts"), py::arg("balanced"));
  m.def("average_backward", &average_backward<C>, py::arg("g").noconvert(), py::arg("rows"), py::arg("columns"), py::arg("counts"),
        py::arg("height"), py::arg("width"));
}

}  // namespace

void bind_normalization(py::module_ &m) {
  bind_one<float>(m);
  bind_one<double>(m);
}

}  // namespace reference
