"""The op table: the one place that says which ops there are.

To add a pointwise op, add one line to ``pointwise.py``. To add another op, add one entry here and its kernel to the
devices that want a native one; docs/numerics.md gets its definition, ``conformance/reference`` its slow twin.
"""

from __future__ import annotations

from .indexing import INDEXING, ORDER
from .pointwise import POINTWISE
from .spec import ALL, FLOATS, NUMBERS, Attribute, Op, Operand

#: Grows with each change of a name, an operand or an attribute; see <hal/ops.h>.
OPSET_VERSION = 1

_OUT = Operand("out")
_X = Operand("x")


def _scalars(names: str, dtype: str = "C") -> tuple[Operand, ...]:
    return tuple(Operand(n, dtype, "scalar") for n in names.split())


DATA = [
    Op("copy", "cast", (_X,), (_OUT,), ALL, "same", "x", "exact", doc="Copies between any two strided operands of one shape."),
    Op("cast", "cast", (_X,), (Operand("out", "any"),), ALL, "same", "x", "arithmetic",
       doc="Rounds once, to nearest even. Float to integer saturates, NaN gives 0; to bool: x != 0; integers wrap."),
    Op("fill", "creation", _scalars("value", "T"), (_OUT,), ALL, "given", "out", "exact", doc="The value is an immediate of the output's own dtype."),
    Op("arange", "creation", _scalars("start step"), (_OUT,), NUMBERS, "given", "out", "arithmetic",
       doc="out[i] = start + C(i)·step, product and sum rounded apart; i counts row-major."),
]

_AXES = (Attribute("axes"),)  # bit k: axis k is reduced

REDUCTIONS = [
    Op("sum", "reduction", (_X,), (Operand("out", "A_or_T"),), ALL, "reduce", "x", "reduction", _AXES,
       doc="Floats keep their dtype (accumulated in A, rounded once); bool and integers give i64."),
    Op("mean", "reduction", (_X,), (_OUT,), FLOATS, "reduce", "x", "reduction", _AXES, doc="sum in A, one division by A(n), one rounding."),
    Op("amax", "reduction", (_X,), (_OUT,), ALL, "reduce", "x", "exact", _AXES, doc="maximum() over the axes; an empty axis is an error."),
    Op("amin", "reduction", (_X,), (_OUT,), ALL, "reduce", "x", "exact", _AXES),
    Op("prod", "reduction", (_X,), (Operand("out", "A_or_T"),), ALL, "reduce", "x", "reduction", _AXES),
    Op("argmax", "reduction", (_X,), (Operand("out", "i64"),), ALL, "reduce", "x", "exact", _AXES,
       doc="First index of the largest, row-major over the reduced axes; the first NaN counts as the largest."),
    Op("argmin", "reduction", (_X,), (Operand("out", "i64"),), ALL, "reduce", "x", "exact", _AXES),
    Op("any", "reduction", (_X,), (Operand("out", "bool"),), ALL, "reduce", "x", "exact", _AXES),
    Op("all", "reduction", (_X,), (Operand("out", "bool"),), ALL, "reduce", "x", "exact", _AXES),
]

_AXIS = (Attribute("axis"),)
_G = Operand("grad")
_Y = Operand("y")

NORMALIZATION = [
    Op("softmax", "normalization", (_X,), (_OUT,), FLOATS, "same", "x", "reduction", _AXIS),
    Op("log_softmax", "normalization", (_X,), (_OUT,), FLOATS, "same", "x", "reduction", _AXIS),
    Op("softmax_backward", "normalization", (_G, _Y), (_OUT,), FLOATS, "same", "grad", "reduction", _AXIS, backward_of="softmax"),
    Op("log_softmax_backward", "normalization", (_G, _Y), (_OUT,), FLOATS, "same", "grad", "reduction", _AXIS, backward_of="log_softmax"),
]

_WEIGHT, _BIAS = Operand("weight", optional=True), Operand("bias", optional=True)
_MEAN, _RSTD = Operand("mean", "C"), Operand("rstd", "C")
_FIRST_AXIS = (Attribute("axis", default=-1),)  # the axes from here on are normalized

NORMALIZATION += [
    Op("layer_norm", "layer_norm", (_X, _WEIGHT, _BIAS, *_scalars("eps")), (_OUT, _MEAN, _RSTD), FLOATS, "layer_norm", "x", "reduction",
       _FIRST_AXIS, doc="weight, bias: x's normalized axes; mean, rstd: x's shape with 1 in the normalized axes."),
    Op("layer_norm_backward", "layer_norm", (_G, _X, _MEAN, _RSTD, _WEIGHT), (_OUT,), FLOATS, "layer_norm", "grad", "reduction",
       _FIRST_AXIS, backward_of="layer_norm", doc="Gradient of x."),
    Op("layer_norm_param_grad", "layer_norm", (_G, _X, _MEAN, _RSTD), (Operand("weight_grad"), Operand("bias_grad")), FLOATS, "layer_norm",
       "grad", "reduction", _FIRST_AXIS, backward_of="layer_norm"),
    Op("batch_norm", "batch_norm", (_X, _WEIGHT, _BIAS, *_scalars("eps")), (_OUT, _MEAN, Operand("var", "C"), _RSTD), FLOATS, "batch_norm",
       "x", "reduction", doc="x: (N, C, …), statistics of each channel over the other axes; weight, bias, mean, var (biased), rstd: (C,)."),
    Op("batch_norm_eval", "batch_norm", (_X, _MEAN, _RSTD, _WEIGHT, _BIAS), (_OUT,), FLOATS, "batch_norm", "x", "arithmetic",
       doc="batch_norm with statistics that are given."),
    Op("batch_norm_backward", "batch_norm", (_G, _X, _MEAN, _RSTD, _WEIGHT), (_OUT, Operand("weight_grad"), Operand("bias_grad")), FLOATS,
       "batch_norm", "grad", "reduction", backward_of="batch_norm", doc="Gradients of x, weight and bias."),
]

_TARGET = Operand("target", "i64")
_CLASSES = (Attribute("ignore_index", default=-100),)

LOSS = [
    Op("nll_loss", "loss", (_X, _TARGET), (_OUT,), FLOATS, "nll_loss", "x", "exact", _CLASSES,
       doc="x: (N, C) log-probabilities, out: (N,) −x[n, target[n]], 0 where target is ignore_index."),
    Op("nll_loss_backward", "loss", (_G, _TARGET), (_OUT,), FLOATS, "given", "grad", "exact", _CLASSES, backward_of="nll_loss",
       doc="grad: (N,), out: (N, C) with −grad[n] at target[n], else +0."),
]

MATMUL = [
    Op("matmul", "matmul", (Operand("a"), Operand("b")), (_OUT,), NUMBERS, "matmul", "a", "chain",
       doc="(…, M, K) × (…, K, N) → (…, M, N); equal ranks ≥ 2, batch dimensions broadcast by stride 0."),
]

_CONV = (
    Attribute("stride", count=2, default=1),
    Attribute("padding", count=2, default=0),
    Attribute("dilation", count=2, default=1),
    Attribute("groups", default=1),
)
_W = Operand("weight")

CONVOLUTION = [
    Op("conv2d", "convolution", (_X, _W), (_OUT,), FLOATS, "conv2d", "x", "chain", _CONV,
       doc="x: (N, C_in, H, W), weight: (C_out, C_in / groups, KH, KW)."),
    Op("conv2d_input_grad", "convolution", (_G, _W), (_OUT,), FLOATS, "given", "grad", "chain", _CONV, backward_of="conv2d"),
    Op("conv2d_weight_grad", "convolution", (_G, _X), (_OUT,), FLOATS, "given", "grad", "chain", _CONV, backward_of="conv2d"),
]

_POOL = (
    Attribute("kernel", count=2, default=1),
    Attribute("stride", count=2, default=1),
    Attribute("padding", count=2, default=0),
    Attribute("dilation", count=2, default=1),
    Attribute("ceil_mode", default=0),
)

POOLING = [
    Op("max_pool2d", "pooling", (_X,), (_OUT, Operand("indices", "i64")), FLOATS, "max_pool2d", "x", "exact", _POOL,
       doc="indices: position in the input's H×W plane, first on ties, the first NaN wins."),
    Op("max_pool2d_backward", "pooling", (_G, Operand("indices", "i64")), (_OUT,), FLOATS, "given", "grad", "chain", _POOL, backward_of="max_pool2d"),
    Op("max_pool2d_gather", "pooling", (_X, Operand("indices", "i64")), (_OUT,), FLOATS, "max_pool2d_gather", "x", "exact",
       doc="out[n, c, i] = x[n, c].flat[indices[n, c, i]]: the derivative of max_pool2d_backward."),
]

_AVERAGE = (
    Attribute("kernel", count=2, default=1),
    Attribute("stride", count=2, default=1),
    Attribute("padding", count=2, default=0),
    Attribute("ceil_mode", default=0),
    Attribute("count_include_pad", default=1),
    Attribute("divisor", default=0),  # 0: the window's size
)
_OUTPUT_SIZE = (Attribute("size", count=2, default=1),)

POOLING += [
    Op("avg_pool2d", "average_pooling", (_X,), (_OUT,), FLOATS, "avg_pool2d", "x", "chain", _AVERAGE),
    Op("avg_pool2d_backward", "average_pooling", (_G,), (_OUT,), FLOATS, "given", "grad", "chain", _AVERAGE, backward_of="avg_pool2d"),
    Op("adaptive_avg_pool2d", "average_pooling", (_X,), (_OUT,), FLOATS, "adaptive_avg_pool2d", "x", "reduction", _OUTPUT_SIZE),
    Op("adaptive_avg_pool2d_backward", "average_pooling", (_G,), (_OUT,), FLOATS, "given", "grad", "chain", _OUTPUT_SIZE,
       backward_of="adaptive_avg_pool2d"),
]

RANDOM = [
    Op("random_uniform", "random", (*_scalars("seed offset", "i64"), *_scalars("low high")), (_OUT,), FLOATS, "given", "out", "random"),
    Op("random_normal", "random", (*_scalars("seed offset", "i64"), *_scalars("mean std")), (_OUT,), FLOATS, "given", "out", "random"),
    Op("random_bernoulli", "random", (*_scalars("seed offset", "i64"), *_scalars("p", "f32")), (Operand("out", "bool"),), ("bool",), "given", "out", "random",
       doc="True with probability p: uniform f32 < p."),
    Op("random_integer", "random", (*_scalars("seed offset", "i64"), *_scalars("low high", "i64")), (_OUT,), NUMBERS, "given", "out", "random",
       doc="low + ⌊w·(high − low) / 2³²⌋ with one word w, no rejection; high − low ≤ 2³²."),
]

OPTIMIZER = [
    Op("sgd_step", "optimizer",
       (Operand("param"), _G, Operand("momentum_buffer", optional=True), *_scalars("lr momentum dampening weight_decay")),
       (Operand("new_param"), Operand("new_momentum_buffer", optional=True)),
       FLOATS, "optimizer", "param", "arithmetic",
       (Attribute("nesterov"), Attribute("maximize"), Attribute("first_step"))),
    Op("adam_step", "optimizer",
       (Operand("param"), _G, Operand("exp_avg"), Operand("exp_avg_sq"), Operand("max_exp_avg_sq", optional=True),
        *_scalars("lr beta1 beta2 eps weight_decay bias_correction1 bias_correction2_sqrt")),
       (Operand("new_param"), Operand("new_exp_avg"), Operand("new_exp_avg_sq"), Operand("new_max_exp_avg_sq", optional=True)),
       FLOATS, "optimizer", "param", "arithmetic",
       (Attribute("decoupled_weight_decay"), Attribute("amsgrad"), Attribute("maximize"))),
]

OPS: tuple[Op, ...] = (*POINTWISE, *DATA, *REDUCTIONS, *NORMALIZATION, *LOSS, *MATMUL, *CONVOLUTION, *POOLING, *RANDOM, *OPTIMIZER, *INDEXING, *ORDER)
BY_NAME: dict[str, Op] = {op.name: op for op in OPS}
