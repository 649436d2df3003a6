"""Pooling and its gradients (section 9 of docs/numerics.md): each output (or input position) walks its own window."""

from __future__ import annotations

from .build import Builder, Tensor, guarded
from .data import copy_tensor
from .elementwise import elementwise
from .indexing import chain_lines
from .interface import Operand
from .reduce import kind, reduce
from .types import compute, load, rounded

_PLACE = """        const hal_i64 line = hal_div(i, cols_out), col = i - line * cols_out, row = line - hal_div(line, rows_out) * rows_out;
        hal_i64 h, w;"""


def _plane(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(N, C, …) as an operand whose pointer stays at its plane."""
    return t.view(shape, (t.strides[0], t.strides[1], 0, 0))


def _params(b: Builder, x: Tensor, out: Tensor, *names: str) -> dict[str, int]:
    """Sizes and strides of a plane that is read, of one that is written, and attributes of two numbers as name_h, name_w."""
    params = {
        "rows": x.shape[2],
        "cols": x.shape[3],
        "step_h": x.strides[2],
        "step_w": x.strides[3],
        "rows_out": out.shape[2],
        "cols_out": out.shape[3],
    }
    for name in names:
        params[f"{name}_h"], params[f"{name}_w"] = map(int, b.attribute(name))
    return params


def max_pool2d(b: Builder) -> None:
    x, out, indices = b.input(0), b.output(0), b.output(1)
    c = compute(x.dtype)
    body = f"""{_PLACE}
        hal_{c} best = -hal_inf_{c}();
        hal_i64 at = 0, kh, kw;
        hal_i32 found = 0;
        for (kh = 0; kh < kernel_h; ++kh) {{
          h = row * stride_h - padding_h + kh * dilation_h;
          if (h < 0 || h >= rows) continue;
          for (kw = 0; kw < kernel_w; ++kw) {{
            w = col * stride_w - padding_w + kw * dilation_w;
            if (w < 0 || w >= cols) continue;
            {{
              const hal_{c} v = {load(x.dtype, "x[h * step_h + w * step_w]")};
              if (!found || (best == best && (v > best || v != v))) {{ best = v; at = h * cols + w; found = 1; }}
            }}
          }}
        }}
        out = best;
        index = at;"""
    params = _params(b, x, out, "kernel", "stride", "padding", "dilation")
    results = [("out", out), ("index", indices)]
    elementwise(b, f"max_pool_{x.dtype}", out.shape, [], results, body, raw=[("x", _plane(x, out.shape))], params=params, work=8)


def _flat(b: Builder, t: Tensor) -> Tensor:
    """(N, C, H, W) as (N, C, H·W), copied if its strides don't allow it."""
    n, c, h, w = t.shape
    nothing = Tensor(t.argument, Operand(t.dtype, (0,)))
    copy_tensor(b, nothing, nothing)  # belongs to the key, needed or not
    if h > 1 and w > 1 and t.strides[2] != w * t.strides[3]:
        dense = b.scratch(t.dtype, t.shape)
        copy_tensor(b, t, dense)
        t = dense
    return t.view((n, c, h * w), (t.strides[0], t.strides[1], t.strides[3] if w > 1 else t.strides[2]))


def max_pool2d_backward(b: Builder) -> None:
    """Additions per destination in ascending order of the outputs: planes are independent, each is walked once."""
    g, indices, out = b.input(0), b.input(1), b.output(0)
    n, c, h, w = out.shape
    total = b.scratch(compute(out.dtype), (n, c, h * w))
    elementwise(b, f"zero_{total.dtype}_1", total.shape, [], [("total", total)], "        total = 0;")
    status = b.raises("index", h * w)
    chain_lines(b, _flat(b, g), _flat(b, indices), total, 2, status)
    shaped = total.view(out.shape, (c * h * w, h * w, w, 1))
    elementwise(b, f"narrow_{out.dtype}", out.shape, [("x", shaped)], [("out", out)], f"        out = {rounded(out.dtype, 'x')};")


def max_pool2d_gather(b: Builder) -> None:
    x, indices, out = b.input(0), b.input(1), b.output(0)
    raw = _plane(x, out.shape).as_bits()
    body = """        if (at < 0 || at >= rows * cols) { hal_raise(status, at); out = 0; }
        else { const hal_i64 h = hal_div(at, cols); out = x[h * step_h + (at - h * cols) * step_w]; }"""
    params = {"rows": x.shape[2], "cols": x.shape[3], "step_h": x.strides[2], "step_w": x.strides[3]}
    status = b.raises("index", x.shape[2] * x.shape[3])
    elementwise(
        b,
        f"pool_gather_{raw.dtype}",
        out.shape,
        [("at", indices)],
        [("out", out.as_bits())],
        body,
        raw=[("x", raw)],
        params=params,
        status=status,
    )


def _window(axis: str, size: str, place: str) -> str:
    """Code: begin and end of an averaging window, clipped to the padded input, then to the input."""
    return f"""hal_i64 {axis}0 = {place} * stride_{axis} - padding_{axis};
        hal_i64 {axis}1 = hal_min_i64({axis}0 + kernel_{axis}, {size} + padding_{axis});
        const hal_i64 {axis}_all = {axis}1 - {axis}0;
        {axis}0 = hal_max_i64({axis}0, 0); {axis}1 = hal_min_i64({axis}1, {size});
        const hal_i64 {axis}_inside = {axis}1 - {axis}0;"""


_DIVISOR = "divisor != 0 ? divisor : include_pad ? h_all * w_all : h_inside * w_inside"


def _average_params(b: Builder, x: Tensor, out: Tensor) -> dict[str, int]:
    params = _params(b, x, out, "kernel", "stride", "padding")
    return params | {"include_pad": int(b.attribute("count_include_pad")), "divisor": int(b.attribute("divisor"))}


def avg_pool2d(b: Builder) -> None:
    x, out = b.input(0), b.output(0)
    c = compute(x.dtype)
    body = f"""{_PLACE}
        {_window("h", "rows", "row")}
        {_window("w", "cols", "col")}
        hal_{c} s = 0;
        for (h = h0; h < h1; ++h)
          for (w = w0; w < w1; ++w) s = s + {load(x.dtype, "x[h * step_h + w * step_w]")};
        s = s / (hal_{c})({_DIVISOR});
        out = {rounded(out.dtype, "s")};"""
    raw = [("x", _plane(x, out.shape))]
    elementwise(b, f"avg_pool_{x.dtype}", out.shape, [], [("out", out)], body, raw=raw, params=_average_params(b, x, out), work=8)


def avg_pool2d_backward(b: Builder) -> None:
    """Windows that hold a position: o·stride − padding <= position < o·stride − padding + kernel."""
    g, out = b.input(0), b.output(0)
    c = compute(g.dtype)

    def first(axis: str, place: str) -> str:
        return f"{place} + padding_{axis} < kernel_{axis} ? 0 : hal_div({place} + padding_{axis} - kernel_{axis}, stride_{axis}) + 1"

    def last(axis: str, place: str, count: str) -> str:
        return f"hal_min_i64({count} - 1, hal_div({place} + padding_{axis}, stride_{axis}))"

    body = f"""{_PLACE}
        const hal_i64 first_h = {first("h", "row")}, last_h = {last("h", "row", "rows")};
        const hal_i64 first_w = {first("w", "col")}, last_w = {last("w", "col", "cols")};
        hal_{c} s = 0;
        for (h = first_h; h <= last_h; ++h) {{
          {_window("h", "rows_out", "h")}
          for (w = first_w; w <= last_w; ++w) {{
            {_window("w", "cols_out", "w")}
            s = s + {load(g.dtype, "x[h * step_h + w * step_w]")} / (hal_{c})({_DIVISOR});
          }}
        }}
        out = {rounded(out.dtype, "s")};"""
    raw = [("x", _plane(g, out.shape))]
    elementwise(b, f"avg_pool_backward_{g.dtype}", out.shape, [], [("out", out)], body, raw=raw, params=_average_params(b, g, out), work=8)


# Section 5's sum of a window, whose elements are taken one after another: lane by lane, the tree, and the blocks' results once more.
_SUM = """
#define HAL_TREE_$c(v) \\
  do { for (hal_i32 d = 16; d > 0; d >>= 1) for (hal_i32 e = 0; e < d; ++e) v[e] = v[e] + v[e + d]; } while (0)
"""


def adaptive_avg_pool2d(b: Builder) -> None:
    x, out = b.input(0), b.output(0)
    c = compute(x.dtype)
    (rows, cols), (rows_out, cols_out) = x.shape[2:], out.shape[2:]
    b.source(guarded(f"tree_{c}", _SUM.replace("$c", c)))
    if rows_out and cols_out and rows % rows_out == 0 and cols % cols_out == 0:  # equal windows: a mean over axes
        h, w = rows // rows_out, cols // cols_out
        steps = (x.strides[0], x.strides[1], h * x.strides[2], x.strides[2], w * x.strides[3], x.strides[3])
        split = x.view((*x.shape[:2], rows_out, h, cols_out, w), steps)
        reduce(b, kind("mean", x.dtype), split.shape, (3, 5), [("x", split)], out, "x", f"total / (hal_{c})count")
        return
    if rows * cols > 1 << 24:
        raise b.unsupported(f"shape: got planes of {rows}×{cols}, expected at most 2^24 elements where windows are unequal")
    body = f"""{_PLACE}
        const hal_i64 h0 = hal_div(row * rows, rows_out), h1 = hal_div((row + 1) * rows + rows_out - 1, rows_out);
        const hal_i64 w0 = hal_div(col * cols, cols_out), w1 = hal_div((col + 1) * cols + cols_out - 1, cols_out);
        hal_{c} part[32], blocks[32];
        hal_i64 j = 0;
        for (hal_i32 e = 0; e < 32; ++e) part[e] = blocks[e] = 0;
        for (h = h0; h < h1; ++h)
          for (w = w0; w < w1; ++w) {{
            part[j & 31] = part[j & 31] + {load(x.dtype, "x[h * step_h + w * step_w]")};
            if ((++j & 4095) == 0) {{
              HAL_TREE_{c}(part);
              blocks[(j / 4096 - 1) & 31] = blocks[(j / 4096 - 1) & 31] + part[0];
              for (hal_i32 e = 0; e < 32; ++e) part[e] = 0;
            }}
          }}
        if ((j & 4095) != 0 || j == 0) {{
          HAL_TREE_{c}(part);
          blocks[(j / 4096) & 31] = blocks[(j / 4096) & 31] + part[0];
        }}
        HAL_TREE_{c}(blocks);
        blocks[0] = blocks[0] / (hal_{c})j;
        out = {rounded(out.dtype, "blocks[0]")};"""
    raw = [("x", _plane(x, out.shape))]
    elementwise(b, f"adaptive_pool_{x.dtype}", out.shape, [], [("out", out)], body, raw=raw, params=_params(b, x, out), work=16)


def adaptive_avg_pool2d_backward(b: Builder) -> None:
    g, out = b.input(0), b.output(0)
    c = compute(g.dtype)

    def window(axis: str, size: str, count: str) -> str:
        begin, end = f"hal_div({axis} * {size}, {count})", f"hal_div(({axis} + 1) * {size} + {count} - 1, {count})"
        return f"const hal_i64 {axis}0 = {begin}, {axis}1 = {end};"

    body = f"""{_PLACE}
        hal_{c} s = 0;
        for (h = hal_max_i64(0, hal_div(row * rows, rows_out) - 1); h < rows; ++h) {{
          {window("h", "rows_out", "rows")}
          if (h0 > row) break;
          if (h1 <= row) continue;
          for (w = hal_max_i64(0, hal_div(col * cols, cols_out) - 1); w < cols; ++w) {{
            {window("w", "cols_out", "cols")}
            if (w0 > col) break;
            if (w1 <= col) continue;
            s = s + {load(g.dtype, "x[h * step_h + w * step_w]")} / (hal_{c})((h1 - h0) * (w1 - w0));
          }}
        }}
        out = {rounded(out.dtype, "s")};"""
    raw = [("x", _plane(g, out.shape))]
    elementwise(b, f"adaptive_pool_backward_{g.dtype}", out.shape, [], [("out", out)], body, raw=raw, params=_params(b, g, out), work=8)
