// Section 3, pointwise ops, and section 4's functions, whose definition is the shared source that is called here. Operands come
// flat, broadcast, and in the compute type; conditions and masks as bool.
#include <hal/numerics/numerics.h>

#include <map>

#include "reference.hpp"

namespace reference {
namespace {

template <class T>
struct Table {
  std::map<std::string, T (*)(T)> unary;
  std::map<std::string, T (*)(T, T)> binary;
  std::map<std::string, T (*)(T, T, T)> ternary;
  std::map<std::string, bool (*)(T)> unary_predicate;
  std::map<std::string, bool (*)(T, T)> binary_predicate;
};

template <class T>
void add_predicates(Table<T> &t) {
  t.unary_predicate["logical_not"] = [](T a) { return a == 0; };
  t.binary_predicate["eq"] = [](T a, T b) { return a == b; };
  t.binary_predicate["ne"] = [](T a, T b) { return a != b; };
  t.binary_predicate["lt"] = [](T a, T b) { return a < b; };
  t.binary_predicate["le"] = [](T a, T b) { return a <= b; };
  t.binary_predicate["gt"] = [](T a, T b) { return a > b; };
  t.binary_predicate["ge"] = [](T a, T b) { return a >= b; };
  t.binary_predicate["logical_and"] = [](T a, T b) { return a != 0 && b != 0; };
  t.binary_predicate["logical_or"] = [](T a, T b) { return a != 0 || b != 0; };
  t.binary_predicate["logical_xor"] = [](T a, T b) { return (a != 0) != (b != 0); };
}

// ---- floats ----

template <class F>
F remainder_(F a, F b) {
  if (b == 0 || std::isinf(a) || a != a || b != b) return std::numeric_limits<F>::quiet_NaN();
  const F r = std::fmod(a, b);  // exact
  if (r == 0) return std::copysign(F(0), b);
  return std::signbit(r) != std::signbit(b) ? r + b : r;
}

template <class F>
F floor_divide(F a, F b) {
  if (b == 0) return a / b;
  const F r = std::fmod(a, b);  // exact; NaN for infinite a
  const F difference = a - r;
  F q = difference / b;
  if (r != 0 && std::signbit(r) != std::signbit(b)) q = q - F(1);
  if (q == 0) return std::copysign(F(0), a / b);
  const F floor = std::floor(q);
  const F rest = q - floor;
  return rest > F(0.5) ? floor + F(1) : floor;
}

template <class F>
void add_float_arithmetic(Table<F> &t) {
  t.unary["neg"] = [](F a) { return -a; };
  t.unary["abs"] = [](F a) { return std::fabs(a); };
  t.unary["sign"] = [](F a) { return a != a ? a : a > 0 ? F(1) : a < 0 ? F(-1) : F(0); };
  t.unary["square"] = [](F a) { return a * a; };
  t.unary["reciprocal"] = [](F a) { return F(1) / a; };
  t.unary["sqrt"] = [](F a) -> F { return std::sqrt(a); };
  t.unary["floor"] = [](F a) -> F { return std::floor(a); };
  t.unary["ceil"] = [](F a) -> F { return std::ceil(a); };
  t.unary["trunc"] = [](F a) -> F { return std::trunc(a); };
  t.unary["round"] = [](F a) -> F { return std::nearbyint(a); };  // ties to even: DefaultFloatMode
  t.unary["relu"] = [](F a) { return a < 0 ? F(0) : a; };
  t.unary_predicate["isnan"] = [](F a) { return a != a; };
  t.unary_predicate["isinf"] = [](F a) { return std::isinf(a); };
  t.unary_predicate["isfinite"] = [](F a) { return std::isfinite(a); };
  t.binary["add"] = [](F a, F b) { return a + b; };
  t.binary["sub"] = [](F a, F b) { return a - b; };
  t.binary["mul"] = [](F a, F b) { return a * b; };
  t.binary["div"] = [](F a, F b) { return a / b; };
  t.binary["remainder"] = remainder_<F>;
  t.binary["floor_divide"] = floor_divide<F>;
  t.binary["fmod"] = [](F a, F b) -> F { return std::fmod(a, b); };  // exact
  t.binary["maximum"] = maximum<F>;
  t.binary["minimum"] = minimum<F>;
  t.binary["relu_backward"] = [](F g, F y) { return y > 0 ? g : F(0); };
  t.binary["tanh_backward"] = [](F g, F y) {
    const F square = y * y;
    const F slope = F(1) - square;
    return g * slope;
  };
  t.binary["sigmoid_backward"] = [](F g, F y) {
    const F rest = F(1) - y;
    const F slope = rest * y;
    return g * slope;
  };
  t.ternary["clamp"] = [](F x, F low, F high) { return minimum(maximum(x, low), high); };
  add_predicates(t);
}

double exp_(double x) { return hal_exp_f64(x); }
double erf_(double x) { return hal_erf_f64(x); }
float tanh_(float x) { return hal_tanh_f32(x); }
double tanh_(double x) { return hal_tanh_f64(x); }
float sigmoid_(float x) { return hal_sigmoid_f32(x); }
double sigmoid_(double x) { return hal_sigmoid_f64(x); }

// Section 4, derivatives of the activations: one rounding per operation.
template <class F>
F limited(F x, F limit) {
  if (x != x) return x;
  return std::fmin(std::fmax(x, -limit), limit);
}

double gelu_backward_(double g, double raw) {
  const double x = limited(raw, 40.0);
  const double scaled = x * 0.70710678118654752440, e = erf_(scaled), twice = e + 1.0, cdf = twice * 0.5;
  const double square = x * x, exponent = square * -0.5, bell = exp_(exponent), pdf = bell * 0.39894228040143267794;
  const double tail = x * pdf, slope = cdf + tail;
  return g * slope;
}
// In f32 from the tail of the normal distribution.
float gelu_backward_(float g, float raw) {
  const float x = limited(raw, 14.7f), a = std::fabs(x);
  const hal_tail_f32 t = hal_normal_tail_f32_(a);
  const float inner = std::fma(-a, 0.39894228040143267794f, t.r), d = t.e * inner;
  if (raw < 0) return g * std::ldexp(d, t.n);
  return g * std::fma(-d, std::ldexp(1.0f, std::max(t.n, -126)), 1.0f);
}

template <class F>
void add_activation_gradients(Table<F> &t) {
  t.binary["silu_backward"] = [](F g, F raw) {
    const F x = limited(raw, F(800)), s = sigmoid_(x);
    const F rest = F(1) - s, product = x * rest, sum = product + F(1), slope = s * sum;
    return g * slope;
  };
  t.binary["gelu_backward"] = [](F g, F raw) { return gelu_backward_(g, raw); };
  t.binary["gelu_tanh_backward"] = [](F g, F raw) {
    const F x = limited(raw, F(40)), root = F(0.79788456080286535588L);
    const F square = x * x, cubic = square * F(0.044715L), one_more = cubic + F(1), u = x * one_more, scaled = u * root,
            tangent = tanh_(scaled);
    const F triple = square * F(0.134145L), inner = triple + F(1), slope = inner * root;
    const F up = tangent + F(1), half = up * F(0.5), half_x = x * F(0.5), squared = tangent * tangent, rest = F(1) - squared;
    const F side = half_x * rest, second = side * slope, derivative = half + second;
    return g * derivative;
  };
}

// clang-format off
#define FUNCTIONS(X) \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) \
  X(erf) X(rsqrt) X(sigmoid) X(silu) X(gelu) X(gelu_tanh) X(softplus) X(erfc) X(erfinv)
// clang-format on

const Table<float> &table(float) {
  static const Table<float> t = [] {
    Table<float> t;
    add_float_arithmetic(t);
    add_activation_gradients(t);
#define X(name) t.unary[#name] = [](float a) -> float { return hal_##name##_f32(a); };
    FUNCTIONS(X)
#undef X
    t.binary["pow"] = [](float a, float b) -> float { return hal_pow_f32(a, b); };
    t.binary["atan2"] = [](float a, float b) -> float { return hal_atan2_f32(a, b); };
    return t;
  }();
  return t;
}

const Table<double> &table(double) {
  static const Table<double> t = [] {
    Table<double> t;
    add_float_arithmetic(t);
    add_activation_gradients(t);
#define X(name) t.unary[#name] = [](double a) -> double { return hal_##name##_f64(a); };
    FUNCTIONS(X)
#undef X
    t.binary["pow"] = [](double a, double b) -> double { return hal_pow_f64(a, b); };
    t.binary["atan2"] = [](double a, double b) -> double { return hal_atan2_f64(a, b); };
    return t;
  }();
  return t;
}

// ---- integers: exact in 128 bits, then modulo 2^n ----

using Wide = __int128;

Wide floor_quotient(Wide a, Wide b) {
  if (b == 0) return 0;
  const Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

template <class I>
I wrap(Wide x) {
  return static_cast<I>(static_cast<uint64_t>(x));
}

template <class I>
Table<I> integer_table() {
  Table<I> t;
  t.unary["neg"] = [](I a) { return wrap<I>(-Wide(a)); };
  t.unary["abs"] = [](I a) { return wrap<I>(a < 0 ? -Wide(a) : Wide(a)); };
  t.unary["sign"] = [](I a) { return I(a > 0 ? 1 : a < 0 ? -1 : 0); };
  t.unary["square"] = [](I a) { return wrap<I>(Wide(a) * a); };
  t.unary["relu"] = [](I a) { return a < 0 ? I(0) : a; };
  t.unary["bitwise_not"] = [](I a) { return wrap<I>(-Wide(a) - 1); };
  t.binary["add"] = [](I a, I b) { return wrap<I>(Wide(a) + b); };
  t.binary["sub"] = [](I a, I b) { return wrap<I>(Wide(a) - b); };
  t.binary["mul"] = [](I a, I b) { return wrap<I>(Wide(a) * b); };
  t.binary["floor_divide"] = [](I a, I b) { return wrap<I>(floor_quotient(a, b)); };
  t.binary["remainder"] = [](I a, I b) { return b == 0 ? I(0) : wrap<I>(Wide(a) - Wide(b) * floor_quotient(a, b)); };
  t.binary["fmod"] = [](I a, I b) { return b == 0 ? I(0) : wrap<I>(Wide(a) % Wide(b)); };
  t.binary["maximum"] = [](I a, I b) { return a > b ? a : b; };
  t.binary["minimum"] = [](I a, I b) { return a < b ? a : b; };
  t.binary["bitwise_and"] = [](I a, I b) { return I(a & b); };
  t.binary["bitwise_or"] = [](I a, I b) { return I(a | b); };
  t.binary["bitwise_xor"] = [](I a, I b) { return I(a ^ b); };
  constexpr Wide width = 8 * sizeof(I);
  t.binary["bitwise_left_shift"] = [](I a, I n) { return n < 0 || Wide(n) >= width ? I(0) : wrap<I>(Wide(a) * (Wide(1) << n)); };
  t.binary["bitwise_right_shift"] = [](I a, I n) {
    const bool past = n < 0 || Wide(n) >= width;
    return past ? I(a < 0 ? -1 : 0) : wrap<I>(floor_quotient(a, Wide(1) << n));
  };
  t.ternary["clamp"] = [](I x, I low, I high) {
    const I raised = x > low ? x : low;
    return raised < high ? raised : high;
  };
  add_predicates(t);
  return t;
}

template <class I>
const Table<I> &table(I) {
  static const Table<I> t = integer_table<I>();
  return t;
}

const Table<bool> &table(bool) {
  static const Table<bool> t = [] {
    Table<bool> t;
    t.unary["bitwise_not"] = [](bool a) { return !a; };
    t.binary["add"] = [](bool a, bool b) { return a || b; };
    t.binary["mul"] = [](bool a, bool b) { return a && b; };
    t.binary["maximum"] = [](bool a, bool b) { return a || b; };
    t.binary["minimum"] = [](bool a, bool b) { return a && b; };
    t.binary["bitwise_and"] = [](bool a, bool b) { return a && b; };
    t.binary["bitwise_or"] = [](bool a, bool b) { return a || b; };
    t.binary["bitwise_xor"] = [](bool a, bool b) { return a != b; };
    add_predicates(t);
    return t;
  }();
  return t;
}

// ---- loops ----

template <class T, class Out, class F, class... Arrays>
py::array loop(F f, const Array<T> &first, const Arrays &...rest) {
  DefaultFloatMode mode;
  const py::ssize_t n = first.size();
  require(((rest.size() == n) && ...), "operands must be broadcast");
  Array<Out> out(n);
  for (py::ssize_t i = 0; i < n; ++i) out.mutable_data()[i] = f(first.data()[i], rest.data()[i]...);
  return std::move(out);
}

[[noreturn]] void no_such(const std::string &op) {
  throw std::invalid_argument("[reference] no such pointwise op for this dtype: got " + op);
}

template <class T>
void bind_type(py::module_ &m) {
  const auto a = py::arg("a").noconvert(), b = py::arg("b").noconvert(), c = py::arg("c").noconvert();
  m.def(
      "pointwise",
      [](const std::string &op, const Array<T> &a) -> py::array {
        const auto &t = table(T());
        if (t.unary.count(op)) return loop<T, T>(t.unary.at(op), a);
        if (t.unary_predicate.count(op)) return loop<T, bool>(t.unary_predicate.at(op), a);
        no_such(op);
      },
      py::arg("op"), a);
  m.def(
      "pointwise",
      [](const std::string &op, const Array<T> &a, const Array<T> &b) -> py::array {
        const auto &t = table(T());
        if (t.binary.count(op)) return loop<T, T>(t.binary.at(op), a, b);
        if (t.binary_predicate.count(op)) return loop<T, bool>(t.binary_predicate.at(op), a, b);
        no_such(op);
      },
      py::arg("op"), a, b);
  m.def(
      "pointwise",
      [](const std::string &op, const Array<T> &a, const Array<T> &b, const Array<T> &c) -> py::array {
        const auto &t = table(T());
        if (t.ternary.count(op)) return loop<T, T>(t.ternary.at(op), a, b, c);
        no_such(op);
      },
      py::arg("op"), a, b, c);
  m.def(
      "where",
      [](const Array<bool> &condition, const Array<T> &a, const Array<T> &b) -> py::array {
        return loop<T, T>([](T p, T q, bool choose) { return choose ? p : q; }, a, b, condition);
      },
      py::arg("condition").noconvert(), a, b);
}

template <class F>
void bind_dropout(py::module_ &m) {
  m.def(
      "dropout_apply",
      [](const Array<F> &x, const Array<bool> &keep, const Array<F> &s) -> py::array {
        return loop<F, F>([](F v, F scale, bool kept) { return kept ? v * scale : F(0); }, x, s, keep);
      },
      py::arg("x").noconvert(), py::arg("keep").noconvert(), py::arg("s").noconvert());
}

}  // namespace

void bind_pointwise(py::module_ &m) {
  bind_type<float>(m);
  bind_type<double>(m);
  bind_type<uint8_t>(m);
  bind_type<int8_t>(m);
  bind_type<int16_t>(m);
  bind_type<int32_t>(m);
  bind_type<int64_t>(m);
  bind_type<bool>(m);
  bind_dropout<float>(m);
  bind_dropout<double>(m);
}

}  // namespace reference
