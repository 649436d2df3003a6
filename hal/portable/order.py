"""cumsum, sort and topk (section 16 of docs/numerics.md)."""

from __future__ import annotations

from .build import Builder, Tensor
from .elementwise import elementwise
from .types import accumulator, compute, load, store
from .views import ceil_div

BLOCK = 4096


def _last(b: Builder, t: Tensor) -> Tensor:
    """The tensor with its axis last; a scalar as one element."""
    if not t.shape:
        return t.view((1,), (1,))
    rank, axis = len(t.shape), int(b.attribute("axis"))
    if not -rank <= axis < rank:
        raise b.unsupported(f"axis: got {axis}, expected {-rank} <= axis < {rank}")
    return t.transposed([*(d for d in range(rank) if d != axis % rank), axis % rank])


def _plus(a: str, p: str, q: str) -> str:
    return f"(hal_i64)((hal_u64){p} + (hal_u64){q})" if a == "i64" else f"{p} + {q}"


def _blocks(t: Tensor, blocks: int) -> Tensor:
    """The first element of each block of the last dimension."""
    return t.view((*t.shape[:-1], blocks), (*t.strides[:-1], t.strides[-1] * BLOCK))


def _scan(b: Builder, x: Tensor, out: Tensor, a: str) -> None:
    """Scans the last dimension: the totals of the blocks, their scan by the same rule, then each block again with what lies before."""
    n = x.shape[-1]
    blocks = ceil_div(n, BLOCK)
    params = {"n": n, "blocks": blocks, "step": x.strides[-1], "to_step": out.strides[-1]}
    bounds = """        const hal_i64 k = i - hal_div(i, blocks) * blocks, m = hal_min_i64(4096, n - k * 4096);
        hal_i64 j;"""
    value = f"(hal_{a})({load(x.dtype, 'x[j * step]')})"
    shape = (*x.shape[:-1], blocks)
    totals = b.scratch(a, shape)
    sums = f"""{bounds}
        hal_{a} s = 0;
        for (j = 0; j < m; ++j) s = {_plus(a, "s", value)};
        total = s;"""
    scanned = b.scratch(a, shape)
    label = f"totals_{x.dtype}"
    elementwise(
        b, label, shape if blocks > 1 else (0,), [], [("total", totals)], sums, raw=[("x", _blocks(x, blocks))], params=params, work=64
    )
    if blocks > 1:
        _scan(b, totals, scanned, a)
    written = _plus(a, "before", "s")
    result = store(out.dtype, f"(k > 0 ? {written} : s)")
    body = f"""{bounds}
        const hal_{a} before = k > 0 ? scanned[-1] : 0;
        hal_{a} s = 0;
        for (j = 0; j < m; ++j) {{
          s = {_plus(a, "s", value)};
          out[j * to_step] = {result};
        }}"""
    raw = [("x", _blocks(x, blocks)), ("scanned", scanned), ("out", _blocks(out, blocks))]
    elementwise(b, f"scan_{x.dtype}_{out.dtype}", shape, [], [], body, raw=raw, params=params, work=64)


def cumsum(b: Builder) -> None:
    x, out = _last(b, b.input(0)), _last(b, b.output(0))
    a = accumulator(x.dtype)
    nothing = b.scratch(a, (0,))
    _scan(b, nothing, nothing, a)  # the kernels of longer rows belong to the key, whatever the length
    _scan(b, x, out, a)


def _key(dtype: str) -> str:
    """An unsigned number in the order of the values: −0 as +0, NaN last."""
    c = compute(dtype)
    if c not in ("f32", "f64"):
        return "(hal_u64)(hal_i64)x ^ HAL_U64(0x80000000u, 0u)"
    sign = "0x80000000u" if c == "f32" else "HAL_U64(0x80000000u, 0u)"
    u = f"hal_{c}_to_bits(x)"
    return f"x != x ? ~(hal_u64)0 : x == 0 ? (hal_u64){sign} : (hal_u64)({u} & {sign} ? ~{u} : {u} | {sign})"


# Each element of two sorted runs finds its place in the merged run: its number in its own run plus how many of the other go before it
# (of equal ones those of the left run).
_MERGE = """        const hal_i64 place = i - hal_div(i, n) * n, start = hal_div(place, 2 * width) * (2 * width);
        const hal_i64 middle = hal_min_i64(n, start + width), end = hal_min_i64(n, start + 2 * width);
        const hal_i32 left = place < middle;
        const hal_u64 own = keys[place];
        hal_i64 low = left ? middle : start, high = left ? end : middle;
        const hal_i64 other = low;
        while (low < high) {
          const hal_i64 probe = low + (high - low) / 2;
          const hal_u64 there = keys[probe];
          if (there < own || (!left && there == own)) low = probe + 1;
          else high = probe;
        }
        low = start + (place - (left ? start : middle)) + (low - other);
        new_keys[low] = own;
        new_numbers[low] = numbers[place];"""


def _rows(t: Tensor) -> Tensor:
    """A tensor whose pointer stays at the row's first element."""
    return t.view(t.shape, (*t.strides[:-1], 0))


def _sorted(b: Builder, x: Tensor, descending: bool) -> Tensor:
    """Numbers of the elements along the last dimension in their order, as a workspace tensor."""
    n = x.shape[-1]
    keys, numbers, spare_keys, spare_numbers = (b.scratch(d, x.shape) for d in ("bits64", "i64", "bits64", "i64"))
    flip = "~" if descending else ""
    body = f"        keys = {flip}({_key(x.dtype)}); numbers = i - hal_div(i, n) * n;"
    params = {"n": n}
    elementwise(b, f"keys_{x.dtype}", x.shape, [("x", x)], [("keys", keys), ("numbers", numbers)], body, params=params)
    width = 1
    while True:  # at least once, so that the key holds the merge's kernel whatever the length
        raw = [
            (name, _rows(t)) for name, t in (("keys", keys), ("numbers", numbers), ("new_keys", spare_keys), ("new_numbers", spare_numbers))
        ]
        elementwise(b, "merge", x.shape, [], [], _MERGE, raw=raw, params={"n": n, "width": width}, work=8)
        keys, numbers, spare_keys, spare_numbers = spare_keys, spare_numbers, keys, numbers
        width *= 2
        if width >= n:
            return numbers


def sort(b: Builder) -> None:
    """sort and topk."""
    x, out, indices = (_last(b, t) for t in (b.input(0), b.output(0), b.output(1)))
    numbers = _sorted(b, x, bool(b.attribute("largest" if b.op == "topk" else "descending")))
    x, out = x.as_bits(), out.as_bits()
    order = numbers.view(out.shape, numbers.strides)
    place = x.view(out.shape, (*x.strides[:-1], 0))
    body = "        out = x[number * step]; index = number;"
    named, results = [("number", order)], [("out", out), ("index", indices)]
    elementwise(b, f"sorted_{x.dtype}", out.shape, named, results, body, raw=[("x", place)], params={"step": x.strides[-1]})
