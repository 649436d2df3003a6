"""nll_loss and its backward op (section 6 of docs/numerics.md)."""

from __future__ import annotations

from .build import Builder
from .elementwise import elementwise
from .types import load


def nll_loss(b: Builder) -> None:
    x, target, out = b.input(0), b.input(1), b.output(0)
    rows = x.view((x.shape[0],), (x.strides[0],))
    body = f"""        if (target == ignored) {{
          out = 0;
        }} else if (target < 0 || target >= classes) {{
          hal_raise(status, target);
          out = 0;
        }} else {{
          out = -{load(x.dtype, "x[target * step]")};
        }}"""
    params = {"ignored": int(b.attribute("ignore_index")), "classes": x.shape[1], "step": x.strides[1]}
    status = b.raises("target", x.shape[1])
    elementwise(
        b, f"nll_loss_{x.dtype}", out.shape, [("target", target)], [("out", out)], body, raw=[("x", rows)], params=params, status=status
    )


def nll_loss_backward(b: Builder) -> None:
    g, target, out = b.input(0), b.input(1), b.output(0)
    shape = out.shape
    spread = [t.view(shape, (t.strides[0], 0)) for t in (g, target)]
    body = """        const hal_i64 row = hal_div(i, classes), c = i - row * classes;
        if (c == 0 && target != ignored && (target < 0 || target >= classes)) hal_raise(status, target);
        out = c == target && target != ignored ? -g : 0;"""
    params = {"ignored": int(b.attribute("ignore_index")), "classes": shape[1]}
    status = b.raises("target", shape[1])
    named = [("g", spread[0]), ("target", spread[1])]
    elementwise(b, f"nll_loss_backward_{g.dtype}", shape, named, [("out", out)], body, params=params, status=status)
