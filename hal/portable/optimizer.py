"""Optimizer steps (section 11 of docs/numerics.md): one pass over parameters and states."""

from __future__ import annotations

from .build import Builder, Tensor, guarded
from .elementwise import elementwise
from .interface import Immediate
from .types import compute, rounded


def _step(b: Builder, body: list[str], states: list[tuple[str, Tensor]], outputs: list[tuple[str, Tensor]], scalars: list[str]) -> None:
    dtype = states[0][1].dtype
    c = compute(dtype)
    first = next(k for k, o in enumerate(b.entry.inputs) if o.kind == "scalar")
    b.require_immediate(*range(first, first + len(scalars)))
    body += [f"{name} = {rounded(dtype, f'n_{name}')};" for name, _ in outputs]
    text = "\n".join("        " + line.replace("$T", f"hal_{c}").replace("$s", c) for line in body)
    immediates = [(name, c, Immediate(first + k)) for k, name in enumerate(scalars)]
    prelude = [guarded(f"sqrt_{c}", f"#define hal_root_{c}(x) HAL_SQRT_{c.upper()}(x)")]
    elementwise(b, f"{b.op}_{dtype}", states[0][1].shape, states, outputs, text, immediates=immediates, preamble=prelude)


def sgd_step(b: Builder) -> None:
    """Key: momentum or none, and the attributes. Whether weights decay is told by the number at run time."""
    buffer, out_buffer = b.optional(2), None
    states = [("p", b.input(0)), ("grad", b.input(1))]
    outputs = [("new_p", b.output(0))]
    if buffer is not None:
        out_buffer = b.output(1)
        states.append(("buffer", buffer))
        outputs.append(("new_buffer", out_buffer))
    body = [f"$T d = {'-grad' if b.attribute('maximize') else 'grad'};", "$T n_new_p;", "if (weight_decay != 0) d = d + weight_decay * p;"]
    if buffer is not None:
        mixed = "d" if b.attribute("first_step") else "momentum * buffer + (1 - dampening) * d"
        body += [
            f"const $T n_new_buffer = {mixed};",
            f"d = {'d + momentum * n_new_buffer' if b.attribute('nesterov') else 'n_new_buffer'};",
        ]
    body.append("n_new_p = p - lr * d;")
    _step(b, body, states, outputs, ["lr", "momentum", "dampening", "weight_decay"])


def adam_step(b: Builder) -> None:
    """Key: the attributes."""
    amsgrad = bool(b.attribute("amsgrad"))
    states = [("p", b.input(0)), ("grad", b.input(1)), ("m", b.input(2)), ("v", b.input(3))]
    outputs = [("new_p", b.output(0)), ("new_m", b.output(1)), ("new_v", b.output(2))]
    if amsgrad:
        states.append(("vmax", b.input(4)))
        outputs.append(("new_vmax", b.output(3)))
    decay = "q = p * (1 - lr * weight_decay);" if b.attribute("decoupled_weight_decay") else "g = g + weight_decay * p;"
    body = [
        f"$T g = {'-grad' if b.attribute('maximize') else 'grad'}, q = p, largest, n_new_m, n_new_v, n_new_p;",
        f"if (weight_decay != 0) {decay}",
    ]
    body += ["n_new_m = beta1 * m + (1 - beta1) * g;", "n_new_v = beta2 * v + ((1 - beta2) * g) * g;"]
    body += ["largest = hal_maximum_$s(vmax, n_new_v);"] if amsgrad else ["largest = n_new_v;"]
    body += ["n_new_p = q - (lr / bias_correction1) * (n_new_m / (hal_root_$s(largest) / bias_correction2_sqrt + eps));"]
    body += ["const $T n_new_vmax = largest;"] if amsgrad else []
    _step(b, body, states, outputs, ["lr", "beta1", "beta2", "eps", "weight_decay", "bias_correction1", "bias_correction2_sqrt"])
