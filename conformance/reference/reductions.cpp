// Section 5, reductions, and section 6, composites along one axis. Arrays are (rows, n): one result, or one row of results, per row.
#include <hal/numerics/numerics.h>

#include "reference.hpp"

namespace reference {
namespace {

constexpr size_t kBlock = 4096;
constexpr size_t kLanes = 32;

float exp_(float x) { return hal_exp_f32(x); }
double exp_(double x) { return hal_exp_f64(x); }
float log_(float x) { return hal_log_f32(x); }
double log_(double x) { return hal_log_f64(x); }

// One block of at most 4096 values.
template <class A, class Op>
A reduce_block(const A *x, size_t m, A start, Op op) {
  A lane[kLanes];
  for (size_t j = 0; j < kLanes; ++j) {
    lane[j] = start;
    for (size_t i = j; i < m; i += kLanes) lane[j] = op(lane[j], x[i]);
  }
  for (size_t s = 16; s >= 1; s /= 2)
    for (size_t j = 0; j < s; ++j) lane[j] = op(lane[j], lane[j + s]);
  return lane[0];
}

template <class A, class Op>
A reduce(const std::vector<A> &x, A start, Op op) {
  if (x.empty()) return start;
  std::vector<A> results;
  for (size_t begin = 0; begin < x.size(); begin += kBlock)
    results.push_back(reduce_block(x.data() + begin, std::min(kBlock, x.size() - begin), start, op));
  return results.size() == 1 ? results[0] : reduce(results, start, op);
}

template <class A>
A plus(A a, A b) {
  return a + b;
}
template <class A>
A times(A a, A b) {
  return a * b;
}

template <class A>
A sum(const std::vector<A> &x) {
  return reduce<A>(x, A(0), plus<A>);
}

template <class A>
std::vector<A> row(const Array<A> &x, py::ssize_t r) {
  const py::ssize_t n = x.shape(1);
  return std::vector<A>(x.data() + r * n, x.data() + (r + 1) * n);
}

template <class A, class Out, class F>
Array<Out> per_row(const Array<A> &x, F f) {
  DefaultFloatMode mode;
  require(x.ndim() == 2, "wrong rank: expected rows of values");
  Array<Out> out(x.shape(0));
  for (py::ssize_t r = 0; r < x.shape(0); ++r) out.mutable_data()[r] = f(row(x, r));
  return out;
}

template <class A>
A mean(const std::vector<A> &x) {
  return sum(x) / static_cast<A>(static_cast<int64_t>(x.size()));
}

template <class A, class Op>
A extreme(const std::vector<A> &x, Op op) {
  require(!x.empty(), "extreme of nothing");
  A best = x[0];
  for (A v : x) best = op(best, v);
  return best;
}

// Index of the first NaN, else of the first value than which none is better.
template <class A, class Better>
int64_t first_best(const std::vector<A> &x, Better better) {
  require(!x.empty(), "index of the extreme of nothing");
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != x[i]) return static_cast<int64_t>(i);
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i)
    if (better(x[i], x[best])) best = i;
  return static_cast<int64_t>(best);
}

template <class A>
void bind_rows(py::module_ &m) {
  using Row = const std::vector<A> &;
  const auto x = py::arg("x").noconvert();
  m.def("amax", [](const Array<A> &a) { return per_row<A, A>(a, [](Row v) { return extreme(v, maximum<A>); }); }, x);
  m.def("amin", [](const Array<A> &a) { return per_row<A, A>(a, [](Row v) { return extreme(v, minimum<A>); }); }, x);
  m.def(
      "argmax",
      [](const Array<A> &a) { return per_row<A, int64_t>(a, [](Row v) { return first_best(v, [](A p, A q) { return p > q; }); }); }, x);
  m.def(
      "argmin",
      [](const Array<A> &a) { return per_row<A, int64_t>(a, [](Row v) { return first_best(v, [](A p, A q) { return p < q; }); }); }, x);
  m.def(
      "any",
      [](const Array<A> &a) {
        return per_row<A, bool>(a, [](Row v) {
          bool r = false;
          for (A e : v) r = r || e != 0;
          return r;
        });
      },
      x);
  m.def(
      "all",
      [](const Array<A> &a) {
        return per_row<A, bool>(a, [](Row v) {
          bool r = true;
          for (A e : v) r = r && e != 0;
          return r;
        });
      },
      x);
}

// For integers A is uint64: its + and × wrap as those of i64 do.
template <class A>
void bind_sums(py::module_ &m) {
  const auto x = py::arg("x").noconvert();
  m.def("sum", [](const Array<A> &a) { return per_row<A, A>(a, sum<A>); }, x);
  m.def(
      "prod", [](const Array<A> &a) { return per_row<A, A>(a, [](const std::vector<A> &v) { return reduce<A>(v, A(1), times<A>); }); }, x);
}

// One row in, one row out.
template <class C, class F>
Array<C> map_rows(const Array<C> &a, const Array<C> &b, F f) {
  DefaultFloatMode mode;
  require(a.ndim() == 2 && b.ndim() == 2 && a.shape(0) == b.shape(0) && a.shape(1) == b.shape(1), "shapes differ");
  Array<C> out({a.shape(0), a.shape(1)});
  for (py::ssize_t r = 0; r < a.shape(0); ++r) {
    if (a.shape(1) == 0) continue;
    const std::vector<C> result = f(row(a, r), row(b, r));
    for (size_t i = 0; i < result.size(); ++i) out.mutable_data()[r * a.shape(1) + static_cast<py::ssize_t>(i)] = result[i];
  }
  return out;
}

template <class C>
std::vector<C> softmax(const std::vector<C> &x, const std::vector<C> &) {
  const C m = extreme(x, maximum<C>);
  std::vector<C> e, y;
  for (C v : x) e.push_back(exp_(v - m));
  const C total = sum(e);
  for (C v : e) y.push_back(v / total);
  return y;
}

template <class C>
std::vector<C> log_softmax(const std::vector<C> &x, const std::vector<C> &) {
  const C m = extreme(x, maximum<C>);
  std::vector<C> d, e, y;
  for (C v : x) d.push_back(v - m);
  for (C v : d) e.push_back(exp_(v));
  const C logarithm = log_(sum(e));
  for (C v : d) y.push_back(v - logarithm);
  return y;
}

template <class C>
std::vector<C> softmax_backward(const std::vector<C> &g, const std::vector<C> &y) {
  std::vector<C> p, out;
  for (size_t i = 0; i < g.size(); ++i) p.push_back(g[i] * y[i]);
  const C total = sum(p);
  for (size_t i = 0; i < g.size(); ++i) out.push_back(y[i] * (g[i] - total));
  return out;
}

template <class C>
std::vector<C> log_softmax_backward(const std::vector<C> &g, const std::vector<C> &y) {
  const C total = sum(g);
  std::vector<C> out;
  for (size_t i = 0; i < g.size(); ++i) out.push_back(g[i] - exp_(y[i]) * total);
  return out;
}

template <class C>
void bind_floats(py::module_ &m) {
  const auto x = py::arg("x").noconvert(), g = py::arg("g").noconvert(), y = py::arg("y").noconvert();
  m.def("mean", [](const Array<C> &a) { return per_row<C, C>(a, mean<C>); }, x);
  m.def("softmax", [](const Array<C> &a) { return map_rows<C>(a, a, softmax<C>); }, x);
  m.def("log_softmax", [](const Array<C> &a) { return map_rows<C>(a, a, log_softmax<C>); }, x);
  m.def("softmax_backward", [](const Array<C> &a, const Array<C> &b) { return map_rows<C>(a, b, softmax_backward<C>); }, g, y);
  m.def("log_softmax_backward", [](const Array<C> &a, const Array<C> &b) { return map_rows<C>(a, b, log_softmax_backward<C>); }, g, y);
}

}  // namespace

void bind_reductions(py::module_ &m) {
  bind_rows<float>(m);
  bind_rows<double>(m);
  bind_rows<int64_t>(m);
  bind_sums<float>(m);
  bind_sums<double>(m);
  bind_sums<uint64_t>(m);
  bind_floats<float>(m);
  bind_floats<double>(m);
}

}  // namespace reference
