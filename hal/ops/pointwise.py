"""Pointwise ops: one scalar expression per class of dtypes.

In an expression ``a``, ``b``, ``c`` … are the operands in order, in the compute type. ``$s`` is the compute type's suffix
(``f32``, ``i8`` …), ``$T`` its C type, ``$U`` the unsigned type in which integers wrap (at least 32 bits, so that C's
promotion to int can't overflow). The expression is C, C++, CUDA C and OpenCL C at once.
"""

from __future__ import annotations

from .spec import ALL, BOOL, FLOATS, INTS, NUMBERS, Op, Operand


def _op(name, names, dtypes, expr, *, out="T", numerics="arithmetic", doc="", types=None, backward_of=None):
    types = types or {}
    inputs = tuple(Operand(n, types.get(n, "T"), "tensor" if n in types else "either") for n in names.split())
    tensors = [i.name for i in inputs if i.dtype == "T"]
    if out == "bool":  # the output's dtype says nothing of the inputs', so the first input must be a tensor
        inputs = (Operand(inputs[0].name, inputs[0].dtype), *inputs[1:])
    return Op(
        name=name,
        category="pointwise",
        inputs=inputs,
        outputs=(Operand("out", out),),
        dtypes=dtypes,
        shape="broadcast",
        primary="out" if out == "T" else tensors[0],
        numerics=numerics,
        expr=expr,
        backward_of=backward_of,
        doc=doc,
    )


def _function(name, doc="", **kw):
    return _op(name, "a", FLOATS, {"float": f"hal_{name}_$s(a)"}, numerics="function", doc=doc, **kw)


def _compare(name, symbol):
    expr = f"a {symbol} b"
    return _op(name, "a b", ALL, {"float": expr, "int": expr, "bool": expr}, out="bool", numerics="exact")


def _logical(name, float_expr, bool_expr):
    return _op(name, "a b", ALL, {"float": float_expr, "int": float_expr, "bool": bool_expr}, out="bool", numerics="exact")


UNARY = [
    _op("neg", "a", NUMBERS, {"float": "-a", "int": "($T)(0 - ($U)a)"}, numerics="exact"),
    _op("abs", "a", NUMBERS, {"float": "hal_abs_$s(a)", "int": "a < 0 ? ($T)(0 - ($U)a) : a"}, numerics="exact"),
    _op("sign", "a", NUMBERS, {"float": "a != a ? a : ($T)((a > 0) - (a < 0))", "int": "($T)((a > 0) - (a < 0))"}, numerics="exact",
        doc="NaN stays NaN; the sign of either zero is +0."),
    _op("square", "a", NUMBERS, {"float": "a * a", "int": "($T)(($U)a * ($U)a)"}),
    _op("reciprocal", "a", FLOATS, {"float": "1 / a"}),
    _op("sqrt", "a", FLOATS, {"float": "hal_sqrt_$s(a)"}),
    _op("floor", "a", FLOATS, {"float": "hal_floor_$s(a)"}, numerics="exact"),
    _op("ceil", "a", FLOATS, {"float": "hal_ceil_$s(a)"}, numerics="exact"),
    _op("trunc", "a", FLOATS, {"float": "hal_trunc_$s(a)"}, numerics="exact"),
    _op("round", "a", FLOATS, {"float": "hal_round_$s(a)"}, numerics="exact", doc="Ties to even."),
    _op("relu", "a", NUMBERS, {"float": "a < 0 ? 0 : a", "int": "a < 0 ? 0 : a"}, numerics="exact",
        doc="NaN stays NaN, −0 stays −0."),
    *(_function(n) for n in ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf"]),
    *(_function(n, doc="Composite; its bound is stated in docs/numerics.md.") for n in ["rsqrt", "sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "erfc", "erfinv"]),
    _op("logical_not", "a", ALL, {"float": "a == 0", "int": "a == 0", "bool": "!a"}, out="bool", numerics="exact"),
    _op("bitwise_not", "a", BOOL + INTS, {"int": "($T)~a", "bool": "!a"}, numerics="exact"),
    _op("isnan", "a", FLOATS, {"float": "a != a"}, out="bool", numerics="exact"),
    _op("isinf", "a", FLOATS, {"float": "hal_isinf_$s(a)"}, out="bool", numerics="exact"),
    _op("isfinite", "a", FLOATS, {"float": "hal_isfinite_$s(a)"}, out="bool", numerics="exact"),
]

BINARY = [
    _op("add", "a b", ALL, {"float": "a + b", "int": "($T)(($U)a + ($U)b)", "bool": "a | b"}),
    _op("sub", "a b", NUMBERS, {"float": "a - b", "int": "($T)(($U)a - ($U)b)"}),
    _op("mul", "a b", ALL, {"float": "a * b", "int": "($T)(($U)a * ($U)b)", "bool": "a & b"}),
    _op("div", "a b", FLOATS, {"float": "a / b"}, doc="True division; the front end casts integers first."),
    _op("floor_divide", "a b", NUMBERS, {"float": "hal_floor_divide_$s(a, b)", "int": "hal_floor_divide_$s(a, b)"}, numerics="function",
        doc="Towards −∞. Integers: x // 0 = 0, INT_MIN // −1 = INT_MIN."),
    _op("remainder", "a b", NUMBERS, {"float": "hal_remainder_$s(a, b)", "int": "hal_remainder_$s(a, b)"}, numerics="exact",
        doc="Sign of the divisor. Integers: x % 0 = 0."),
    _op("pow", "a b", FLOATS, {"float": "hal_pow_$s(a, b)"}, numerics="function", doc="C99's special cases; pow(x, 0) = 1."),
    _op("fmod", "a b", NUMBERS, {"float": "hal_fmod_$s(a, b)", "int": "hal_fmod_$s(a, b)"}, numerics="exact",
        doc="Sign of the dividend. Integers: fmod(x, 0) = 0."),
    _op("atan2", "a b", FLOATS, {"float": "hal_atan2_$s(a, b)"}, numerics="function", doc="The angle of the point (b, a); C99's special cases."),
    _op("maximum", "a b", ALL, {"float": "hal_maximum_$s(a, b)", "int": "a > b ? a : b", "bool": "a | b"}, numerics="exact",
        doc="IEEE 754-2019 maximum: NaN wins, +0 > −0."),
    _op("minimum", "a b", ALL, {"float": "hal_minimum_$s(a, b)", "int": "a < b ? a : b", "bool": "a & b"}, numerics="exact",
        doc="IEEE 754-2019 minimum: NaN wins, −0 < +0."),
    _compare("eq", "=="), _compare("ne", "!="), _compare("lt", "<"), _compare("le", "<="), _compare("gt", ">"), _compare("ge", ">="),
    _logical("logical_and", "(a != 0) & (b != 0)", "a & b"),
    _logical("logical_or", "(a != 0) | (b != 0)", "a | b"),
    _logical("logical_xor", "(a != 0) ^ (b != 0)", "a ^ b"),
    _op("bitwise_and", "a b", BOOL + INTS, {"int": "($T)(a & b)", "bool": "a & b"}, numerics="exact"),
    _op("bitwise_or", "a b", BOOL + INTS, {"int": "($T)(a | b)", "bool": "a | b"}, numerics="exact"),
    _op("bitwise_xor", "a b", BOOL + INTS, {"int": "($T)(a ^ b)", "bool": "a ^ b"}, numerics="exact"),
    _op("bitwise_left_shift", "a b", INTS, {"int": "hal_shl_$s(a, b)"}, numerics="exact", doc="A count < 0 or ≥ the width gives 0."),
    _op("bitwise_right_shift", "a b", INTS, {"int": "hal_shr_$s(a, b)"}, numerics="exact",
        doc="Arithmetic; a count < 0 or ≥ the width gives 0 or −1."),
]

TERNARY = [
    _op("where", "a b c", ALL, {"float": "a ? b : c", "int": "a ? b : c", "bool": "a ? b : c"}, types={"a": "bool"}, numerics="exact",
        doc="a: condition. Chooses, so the branch not taken never shows."),
    _op("clamp", "a b c", NUMBERS, {"float": "hal_minimum_$s(hal_maximum_$s(a, b), c)", "int": "(a > b ? a : b) < c ? (a > b ? a : b) : c"},
        numerics="exact", doc="min(max(a, b), c)."),
]

BACKWARD = [
    _op("relu_backward", "a b", FLOATS, {"float": "b > 0 ? a : 0"}, numerics="exact", backward_of="relu",
        doc="a: gradient of the output, b: the input or the output of relu."),
    _op("tanh_backward", "a b", FLOATS, {"float": "a * (1 - b * b)"}, backward_of="tanh", doc="b: the output of tanh."),
    _op("sigmoid_backward", "a b", FLOATS, {"float": "a * ((1 - b) * b)"}, backward_of="sigmoid", doc="b: the output of sigmoid."),
    *(_op(f"{name}_backward", "a b", FLOATS, {"float": f"hal_{name}_backward_$s(a, b)"}, numerics="function", backward_of=name,
          doc=f"a: gradient of the output, b: the input of {name}.") for name in ("silu", "gelu", "gelu_tanh")),
    _op("dropout_apply", "a b c", FLOATS, {"float": "b ? a * c : 0"}, types={"b": "bool"},
        doc="a: input or gradient, b: keep mask, c: 1 / (1 − p), rounded once from f64."),
]

POINTWISE = UNARY + BINARY + TERNARY + BACKWARD
