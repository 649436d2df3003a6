// Derivatives of the pointwise ops, as ops themselves: so second derivatives exist wherever first ones do.
#include <unordered_map>

#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace {

using T = const Tensor &;
using V = const Value &;
namespace id = hal::op;

Tensor call(uint32_t op, T a) { return unary(unary_op(op), a); }
Tensor call(uint32_t op, V a, V b) { return binary(binary_op(op), a, b); }

constexpr double kLn2 = 0.693147180559945309417232121458;           // OEIS A002162
constexpr double kLn10 = 2.30258509299404568401799145468;           // OEIS A002392
constexpr double kTwoOverSqrtPi = 1.12837916709551257389615890312;  // OEIS A190732
constexpr double kInvSqrt2Pi = 0.398942280401432677939946059934;    // OEIS A218708
constexpr double kSqrt2OverPi = 0.797884560802865355879892119869;   // OEIS A076668

Value squared(V v) { return v.is_tensor() ? Value(mul(v, v)) : Value(v.scalar.d * v.scalar.d); }

Tensor zero(T g, T) { return zeros(g.sizes(), g.dtype(), g.device()); }

// Second derivatives of the activations; the first are ops of the table.
Tensor silu_second(T x) {
  // s·(1 − s)·(2 + x·(1 − 2s)).
  const Tensor s = call(id::sigmoid, x);
  return mul(mul(s, sub(1.0, s)), add(mul(x, sub(1.0, mul(s, 2.0))), 2.0));
}

// d²/dx² x·Φ(x) = φ(x)·(2 − x²).
Tensor gelu_second(T x) {
  const Tensor x2 = mul(x, x);
  return mul(mul(exp(mul(x2, -0.5)), kInvSqrt2Pi), sub(2.0, x2));
}

// gelu_tanh = x/2·(1 + t), t = tanh u, u = √(2/π)·(x + a·x³): (1 − t²)·(u' + x/2·(u'' − 2·t·u'²)).
Tensor gelu_tanh_second(T x) {
  constexpr double kA = 0.044715;
  const Tensor x2 = mul(x, x);
  const Tensor t = call(id::tanh, mul(mul(x, add(mul(x2, kA), 1.0)), kSqrt2OverPi));
  const Tensor du = mul(add(mul(x2, 3 * kA), 1.0), kSqrt2OverPi), ddu = mul(x, 6 * kA * kSqrt2OverPi);
  return mul(sub(1.0, mul(t, t)), add(du, mul(mul(x, 0.5), sub(ddu, mul(mul(t, mul(du, du)), 2.0)))));
}

const std::vector<UnaryOp> kUnary = {
    {"neg", "NegBackward", id::neg, Kind::Same, Keep::Nothing, [](T g, T) { return neg(g); }},
    {"abs", "AbsBackward", id::abs, Kind::Same, Keep::Input, [](T g, T x) { return mul(g, call(id::sign, x)); }},
    {"sign", "SignBackward", id::sign, Kind::Same, Keep::Nothing, zero},
    {"square", "SquareBackward", id::square, Kind::Same, Keep::Input, [](T g, T x) { return mul(g, mul(x, 2.0)); }},
    {"reciprocal", "ReciprocalBackward", id::reciprocal, Kind::Float, Keep::Output, [](T g, T y) { return mul(neg(g), mul(y, y)); }},
    {"sqrt", "SqrtBackward", id::sqrt, Kind::Float, Keep::Output, [](T g, T y) { return div(g, mul(y, 2.0)); }},
    {"rsqrt", "RsqrtBackward", id::rsqrt, Kind::Float, Keep::Output, [](T g, T y) { return mul(mul(g, -0.5), mul(y, mul(y, y))); }},
    {"floor", "FloorBackward", id::floor, Kind::Same, Keep::Nothing, zero},
    {"ceil", "CeilBackward", id::ceil, Kind::Same, Keep::Nothing, zero},
    {"trunc", "TruncBackward", id::trunc, Kind::Same, Keep::Nothing, zero},
    {"round", "RoundBackward", id::round, Kind::Same, Keep::Nothing, zero},
    {"relu", "ReluBackward", id::relu, Kind::Same, Keep::Output, [](T g, T y) { return call(id::relu_backward, g, y); }},
    {"exp", "ExpBackward", id::exp, Kind::Float, Keep::Output, [](T g, T y) { return mul(g, y); }},
    {"exp2", "Exp2Backward", id::exp2, Kind::Float, Keep::Output, [](T g, T y) { return mul(g, mul(y, kLn2)); }},
    {"expm1", "Expm1Backward", id::expm1, Kind::Float, Keep::Output, [](T g, T y) { return mul(g, add(y, 1.0)); }},
    {"log", "LogBackward", id::log, Kind::Float, Keep::Input, [](T g, T x) { return div(g, x); }},
    {"log2", "Log2Backward", id::log2, Kind::Float, Keep::Input, [](T g, T x) { return div(g, mul(x, kLn2)); }},
    {"log10", "Log10Backward", id::log10, Kind::Float, Keep::Input, [](T g, T x) { return div(g, mul(x, kLn10)); }},
    {"log1p", "Log1pBackward", id::log1p, Kind::Float, Keep::Input, [](T g, T x) { return div(g, add(x, 1.0)); }},
    {"sin", "SinBackward", id::sin, Kind::Float, Keep::Input, [](T g, T x) { return mul(g, call(id::cos, x)); }},
    {"cos", "CosBackward", id::cos, Kind::Float, Keep::Input, [](T g, T x) { return mul(neg(g), call(id::sin, x)); }},
    {"tan", "TanBackward", id::tan, Kind::Float, Keep::Output, [](T g, T y) { return mul(g, add(mul(y, y), 1.0)); }},
    {"atan", "AtanBackward", id::atan, Kind::Float, Keep::Input, [](T g, T x) { return div(g, add(mul(x, x), 1.0)); }},
    {"asin", "AsinBackward", id::asin, Kind::Float, Keep::Input, [](T g, T x) { return mul(g, call(id::rsqrt, sub(1.0, mul(x, x)))); }},
    {"acos", "AcosBackward", id::acos, Kind::Float, Keep::Input,
     [](T g, T x) { return mul(neg(g), call(id::rsqrt, sub(1.0, mul(x, x)))); }},
    {"sinh", "SinhBackward", id::sinh, Kind::Float, Keep::Input, [](T g, T x) { return mul(g, call(id::cosh, x)); }},
    {"cosh", "CoshBackward", id::cosh, Kind::Float, Keep::Input, [](T g, T x) { return mul(g, call(id::sinh, x)); }},
    {"tanh", "TanhBackward", id::tanh, Kind::Float, Keep::Output, [](T g, T y) { return call(id::tanh_backward, g, y); }},
    {"erf", "ErfBackward", id::erf, Kind::Float, Keep::Input, [](T g, T x) { return mul(g, mul(exp(neg(mul(x, x))), kTwoOverSqrtPi)); }},
    {"erfc", "ErfcBackward", id::erfc, Kind::Float, Keep::Input,
     [](T g, T x) { return mul(g, mul(exp(neg(mul(x, x))), -kTwoOverSqrtPi)); }},
    {"erfinv", "ErfinvBackward", id::erfinv, Kind::Float, Keep::Output,
     [](T g, T y) { return mul(g, mul(exp(mul(y, y)), 1.0 / kTwoOverSqrtPi)); }},
    {"sigmoid", "SigmoidBackward", id::sigmoid, Kind::Float, Keep::Output, [](T g, T y) { return call(id::sigmoid_backward, g, y); }},
    {"silu", "SiluBackward", id::silu, Kind::Float, Keep::Input, [](T g, T x) { return call(id::silu_backward, g, x); }},
    {"gelu", "GeluBackward", id::gelu, Kind::Float, Keep::Input, [](T g, T x) { return call(id::gelu_backward, g, x); }},
    {"gelu_tanh", "GeluBackward", id::gelu_tanh, Kind::Float, Keep::Input, [](T g, T x) { return call(id::gelu_tanh_backward, g, x); }},
    {"softplus", "SoftplusBackward", id::softplus, Kind::Float, Keep::Input, [](T g, T x) { return mul(g, call(id::sigmoid, x)); }},
    {"logical_not", "", id::logical_not, Kind::Compare, Keep::Nothing, nullptr},
    {"bitwise_not", "", id::bitwise_not, Kind::Integer, Keep::Nothing, nullptr},
    {"isnan", "", id::isnan, Kind::Compare, Keep::Nothing, nullptr},
    {"isinf", "", id::isinf, Kind::Compare, Keep::Nothing, nullptr},
    {"isfinite", "", id::isfinite, Kind::Compare, Keep::Nothing, nullptr},
};

Tensor pass(T g, V, V, T) { return g; }

// Of maximum and minimum: all of it to the operand that was chosen, half to each on a tie.
Tensor chosen(T g, V a, V b, uint32_t better) {
  const Tensor half = mul(g, 0.5);
  const auto compare = [&](uint32_t op) {
    return a.is_tensor() ? call(op, a, b) : call(op == id::gt ? id::lt : op == id::lt ? id::gt : op, b, a);
  };
  return where(compare(better), g, where(compare(id::eq), half, 0.0));
}

Tensor pow_gradient_a(T g, V a, V b, T) {
  // b·a^(b−1), and 0 where b = 0 whatever a is.
  const Value exponent = b.is_tensor() ? Value(sub(b, 1.0)) : Value(b.scalar.d - 1.0);
  const Tensor d = mul(g, mul(pow(a, exponent), b));
  if (!b.is_tensor()) return b.scalar.d == 0 ? zeros(g.sizes(), g.dtype(), g.device()) : d;
  return where(eq(b, 0.0), 0.0, d);
}
Tensor pow_gradient_b(T g, V a, V b, T y) {
  // y·ln a, and 0 where a = 0 and b >= 0.
  if (!a.is_tensor()) {
    const Tensor base = full({}, a.scalar, g.dtype(), g.device());
    return where(eq(base, 0.0), where(call(id::ge, b, 0.0), 0.0, mul(g, mul(y, log(base)))), mul(g, mul(y, log(base))));
  }
  const Tensor d = mul(g, mul(y, log(a.tensor)));
  return where(eq(a, 0.0), where(call(id::ge, b.is_tensor() ? b : Value(full({}, b.scalar, g.dtype(), g.device())), 0.0), 0.0, d), d);
}

const std::vector<BinaryOp> kBinary = {
    {"add", "AddBackward", id::add, Kind::Same, pass, pass, 0, 0},
    {"sub", "SubBackward", id::sub, Kind::Same, pass, [](T g, V, V, T) { return neg(g); }, 0, 0},
    {"mul", "MulBackward", id::mul, Kind::Same, [](T g, V, V b, T) { return mul(g, b); }, [](T g, V a, V, T) { return mul(g, a); }, kUseB,
     kUseA},
    {"div", "DivBackward", id::div, Kind::Float, [](T g, V, V b, T) { return div(g, b); },
     [](T g, V a, V b, T) { return div(mul(neg(g), a), mul(b, b)); }, kUseB, kUseA | kUseB},
    {"floor_divide", "FloorDivideBackward", id::floor_divide, Kind::Same, [](T g, V, V, T) { return zero(g, g); },
     [](T g, V, V, T) { return zero(g, g); }, 0, 0},
    {"remainder", "RemainderBackward", id::remainder, Kind::Same, pass,
     [](T g, V a, V b, T) { return neg(mul(g, call(id::floor_divide, a, b))); }, 0, kUseA | kUseB},
    {"fmod", "FmodBackward", id::fmod, Kind::Same, pass, [](T g, V a, V b, T) { return neg(mul(g, call(id::trunc, div(a, b)))); }, 0,
     kUseA | kUseB},
    {"atan2", "Atan2Backward", id::atan2, Kind::Float, [](T g, V a, V b, T) { return div(mul(g, b), add(squared(a), squared(b))); },
     [](T g, V a, V b, T) { return div(mul(neg(g), a), add(squared(a), squared(b))); }, kUseA | kUseB, kUseA | kUseB},
    {"pow", "PowBackward", id::pow, Kind::Float, pow_gradient_a, pow_gradient_b, kUseA | kUseB, kUseA | kUseB | kUseOutput},
    {"maximum", "MaximumBackward", id::maximum, Kind::Same, [](T g, V a, V b, T) { return chosen(g, a, b, id::gt); },
     [](T g, V a, V b, T) { return chosen(g, a, b, id::lt); }, kUseA | kUseB, kUseA | kUseB},
    {"minimum", "MinimumBackward", id::minimum, Kind::Same, [](T g, V a, V b, T) { return chosen(g, a, b, id::lt); },
     [](T g, V a, V b, T) { return chosen(g, a, b, id::gt); }, kUseA | kUseB, kUseA | kUseB},
    {"eq", "", id::eq, Kind::Compare, nullptr, nullptr, 0, 0},
    {"ne", "", id::ne, Kind::Compare, nullptr, nullptr, 0, 0},
    {"lt", "", id::lt, Kind::Compare, nullptr, nullptr, 0, 0},
    {"le", "", id::le, Kind::Compare, nullptr, nullptr, 0, 0},
    {"gt", "", id::gt, Kind::Compare, nullptr, nullptr, 0, 0},
    {"ge", "", id::ge, Kind::Compare, nullptr, nullptr, 0, 0},
    {"logical_and", "", id::logical_and, Kind::Compare, nullptr, nullptr, 0, 0},
    {"logical_or", "", id::logical_or, Kind::Compare, nullptr, nullptr, 0, 0},
    {"logical_xor", "", id::logical_xor, Kind::Compare, nullptr, nullptr, 0, 0},
    {"bitwise_and", "", id::bitwise_and, Kind::Integer, nullptr, nullptr, 0, 0},
    {"bitwise_or", "", id::bitwise_or, Kind::Integer, nullptr, nullptr, 0, 0},
    {"bitwise_xor", "", id::bitwise_xor, Kind::Integer, nullptr, nullptr, 0, 0},
    {"bitwise_left_shift", "", id::bitwise_left_shift, Kind::Integer, nullptr, nullptr, 0, 0},
    {"bitwise_right_shift", "", id::bitwise_right_shift, Kind::Integer, nullptr, nullptr, 0, 0},
    // The gradients above, differentiable once more. Their second operand is the forward op's output.
    {"relu_backward", "ReluBackwardBackward", id::relu_backward, Kind::Same, [](T g, V, V y, T) { return call(id::relu_backward, g, y); },
     [](T g, V, V, T) { return zero(g, g); }, kUseB, 0},
    {"tanh_backward", "TanhBackwardBackward", id::tanh_backward, Kind::Same, [](T g, V, V y, T) { return call(id::tanh_backward, g, y); },
     [](T g, V a, V y, T) { return mul(g, mul(a, mul(y, -2.0))); }, kUseB, kUseA | kUseB},
    {"sigmoid_backward", "SigmoidBackwardBackward", id::sigmoid_backward, Kind::Same,
     [](T g, V, V y, T) { return call(id::sigmoid_backward, g, y); },
     [](T g, V a, V y, T) { return mul(g, mul(a, sub(1.0, mul(y, 2.0)))); }, kUseB, kUseA | kUseB},
    // Of these, the second operand is the forward op's input.
    {"silu_backward", "SiluBackwardBackward", id::silu_backward, Kind::Same, [](T g, V, V x, T) { return call(id::silu_backward, g, x); },
     [](T g, V a, V x, T) { return mul(g, mul(a, silu_second(x.tensor))); }, kUseB, kUseA | kUseB},
    {"gelu_backward", "GeluBackwardBackward", id::gelu_backward, Kind::Same, [](T g, V, V x, T) { return call(id::gelu_backward, g, x); },
     [](T g, V a, V x, T) { return mul(g, mul(a, gelu_second(x.tensor))); }, kUseB, kUseA | kUseB},
    {"gelu_tanh_backward", "GeluTanhBackwardBackward", id::gelu_tanh_backward, Kind::Same,
     [](T g, V, V x, T) { return call(id::gelu_tanh_backward, g, x); },
     [](T g, V a, V x, T) { return mul(g, mul(a, gelu_tanh_second(x.tensor))); }, kUseB, kUseA | kUseB},
};

template <class Op>
std::vector<const Op *> by_id(const std::vector<Op> &ops) {
  std::vector<const Op *> out(id::count, nullptr);
  for (const Op &op : ops) out[op.id] = &op;
  return out;
}

}  // namespace

const std::vector<UnaryOp> &unary_ops() { return kUnary; }
const std::vector<BinaryOp> &binary_ops() { return kBinary; }
const UnaryOp &unary_op(uint32_t op) {
  static const auto table = by_id(kUnary);
  return *table[op];
}
const BinaryOp &binary_op(uint32_t op) {
  static const auto table = by_id(kBinary);
  return *table[op];
}

}  // namespace flow
