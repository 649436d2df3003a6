"""Reductions (section 5 of docs/numerics.md): blocks of 4096 values, 32 lanes, a tree; the block results are reduced by the same rule.

`reduce` reduces a value that is computed from several operands on the way (``map``), so that composites need no intermediate tensors.
A work-group takes whole blocks. Where there is more than one block per row, their results go to the workspace and are reduced again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .build import Builder, Tensor, guarded, render, short_hash
from .interface import Argument, Block
from .types import STORAGE, accumulator, compute, load, register, store
from .views import broadcast, ceil_div, collapse

BLOCK = 4096
LANES = 32
RANK = 8
_HEAD = 7

_KERNEL = """
typedef struct { hal_i64 v[$size]; } ${name}_block;
HAL_KERNEL($name, 32, (${name}_block g, $parameters)) {
  const hal_i64 n = g.v[2], blocks = g.v[3], count = g.v[6];
  const hal_i32 kept = (hal_i32)g.v[4], reduced = (hal_i32)g.v[5];
  hal_i64 task = HAL_GROUP() * g.v[1];
  const hal_i64 end = hal_min_i64(g.v[0], task + g.v[1]), inner = g.v[$inner];
$declare
  (void)count;
  for (; task < end; ++task) {
    const hal_i64 row = hal_div(task, blocks), first = (task - row * blocks) * 4096;
    const hal_i32 m = (hal_i32)hal_min_i64(4096, n - first);
    hal_i64 rest = row;
    hal_i32 d, strip;
$reset
    for (d = kept - 1; d >= 0; --d) {
      const hal_i64 q = hal_div(rest, g.v[$kept_sizes + d]), c = rest - q * g.v[$kept_sizes + d];
      rest = q;
$advance
    }
    HAL_FOR_LANES(lane, 32) { $start }
    for (strip = 0; strip < m; strip += 32) {
      const hal_i32 width = m - strip < 32 ? m - strip : 32;
      const hal_i64 i0 = first + strip;
      hal_i64 place = i0;
$strip
      if (reduced > 1) {
        rest = i0;
$strip_reset
        for (d = reduced - 1; d >= 0; --d) {
          const hal_i64 q = hal_div(rest, g.v[$reduced_sizes + d]), c = rest - q * g.v[$reduced_sizes + d];
          rest = q;
          if (d == reduced - 1) place = c;
$strip_advance
        }
      }
      if (width == 32 && (reduced <= 1 || place + 32 <= inner)) {
$loads
        HAL_FOR_LANES(lane, 32) {
          const hal_i64 i = i0 + lane;
$loaded
          (void)i;
          $accumulate
        }
      } else {
        HAL_SCALAR_LOOP HAL_FOR_LANES(lane, width) {
          const hal_i64 i = i0 + lane;
          hal_i64 left = i;
          hal_i32 e;
$lane_reset
          HAL_SCALAR_LOOP for (e = reduced - 1; e > 0; --e) {
            const hal_i64 q = hal_div(left, g.v[$reduced_sizes + e]), c = left - q * g.v[$reduced_sizes + e];
            left = q;
$lane_advance
          }
$lane_last
$lane_loads
          (void)i;
          $accumulate
        }
      }
    }
    HAL_FOR_LANES(lane, 32) { $share }
    for (d = 16; d > 0; d >>= 1) {
      HAL_BARRIER();
      HAL_FOR_LANES(lane, d) { $combine }
    }
    HAL_ONE_LANE { $write }
    HAL_BARRIER();
  }
}
"""


@dataclass(frozen=True)
class Kind:
    """One kind of reduction. ``acc``: C type of a partial result, ``dtype``: under which it is stored; the pieces of code are over
    ``acc``, ``value`` and the array ``shared``. ``index``: partial results carry the number of the element they are of."""

    name: str
    acc: str
    dtype: str
    start: str
    step: str
    index: bool = False

    def code(self) -> dict[str, str]:
        """start, accumulate (over value), share, combine: statements."""
        if not self.index:
            return {
                "start": f"HAL_V(acc) = {self.start};",
                "accumulate": f"HAL_V(acc) = {self.step.format(a='HAL_V(acc)', b=f'({self.acc})(value)')};",
                "share": "shared[lane] = HAL_V(acc);",
                "combine": f"shared[lane] = {self.step.format(a='shared[lane]', b='shared[lane + d]')};",
            }
        better = f"hal_{self.name}_{self.dtype}"
        return {
            "start": f"HAL_V(acc) = 0; HAL_V(at) = {-1};",
            "accumulate": f"if ({better}(value, number, HAL_V(acc), HAL_V(at))) {{ HAL_V(acc) = value; HAL_V(at) = number; }}",
            "share": "shared[lane] = HAL_V(acc); shared_at[lane] = HAL_V(at);",
            "combine": f"if ({better}(shared[lane + d], shared_at[lane + d], shared[lane], shared_at[lane]))"
            " { shared[lane] = shared[lane + d]; shared_at[lane] = shared_at[lane + d]; }",
        }


def kind(name: str, dtype: str) -> Kind:
    """A kind of reduction of values of a dtype."""
    c, a = compute(dtype), accumulator(dtype)
    wide = "hal_u64" if a == "i64" else STORAGE[a]
    if name in ("sum", "mean"):
        return Kind("sum", wide, a, "0", "{a} + {b}")
    if name == "prod":
        return Kind("prod", wide, a, "1", "{a} * {b}")
    if name in ("any", "all"):
        return Kind(name, "hal_u8", "bool", "0" if name == "any" else "1", f"(hal_u8)({{a}} {'|' if name == 'any' else '&'} {{b}})")
    if name in ("argmax", "argmin"):
        return Kind(name, STORAGE[c], c, "0", "", index=True)
    largest = name == "amax"
    if c in ("f32", "f64"):
        start = f"{'-' if largest else ''}hal_inf_{c}()"
        return Kind(name, STORAGE[c], c, start, f"hal_{'maximum' if largest else 'minimum'}_{c}({{a}}, {{b}})")
    low, high = {
        "bool": ("0", "1"),
        "u8": ("0", "255"),
        "i8": ("-128", "127"),
        "i16": ("-32768", "32767"),
        "i32": ("(-2147483647 - 1)", "2147483647"),
        "i64": ("((hal_i64)HAL_U64(0x80000000u, 0u))", "((hal_i64)HAL_U64(0x7fffffffu, 0xffffffffu))"),
    }[c]
    return Kind(name, STORAGE[c], c, low if largest else high, f"({{a}} {'>' if largest else '<'} {{b}} ? {{a}} : {{b}})")


def _better(k: Kind) -> str:
    """Whether value a, number i goes before b, number j (j < 0: nothing yet): the first NaN, else the extreme, the first of equals."""
    nan = "a != a ? !(b != b && j < i) : b != b ? 0 :" if k.dtype in ("f32", "f64") else ""
    sign = ">" if k.name == "argmax" else "<"
    text = f"""HAL_FN hal_i32 hal_{k.name}_{k.dtype}({k.acc} a, hal_i64 i, {k.acc} b, hal_i64 j) {{
  if (i < 0 || j < 0) return i >= 0;
  return {nan} a {sign} b || (a == b && i < j);
}}"""
    return guarded(f"{k.name}_{k.dtype}", text)


def _text(label: str, k: Kind, inputs: list[tuple[str, str]], value: str, number: str, writes: list[tuple[str, str]]) -> tuple[str, str]:
    """(kernel name, source). ``writes``: (dtype, the expression stored) of the result, then of the parts of a partial result."""
    kept_sizes, reduced_sizes = _HEAD, _HEAD + RANK
    at = _HEAD + 2 * RANK
    sections = ("declare", "reset", "advance", "strip", "strip_reset", "strip_advance", "lane_reset", "lane_advance", "lane_last", "loaded")
    lines: dict[str, list[str]] = {section: [] for section in sections}
    loads, lane_loads = [], []
    for n, dtype in inputs:
        lines["declare"].append(f"  GLOBAL const {STORAGE[dtype]} *x_{n} = HAL_PTR({STORAGE[dtype]}, p_{n}, o_{n});")
        lines["declare"].append(f"  const hal_i64 step_{n} = g.v[{at + 1 + RANK} + (reduced > 0 ? reduced - 1 : 0)]; hal_i64 base_{n};")
        lines["reset"].append(f"    base_{n} = g.v[{at}];")
        lines["advance"].append(f"      base_{n} += c * g.v[{at + 1} + d];")
        lines["strip"].append(f"      hal_i64 off_{n} = base_{n} + i0 * step_{n};")
        lines["strip_reset"].append(f"        off_{n} = base_{n};")
        lines["strip_advance"].append(f"          off_{n} += c * g.v[{at + 1 + RANK} + d];")
        lines["lane_reset"].append(f"          hal_i64 at_{n} = base_{n};")
        lines["lane_advance"].append(f"            at_{n} += c * g.v[{at + 1 + RANK} + e];")
        lines["lane_last"].append(f"          at_{n} += left * g.v[{at + 1 + RANK}];")
        lines["declare"].append(f"  HAL_LANE_VAR({register(dtype)}, v_{n}, 32);")
        lines["loaded"].append(f"          const {register(dtype)} {n} = HAL_V(v_{n});")
        unit, strided = load(dtype, f"x_{n}[off_{n} + lane]"), load(dtype, f"x_{n}[off_{n} + lane * step_{n}]")
        loads.append(f"        if (step_{n} == 1) {{ HAL_FOR_LANES(lane, 32) HAL_V(v_{n}) = {unit}; }}")
        loads.append(f"        else {{ HAL_SCALAR_LOOP HAL_FOR_LANES(lane, 32) HAL_V(v_{n}) = {strided}; }}")
        lane_loads.append(f"          const {register(dtype)} {n} = {load(dtype, f'x_{n}[at_{n}]')};")
        at += 1 + 2 * RANK
    write: list[list[str]] = [[], []]
    for j, (dtype, expr) in enumerate(writes):
        lines["declare"].append(f"  GLOBAL {STORAGE[dtype]} *y_{j} = HAL_PTR({STORAGE[dtype]}, p_out{j}, o_out{j}); hal_i64 to_{j};")
        lines["reset"].append(f"    to_{j} = g.v[{at}] + (blocks > 1 ? first >> 12 : 0);")
        lines["advance"].append(f"      to_{j} += c * g.v[{at + 1} + d];")
        write[j > 0].append(f"y_{j}[to_{j}] = {store(dtype, expr)};")
        at += 1 + RANK
    lines["declare"] += [f"  HAL_LANE_VAR({k.acc}, acc, 32); HAL_SHARED({k.acc}, shared, 32);"]
    if k.index:
        lines["declare"] += ["  HAL_LANE_VAR(hal_i64, at, 32); HAL_SHARED(hal_i64, shared_at, 32);"]
        value = f"const {k.acc} value = {value}; const hal_i64 number = {number};"
    else:
        value = f"const {k.acc} value = ({k.acc})({value});"
    code = k.code()
    fields = {key: "\n".join(text) for key, text in lines.items()} | code
    fields |= {
        "size": str(at),
        "parameters": ", ".join(
            [f"GLOBAL void *p_{n}, hal_i64 o_{n}" for n in [*(n for n, _ in inputs), *(f"out{j}" for j in range(len(writes)))]]
        ),
        "inner": f"{reduced_sizes} + (g.v[5] > 0 ? g.v[5] - 1 : 0)",
        "kept_sizes": str(kept_sizes),
        "reduced_sizes": str(reduced_sizes),
        "loads": "\n".join(loads),
        "lane_loads": "\n".join(lane_loads),
        "accumulate": f"{value} {code['accumulate']}",
        "write": f"if (blocks > 1) {{ {' '.join(write[1])} }} else {{ {' '.join(write[0])} }}",
    }
    name = f"hal_{label}_{short_hash(render(_KERNEL, name='', **fields))}"
    return name, render(_KERNEL, name=name, **fields)


def _launch(
    b: Builder,
    name: str,
    inputs: list[Tensor],
    kept: list[int],
    reduced: list[int],
    shape: Sequence[int],
    outs: list[Tensor],
    blocks: int,
    count: int,
) -> None:
    rows, n = prod(shape[d] for d in kept), prod(shape[d] for d in reduced)
    steps = [broadcast(t.shape, t.strides, shape) for t in inputs]
    kept_sizes, kept_steps = collapse([shape[d] for d in kept], [*([s[d] for d in kept] for s in steps), *(o.strides for o in outs)])
    reduced_sizes, reduced_steps = collapse([shape[d] for d in reduced], [[s[d] for d in reduced] for s in steps])
    if max(len(kept_sizes), len(reduced_sizes)) > RANK:
        raise b.unsupported(
            f"dimensions: got {len(kept_sizes)} kept and {len(reduced_sizes)} reduced, expected at most {RANK} that can't be merged"
        )
    tasks = rows * blocks
    per_group = max(1, min(64, tasks // (4 * (b.target.concurrency or 1)), max(1, 65536 // min(max(n, 1), BLOCK))))
    pad = lambda values: [*values, *[0] * (RANK - len(values))]
    values = [tasks, per_group, n, blocks, len(kept_sizes), len(reduced_sizes), count, *pad(kept_sizes), *pad(reduced_sizes)]
    for t, k, r in zip(inputs, kept_steps, reduced_steps):
        values += [t.offset, *pad(k), *pad(r)]
    for o, k in zip(outs, kept_steps[len(inputs) :]):
        values += [o.offset, *pad(k)]
    arguments: list[Argument] = [Block(tuple(values)), *(t.argument for t in inputs), *(o.argument for o in outs)]
    b.step(name, ceil_div(tasks, per_group), LANES, arguments)


def reduce(
    b: Builder,
    k: Kind,
    shape: Sequence[int],
    axes: Sequence[int],
    inputs: Sequence[tuple[str, Tensor]],
    out: Tensor,
    value: str,
    final: str = "total",
    preamble: Sequence[str] = (),
) -> None:
    """Reduces ``value`` (an expression over the inputs' names) of every element of ``shape`` along ``axes``.

    ``inputs`` broadcast to ``shape``; ``out`` has the dimensions that are kept, in their order. ``final``: what is stored, an expression
    over ``total``, the result, and ``count``, how many values a row has (hal_i64); for kinds with an index, ``total_at`` is it.
    """
    tensors = [t for _, t in inputs]
    kept, reduced = [d for d in range(len(shape)) if d not in axes], list(axes)
    rows, n = prod(shape[d] for d in kept), prod(shape[d] for d in reduced)
    for part in (*preamble, *([_better(k)] if k.index else [])):
        b.source(part)
    final = final.replace("total_at", "shared_at[0]").replace("total", "shared[0]")
    partial = [(k.dtype, "shared[0]"), *([("i64", "shared_at[0]")] if k.index else [])]
    again = [("total", k.dtype), *([("place", "i64")] if k.index else [])]
    label = f"{k.name}_{inputs[0][1].dtype}"
    first = _text(label, k, [(s, t.dtype) for s, t in inputs], value, "i", [(out.dtype, final), *partial])
    second = _text(f"{k.name}_{k.dtype}", k, again, "total", "place", [(out.dtype, final), *partial])
    for name, text in (first, second):
        b.source(guarded(name, text))
    if rows == 0:
        return
    kernel, size, current = first[0], n, tensors
    dims, keep, cut = list(shape), kept, reduced
    while True:
        blocks = max(1, ceil_div(size, BLOCK))
        kept_shape = tuple(dims[d] for d in keep)
        if blocks == 1:
            _launch(b, kernel, current, keep, cut, dims, [out, *[out] * len(partial)], blocks, n)
            return
        parts = [b.scratch(d, (*kept_shape, blocks)) for d, _ in partial]
        heads = [p.view(kept_shape, p.strides[:-1]) for p in parts]
        _launch(b, kernel, current, keep, cut, dims, [out, *heads], blocks, n)
        kernel, size, current = second[0], blocks, parts
        dims, keep, cut = [*kept_shape, blocks], list(range(len(kept_shape))), [len(kept_shape)]


def reduction(b: Builder) -> None:
    """sum, mean, prod, amax, amin, argmax, argmin, any, all."""
    x, out = b.input(0), b.output(0)
    mask = int(b.attribute("axes"))
    rank = len(x.shape)
    axes = [d for d in range(rank) if mask >> d & 1]
    if mask >> rank:
        raise b.unsupported(f"axes: got {mask:#x}, expected bits below {rank}")
    k = kind(b.op, x.dtype)
    if prod(x.shape[d] for d in axes) == 0 and b.op in ("amax", "amin", "argmax", "argmin") and 0 not in out.shape:
        raise b.unsupported("got an empty axis, which has no result")
    c = compute(x.dtype)
    value = {"any": "x != 0", "all": "x != 0"}.get(b.op, "x")
    final = "total_at" if k.index else f"total / (hal_{k.dtype})count" if b.op == "mean" else "total"
    kept = [d for d in range(rank) if d not in axes]
    target = out.view(tuple(out.shape[d] for d in kept), tuple(out.strides[d] for d in kept))
    wide = c in ("i8", "i16", "i32", "i64") and k.acc == "hal_u64"
    reduce(b, k, x.shape, axes, [("x", x)], target, f"(hal_i64){value}" if wide else value, final)
