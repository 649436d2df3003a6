"""Moves by index (section 15 of docs/numerics.md): gather, scatter, scatter_add, nonzero."""

from __future__ import annotations

from math import prod

from .build import Builder, Tensor, guarded, render, short_hash
from .data import copy_tensor
from .elementwise import elementwise
from .interface import Argument, Block, Scalar
from .types import STORAGE, accumulator, load, rounded
from .views import ceil_div

LANES = 32


def _axis(b: Builder, rank: int) -> int:
    axis = int(b.attribute("axis"))
    if not -rank <= axis < rank:
        raise b.unsupported(f"axis: got {axis}, expected {-rank} <= axis < {rank}")
    return axis % rank


def gather(b: Builder) -> None:
    x, index, out = b.input(0), b.input(1), b.output(0)
    axis = _axis(b, len(x.shape))
    place = x.view(index.shape, tuple(0 if d == axis else s for d, s in enumerate(x.strides))).as_bits()
    body = """        if (at < 0 || at >= limit) { hal_raise(status, at); out = 0; } else { out = x[at * step]; }"""
    params = {"limit": x.shape[axis], "step": x.strides[axis]}
    status = b.raises("index", x.shape[axis])
    elementwise(
        b,
        f"gather_{place.dtype}",
        out.shape,
        [("at", index)],
        [("out", out.as_bits())],
        body,
        raw=[("x", place)],
        params=params,
        status=status,
    )


# A work-group takes up to 32 neighbouring lines (all coordinates but the axis's) and goes along the axis in order: neighbours are
# lanes, so destinations of one line are written by one lane in ascending source order.
_LINES = """
typedef struct { hal_i64 v[$size]; } ${name}_block;
HAL_KERNEL($name, 32, (${name}_block g, $parameters)) {
  const hal_i64 lines = g.v[0], length = g.v[1], limit = g.v[2], rank = g.v[3];
$declare
  const hal_i64 first = HAL_GROUP() * 32;
  const hal_i32 m = (hal_i32)hal_min_i64(32, lines - first);
  hal_i64 i;
$lanes
  HAL_FOR_LANES(lane, m) {
    hal_i64 rest = first + lane;
    hal_i32 d;
$reset
    for (d = (hal_i32)rank - 1; d >= 0; --d) {
      const hal_i64 q = hal_div(rest, g.v[4 + d]), c = rest - q * g.v[4 + d];
      rest = q;
$advance
    }
  }
$body
}
"""


def _lines(
    b: Builder, label: str, tensors: list[tuple[str, Tensor]], axis: int, shape: tuple[int, ...], limit: int, body: str, status: Argument
) -> None:
    """A kernel over the lines of ``shape`` along ``axis``. In the body ``x_n[HAL_V(at_n) + j * step_n]`` is element j of a line of n."""
    rank = 16
    fields: dict[str, list[str]] = {key: [] for key in ("declare", "lanes", "reset", "advance")}
    at = 4 + rank
    values = [prod(n for d, n in enumerate(shape) if d != axis), shape[axis], limit, len(shape) - 1]
    values += [n for d, n in enumerate(shape) if d != axis] + [1] * (rank - len(shape) + 1)
    for n, t in tensors:
        fields["declare"].append(
            f"  GLOBAL {STORAGE[t.dtype]} *x_{n} = HAL_PTR({STORAGE[t.dtype]}, p_{n}, o_{n}); const hal_i64 step_{n} = g.v[{at + 1}];"
        )
        fields["lanes"].append(f"  HAL_LANE_VAR(hal_i64, at_{n}, 32);")
        fields["reset"].append(f"    HAL_V(at_{n}) = g.v[{at}];")
        fields["advance"].append(f"      HAL_V(at_{n}) += c * g.v[{at + 2} + d];")
        values += [t.offset, t.strides[axis], *(s for d, s in enumerate(t.strides) if d != axis), *[0] * (rank - len(shape) + 1)]
        at += 2 + rank
    parameters = ", ".join([*(f"GLOBAL void *p_{n}, hal_i64 o_{n}" for n, _ in tensors), "GLOBAL void *p_status, hal_i64 o_status"])
    fields["declare"].append("  GLOBAL hal_i64 *status = HAL_PTR(hal_i64, p_status, o_status); (void)status; (void)limit;")
    texts = {key: "\n".join(lines) for key, lines in fields.items()} | {"size": str(at), "parameters": parameters, "body": body}
    name = f"hal_{label}_{short_hash(render(_LINES, name='', **texts))}"
    b.source(guarded(name, render(_LINES, name=name, **texts)))
    assert len(values) == at
    b.step(name, ceil_div(values[0], 32), LANES, [Block(tuple(values)), *(t.argument for _, t in tensors), status])


def scatter(b: Builder) -> None:
    x, index, src, out = b.input(0), b.input(1), b.input(2), b.output(0)
    axis = _axis(b, len(x.shape))
    status = b.raises("index", x.shape[axis])
    copy_tensor(b, x, out)
    body = """
  for (i = 0; i < length; ++i)
    HAL_FOR_LANES(lane, m) {
      const hal_i64 to = x_index[HAL_V(at_index) + i * step_index];
      if (to < 0 || to >= limit) hal_raise(status, to);
      else x_out[HAL_V(at_out) + to * step_out] = x_src[HAL_V(at_src) + i * step_src];
    }"""
    tensors = [("index", index), ("src", src.as_bits()), ("out", out.as_bits())]
    _lines(b, f"scatter_{src.as_bits().dtype}", tensors, axis, index.shape, x.shape[axis], body, status)


def scatter_add(b: Builder) -> None:
    """Per destination: the chain that is going on, the sum of those that are full, and how many contributions there were."""
    src, index, out = b.input(0), b.input(1), b.output(0)
    axis = _axis(b, len(out.shape))
    a = accumulator(out.dtype)
    status = b.raises("index", out.shape[axis])
    chain, total, count = b.scratch(a, out.shape), b.scratch(a, out.shape), b.scratch("i64", out.shape)
    zero = [("chain", chain), ("total", total), ("count", count)]
    elementwise(b, f"zero_{a}", out.shape, [], zero, "        chain = 0; total = 0; count = 0;")
    value = load(src.dtype, "x_src[HAL_V(at_src) + i * step_src]")
    plus = (lambda p, q: f"(hal_i64)((hal_u64){p} + (hal_u64){q})") if a == "i64" else (lambda p, q: f"{p} + {q}")
    body = f"""
  for (i = 0; i < length; ++i)
    HAL_FOR_LANES(lane, m) {{
      const hal_i64 to = x_index[HAL_V(at_index) + i * step_index];
      if (to < 0 || to >= limit) {{ hal_raise(status, to); }}
      else {{
        const hal_i64 p = HAL_V(at_chain) + to * step_chain, c = x_count[p] + 1;
        const hal_{a} s = {plus("x_chain[p]", f"(hal_{a})({value})")};
        x_count[p] = c;
        if (c % 512 == 0) {{ x_total[p] = c == 512 ? s : {plus("x_total[p]", "s")}; x_chain[p] = 0; }}
        else x_chain[p] = s;
      }}
    }}"""
    tensors = [("index", index), ("src", src), ("chain", chain), ("total", total), ("count", count)]
    _lines(b, f"scatter_add_{src.dtype}", tensors, axis, index.shape, out.shape[axis], body, status)
    final = f"const hal_{a} s = count <= 512 ? (count == 512 ? total : chain) : count % 512 == 0 ? total : {plus('total', 'chain')};"
    last = f"({STORAGE[out.dtype]})s" if a == "i64" else rounded(out.dtype, "s")
    named = [("chain", chain), ("total", total), ("count", count)]
    elementwise(b, f"chains_{out.dtype}", out.shape, named, [("out", out)], f"        {final}\n        out = {last};")


def chain_lines(b: Builder, src: Tensor, index: Tensor, total: Tensor, axis: int, status: Argument) -> None:
    """total[…, index, …] += src along an axis, in ascending order, unbroken chains in total's dtype (a float)."""
    value = load(src.dtype, "x_src[HAL_V(at_src) + i * step_src]")
    body = f"""
  for (i = 0; i < length; ++i)
    HAL_FOR_LANES(lane, m) {{
      const hal_i64 to = x_index[HAL_V(at_index) + i * step_index];
      if (to < 0 || to >= limit) hal_raise(status, to);
      else x_total[HAL_V(at_total) + to * step_total] = x_total[HAL_V(at_total) + to * step_total] + {value};
    }}"""
    tensors = [("index", index), ("src", src), ("total", total)]
    _lines(b, f"chains_{src.dtype}", tensors, axis, index.shape, total.shape[axis], body, status)


_COUNT = """
HAL_KERNEL(hal_nonzero_scan, 1, (GLOBAL void *p_count, hal_i64 o_count, hal_i64 blocks)) {
  GLOBAL hal_i64 *count = HAL_PTR(hal_i64, p_count, o_count);
  hal_i64 k, before = 0;
  HAL_ONE_LANE {
    for (k = 0; k < blocks; ++k) {
      const hal_i64 here = count[k];
      count[k] = before;
      before += here;
    }
  }
}
HAL_KERNEL(hal_nonzero_count, 1, (GLOBAL void *p_x, hal_i64 o_x, GLOBAL void *p_count, hal_i64 o_count, hal_i64 n)) {
  GLOBAL const hal_u8 *x = HAL_PTR(hal_u8, p_x, o_x);
  GLOBAL hal_i64 *count = HAL_PTR(hal_i64, p_count, o_count);
  const hal_i64 first = HAL_GROUP() * 4096, end = hal_min_i64(n, first + 4096);
  hal_i64 i, total = 0;
  HAL_ONE_LANE {
    for (i = first; i < end; ++i) total += x[i] != 0;
    count[HAL_GROUP()] = total;
  }
}
typedef struct { hal_i64 v[4]; } hal_nonzero_block;
HAL_KERNEL(hal_nonzero_fill, 1, (hal_nonzero_block g, GLOBAL void *p_x, hal_i64 o_x, GLOBAL void *p_count, hal_i64 o_count,
                                 GLOBAL void *p_out, hal_i64 o_out)) {
  GLOBAL const hal_u8 *x = HAL_PTR(hal_u8, p_x, o_x);
  GLOBAL const hal_i64 *count = HAL_PTR(hal_i64, p_count, o_count);
  GLOBAL hal_i64 *out = HAL_PTR(hal_i64, p_out, o_out) + g.v[2];
  const hal_i64 n = g.v[0], size = g.v[1], step = g.v[3], first = HAL_GROUP() * 4096, end = hal_min_i64(n, first + 4096);
  hal_i64 i, to = count[HAL_GROUP()];
  HAL_ONE_LANE {
    for (i = first; i < end; ++i)
      if (x[i] != 0) {
        if (to < size) out[to * step] = i;
        ++to;
      }
  }
}
"""


def nonzero(b: Builder) -> None:
    """Counts of blocks, their running sum, then each block writes its own. The caller has counted: what out can't hold is left out."""

    x, out = b.input(0), b.output(0)
    n = prod(x.shape)
    flat = b.scratch("bool", x.shape)
    copy_tensor(b, x, flat)
    b.source(guarded("nonzero", _COUNT))
    blocks = ceil_div(n, 4096)
    count = b.scratch("i64", (max(blocks, 1),))
    b.step("hal_nonzero_count", blocks, 1, [flat.argument, count.argument, Scalar(n)])
    b.step("hal_nonzero_scan", min(blocks, 1), 1, [count.argument, Scalar(blocks)])
    block = Block((n, out.shape[0], out.offset, out.strides[0]))
    b.step("hal_nonzero_fill", blocks, 1, [block, flat.argument, count.argument, out.argument])
