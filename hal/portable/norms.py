"""softmax and its kin, layer_norm and batch_norm (section 6 of docs/numerics.md): reductions of values computed on the way, then one pass.

What a composite recomputes (exp(x - m) for the sum, then again for the result) has the same bits each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from .build import Builder, Tensor, guarded
from .elementwise import elementwise
from .interface import Immediate
from .reduce import kind, reduce
from .types import compute, rounded


def _sum(b: Builder, shape: Sequence[int], axes: Sequence[int], inputs: list[tuple[str, Tensor]], value: str, mean: bool = False) -> Tensor:
    """sum (or mean) in C of an expression, as a tensor of ``shape`` with stride 0 in the reduced axes: ready to be an input."""
    c = compute(inputs[0][1].dtype)
    kept = tuple(shape[d] for d in range(len(shape)) if d not in axes)
    total = b.scratch(c, kept)
    reduce(b, kind("sum", c), shape, axes, inputs, total, value, f"total / (hal_{c})count" if mean else "total")
    return spread(total, shape, axes)


def spread(t: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
    """A tensor over the axes that aren't in ``axes`` as one of ``shape``, stride 0 along ``axes``."""
    steps = iter(t.strides)
    return t.view(tuple(shape), tuple(0 if d in axes else next(steps) for d in range(len(shape))))


def _axis(b: Builder, rank: int) -> int:
    axis = int(b.attribute("axis"))
    if not -rank <= axis < max(rank, 1):
        raise b.unsupported(f"axis: got {axis}, expected {-rank} <= axis < {rank}")
    return axis % rank if rank else 0


def along_axis(b: Builder) -> None:
    """softmax, log_softmax and their backward ops."""
    inputs = [b.input(k) for k in range(len(b.entry.inputs))]
    out = b.output(0)
    if not out.shape:
        inputs, out = [t.view((1,), (1,)) for t in inputs], out.view((1,), (1,))
    shape, dtype, c = out.shape, out.dtype, compute(out.dtype)
    axes = [_axis(b, len(shape))]
    if b.op.endswith("backward"):
        g, y = inputs
        pair = [("g", g), ("y", y)]
        if b.op == "softmax_backward":
            total, result = _sum(b, shape, axes, pair, "g * y"), "y * (g - s)"
        else:
            total, result = _sum(b, shape, axes, [("g", g)], "g"), f"g - hal_exp_{c}(y) * s"
        elementwise(b, f"{b.op}_{dtype}", shape, [*pair, ("s", total)], [("out", out)], f"        out = {rounded(dtype, result)};")
        return
    x = inputs[0]
    largest = b.scratch(c, tuple(n for d, n in enumerate(shape) if d not in axes))
    reduce(b, kind("amax", dtype), shape, axes, [("x", x)], largest, "x")
    m = spread(largest, shape, axes)
    total = _sum(b, shape, axes, [("x", x), ("m", m)], f"hal_exp_{c}(x - m)")
    result = f"hal_exp_{c}(x - m) / s" if b.op == "softmax" else f"(x - m) - hal_log_{c}(s)"
    elementwise(b, f"{b.op}_{dtype}", shape, [("x", x), ("m", m), ("s", total)], [("out", out)], f"        out = {rounded(dtype, result)};")


# ---- layer_norm and batch_norm ----


def _statistics(b: Builder, x: Tensor, axes: Sequence[int], eps: int, outs: list[tuple[str, Tensor]]) -> tuple[Tensor, Tensor]:
    """mean and rstd over ``axes``, spread over x; writes them, and var if it is asked for, to ``outs`` (tensors over the kept axes)."""
    c, shape = compute(x.dtype), x.shape
    mean = _sum(b, shape, axes, [("x", x)], "x", mean=True)
    var = _sum(b, shape, axes, [("x", x), ("mean", mean)], "(x - mean) * (x - mean)", mean=True)
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    rstd = b.scratch(c, kept)

    def narrow(t: Tensor) -> Tensor:
        return t.view(kept, tuple(s for d, s in enumerate(t.strides) if d not in axes))

    b.source(guarded(f"sqrt_{c}", f"#define hal_root_{c}(x) HAL_SQRT_{c.upper()}(x)"))
    targets = [("rstd", rstd), *((f"to_{n}", t) for n, t in outs)]
    body = [f"        rstd = 1 / hal_root_{c}(var + eps);", *(f"        to_{n} = {n};" for n, _ in outs)]
    given = [("mean", narrow(mean)), ("var", narrow(var))]
    elementwise(b, f"statistics_{c}", kept, given, targets, "\n".join(body), immediates=[("eps", c, Immediate(eps))])
    return mean, spread(rstd, shape, axes)


def _normalize(b: Builder, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, out: Tensor) -> None:
    """(x - mean)·rstd·weight + bias; a step whose operand is absent is left out."""
    value, inputs = "(x - mean) * rstd", [("x", x), ("mean", mean), ("rstd", rstd)]
    if weight is not None:
        value, inputs = f"{value} * weight", [*inputs, ("weight", weight)]
    if bias is not None:
        value, inputs = f"{value} + bias", [*inputs, ("bias", bias)]
    elementwise(b, f"normalize_{x.dtype}", x.shape, inputs, [("out", out)], f"        out = {rounded(out.dtype, value)};")


def _split(b: Builder, x: Tensor) -> tuple[list[int], list[int]]:
    """(axes before, axes that are normalized)."""
    axis = _axis(b, len(x.shape))
    return list(range(axis)), list(range(axis, len(x.shape)))


def _over(t: Tensor | None, shape: Sequence[int], first: int) -> Tensor | None:
    """A parameter over the axes from ``first`` on, or (kept: as many dimensions as shape) a statistic, as a tensor of ``shape``."""
    if t is None:
        return None
    lead = (0,) * (first if len(t.shape) < len(shape) else 0)
    steps = (*lead, *t.strides)
    sizes = (*(1,) * len(lead), *t.shape)
    return t.view(tuple(shape), tuple(0 if n == 1 else s for n, s in zip(sizes, steps)))


def layer_norm(b: Builder) -> None:
    x, weight, bias = b.input(0), b.optional(1), b.optional(2)
    b.require_immediate(3)
    before, inner = _split(b, x)
    outs = []
    for n, k in (("mean", 1), ("rstd", 2)):
        t = b.output(k)
        outs.append((n, t.view(tuple(x.shape[d] for d in before), t.strides[: len(before)])))
    mean, rstd = _statistics(b, x, inner, 3, outs)
    _normalize(b, x, mean, rstd, _over(weight, x.shape, len(before)), _over(bias, x.shape, len(before)), b.output(0))


def layer_norm_backward(b: Builder) -> None:
    g, x, weight, out = b.input(0), b.input(1), b.optional(4), b.output(0)
    before, inner = _split(b, x)
    c, shape = compute(x.dtype), x.shape
    w = _over(weight, shape, len(before))
    mean, rstd = _over(b.input(2), shape, 0), _over(b.input(3), shape, 0)
    assert mean is not None and rstd is not None
    h, scaled = ("g", [("g", g)]) if w is None else ("(g * weight)", [("g", g), ("weight", w)])
    statistics = [("x", x), ("mean", mean), ("rstd", rstd)]
    first = _sum(b, shape, inner, scaled, h, mean=True)
    second = _sum(b, shape, inner, [*scaled, *statistics], f"{h} * ((x - mean) * rstd)", mean=True)
    value = f"(({h} - a) - ((x - mean) * rstd) * s) * rstd"
    everything = [*scaled, *statistics, ("a", first), ("s", second)]
    elementwise(b, f"{b.op}_{c}", shape, everything, [("out", out)], f"        out = {rounded(out.dtype, value)};")


def layer_norm_param_grad(b: Builder) -> None:
    g, x = b.input(0), b.input(1)
    before, _ = _split(b, x)
    mean, rstd = _over(b.input(2), x.shape, 0), _over(b.input(3), x.shape, 0)
    assert mean is not None and rstd is not None
    k = kind("sum", x.dtype)
    reduce(b, k, x.shape, before, [("g", g), ("x", x), ("mean", mean), ("rstd", rstd)], b.output(0), "g * ((x - mean) * rstd)")
    reduce(b, k, x.shape, before, [("g", g)], b.output(1), "g")


def _channel(t: Tensor | None, shape: Sequence[int]) -> Tensor | None:
    """A (C,) tensor as one of x's shape."""
    if t is None:
        return None
    return t.view(tuple(shape), tuple(t.strides[0] if d == 1 else 0 for d in range(len(shape))))


def batch_norm(b: Builder) -> None:
    x, weight, bias = b.input(0), b.optional(1), b.optional(2)
    b.require_immediate(3)
    axes = [d for d in range(len(x.shape)) if d != 1]
    outs = [("mean", b.output(1)), ("var", b.output(2)), ("rstd", b.output(3))]
    mean, rstd = _statistics(b, x, axes, 3, outs)
    _normalize(b, x, mean, rstd, _channel(weight, x.shape), _channel(bias, x.shape), b.output(0))


def batch_norm_eval(b: Builder) -> None:
    x = b.input(0)
    mean, rstd = _channel(b.input(1), x.shape), _channel(b.input(2), x.shape)
    assert mean is not None and rstd is not None
    _normalize(b, x, mean, rstd, _channel(b.optional(3), x.shape), _channel(b.optional(4), x.shape), b.output(0))


def batch_norm_backward(b: Builder) -> None:
    g, x, weight, out = b.input(0), b.input(1), b.optional(4), b.output(0)
    shape, c = x.shape, compute(x.dtype)
    axes = [d for d in range(len(shape)) if d != 1]
    mean, rstd, w = _channel(b.input(2), shape), _channel(b.input(3), shape), _channel(weight, shape)
    assert mean is not None and rstd is not None
    statistics = [("x", x), ("mean", mean), ("rstd", rstd)]
    first = _sum(b, shape, axes, [("g", g)], "g")
    second = _sum(b, shape, axes, [("g", g), *statistics], "g * ((x - mean) * rstd)")
    count = 1
    for d in axes:
        count *= shape[d]
    scale, given = ("rstd", []) if w is None else ("(rstd * weight)", [("weight", w)])
    value = f"((g - s / n) - ((x - mean) * rstd) * (p / n)) * {scale}"
    body = f"        const hal_{c} n = (hal_{c})count; out = {rounded(out.dtype, value)};"
    everything = [("g", g), *statistics, *given, ("s", first), ("p", second)]
    elementwise(b, f"{b.op}_{c}", shape, everything, [("out", out)], body, params={"count": count})
    channels = [t.view((shape[1],), (t.strides[1],)) for t in (second, first)]
    for label, t, k in (("weight", channels[0], 1), ("bias", channels[1], 2)):
        result = b.output(k)
        elementwise(b, f"narrow_{label}", (shape[1],), [("x", t)], [("out", result)], f"        out = {rounded(result.dtype, 'x')};")
