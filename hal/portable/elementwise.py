"""Kernels that compute each element of the outputs on its own: the engine behind most families.

A tile of up to 256 elements of one row (the innermost dimension) is loaded, computed and stored in three lane regions, so that on a CPU
each is a plain loop that vectorises even where an output is written in place. Operands are strided, broadcast (stride 0) or
immediate; which, is told at run time, so there is one kernel per computation and dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .build import Builder, Tensor, guarded, render, short_hash
from .interface import Argument, Block
from .types import ITEMSIZE, STORAGE, immediate, load, register, store
from .views import broadcast, ceil_div, collapse

TILE = 256
STREAM_BYTES = 32 << 20  #: from here on results are stored past the caches, where the compiler can
_HEAD = 7  # numbers before the parameters in the block

_KERNEL = """
typedef struct { hal_i64 v[$size]; } ${name}_block;
HAL_KERNEL($name, $tile, (${name}_block g, $parameters)) {
  const hal_i64 each_ = g.v[1], wide_ = g.v[2], parts_ = g.v[3];
  const hal_i32 rank_ = (hal_i32)g.v[4], mixed_ = HAL_THREADS && g.v[5] != 0;
  hal_i64 part_ = HAL_GROUP() * each_, row_ = 0, known_ = -1;
  const hal_i64 end_ = hal_min_i64(g.v[0], part_ + each_);
$declare
  for (; part_ < end_; ++part_) {
    hal_i64 col_ = part_, index_;
    hal_i32 m_;
    if (parts_ > 1) { row_ = hal_div(part_, parts_); col_ -= row_ * parts_; } else { row_ = part_; col_ = 0; }
    col_ *= $tile;
    m_ = (hal_i32)hal_min_i64($tile, wide_ - col_);
    index_ = row_ * wide_ + col_;
    if (row_ != known_ && !mixed_) {
      hal_i64 rest_ = row_;
      hal_i32 d;
$reset
      for (d = rank_ - 1; d >= 0; --d) {
        const hal_i64 q = hal_div(rest_, g.v[$sizes + d]), c = rest_ - q * g.v[$sizes + d];
        rest_ = q;
$advance
      }
      known_ = row_;
    }
#if HAL_THREADS
    if (mixed_) {
      HAL_FOR_LANES(lane, m_) {
        hal_i64 rest_ = index_ + lane;
        hal_i32 d;
$lane_reset
        for (d = rank_ - 1; d >= 0; --d) {
          const hal_i64 q = hal_div(rest_, g.v[$sizes + d]), c = rest_ - q * g.v[$sizes + d];
          rest_ = q;
$lane_advance
        }
      }
    }
#endif
$loads
    HAL_FOR_LANES(lane, m_) {
      const hal_i64 i = index_ + lane;
$open
      (void)i;
      {
$body
      }
$close
    }
$stores
  }
  HAL_STREAM_END();
}
"""

_LOAD = """    if ((g.v[6] >> $k & 1) || (step_$n == 0 && !mixed_)) {
      const $register same = (g.v[6] >> $k & 1) ? $immediate : $at_same;
      HAL_FOR_LANES(lane, m_) HAL_V(v_$n) = same;
    }
#if HAL_THREADS
    else if (mixed_) { HAL_FOR_LANES(lane, m_) HAL_V(v_$n) = $at_lane; }
#endif
    else if (step_$n == 1) { HAL_FOR_LANES(lane, m_) HAL_V(v_$n) = $at_unit; }
    else { HAL_SCALAR_LOOP HAL_FOR_LANES(lane, m_) HAL_V(v_$n) = $at_step; }"""

_STORE = """#if HAL_THREADS
    if (mixed_) { HAL_FOR_LANES(lane, m_) x_$n[HAL_V(at_$n)] = $value; } else
#endif
$stream    if (step_$n == 1) { HAL_FOR_LANES(lane, m_) x_$n[base_$n + col_ + lane] = $value; }
    else { HAL_SCALAR_LOOP HAL_FOR_LANES(lane, m_) x_$n[base_$n + (col_ + lane) * step_$n] = $value; }"""

_STREAM = """#if HAL_STREAM
    if (step_$n == 1 && g.v[5] != 0 && m_ == $tile && ((hal_u64)(x_$n + base_$n + col_) & 31u) == 0) {
      for (hal_i32 lane = 0; lane < $tile; lane += $line) HAL_STREAM_LINE(v_$n + lane, x_$n + base_$n + col_ + lane);
    } else
#endif
"""


def _stores(n: str, dtype: str) -> str:
    """Stores of one output; values that lie in memory as they are computed may be streamed."""
    stream = ""
    if register(dtype) == STORAGE[dtype] and ITEMSIZE[dtype] >= 4:
        stream = render(_STREAM, n=n, tile=TILE, line=32 // ITEMSIZE[dtype])
    return render(_STORE, n=n, value=store(dtype, f"HAL_V(v_{n})"), stream=stream)


def _text(
    label: str,
    inputs: list[tuple[str, str]],
    raw: list[tuple[str, str]],
    outputs: list[tuple[str, str]],
    scalars: list[str],
    params: list[str],
    body: str,
    rank: int,
    decode: list[str],
) -> tuple[str, str, int]:
    """(kernel name, source, numbers in the block). ``inputs``, ``raw``, ``outputs``: (name, dtype)."""
    tensors = [*inputs, *raw, *outputs]
    sizes = _HEAD + len(params)
    first = sizes + rank
    declare, reset, advance, lane_reset, lane_advance = [], [], [], [], []
    for k, (n, dtype) in enumerate(tensors):
        at = first + k * (rank + 2)
        declare.append(f"  GLOBAL {STORAGE[dtype]} *x_{n} = HAL_PTR({STORAGE[dtype]}, p_{n}, o_{n});")
        declare.append(
            f"  const hal_i64 step_{n} = g.v[{at + 1}]; hal_i64 base_{n} = 0; HAL_LANE_VAR(hal_i64, at_{n}, HAL_THREADS ? {TILE} : 1);"
        )
        if (n, dtype) not in raw:
            declare.append(f"  HAL_LANE_VAR({register(dtype)}, v_{n}, {TILE});")
        reset.append(f"      base_{n} = g.v[{at}];")
        advance.append(f"        base_{n} += c * g.v[{at + 2} + d];")
        lane_reset.append(f"        HAL_V(at_{n}) = g.v[{at}];")
        lane_advance.append(f"          HAL_V(at_{n}) += c * g.v[{at + 2} + d];")
    declare += [f"  const hal_i64 {p} = g.v[{_HEAD + j}];" for j, p in enumerate(params)] + [f"  {line}" for line in decode]
    loads = [
        render(
            _LOAD,
            k=k,
            n=n,
            register=register(dtype),
            immediate=immediate(dtype, f"o_{n}"),
            at_lane=load(dtype, f"x_{n}[HAL_V(at_{n})]"),
            at_unit=load(dtype, f"x_{n}[base_{n} + col_ + lane]"),
            at_same=load(dtype, f"x_{n}[base_{n}]"),
            at_step=load(dtype, f"x_{n}[base_{n} + (col_ + lane) * step_{n}]"),
        )
        for k, (n, dtype) in enumerate(inputs)
    ]
    opened = [f"      const {register(dtype)} {n} = HAL_V(v_{n});" for n, dtype in inputs]
    opened += [
        f"      GLOBAL {STORAGE[dtype]} *const {n} = x_{n} + HAL_RAW(at_{n}, base_{n} + (col_ + lane) * step_{n});" for n, dtype in raw
    ]
    opened += [f"      {register(dtype)} {n};" for n, dtype in outputs]
    stores = [_stores(n, dtype) for n, dtype in outputs]
    parameters = [f"GLOBAL void *p_{n}, hal_i64 o_{n}" for n, _ in tensors] + scalars
    size = first + len(tensors) * (rank + 2)
    fields = {
        "size": size,
        "tile": TILE,
        "parameters": ", ".join(parameters),
        "sizes": sizes,
        "declare": "\n".join(declare),
        "reset": "\n".join(reset),
        "advance": "\n".join(advance),
        "lane_reset": "\n".join(lane_reset),
        "lane_advance": "\n".join(lane_advance),
        "loads": "\n".join(loads),
        "open": "\n".join(opened),
        "body": body,
        "close": "\n".join(f"      HAL_V(v_{n}) = {n};" for n, _ in outputs),
        "stores": "\n".join(stores),
    }
    name = f"hal_{label}_{short_hash(render(_KERNEL, name='', **fields))}"
    return name, render(_KERNEL, name=name, **fields), size


def elementwise(
    b: Builder,
    label: str,
    shape: Sequence[int],
    inputs: Sequence[tuple[str, Tensor]],
    outputs: Sequence[tuple[str, Tensor]],
    body: str,
    *,
    raw: Sequence[tuple[str, Tensor]] = (),
    immediates: Sequence[tuple[str, str, Argument]] = (),
    params: dict[str, int] | None = None,
    preamble: Sequence[str] = (),
    status: Argument | None = None,
    work: int = 1,
) -> None:
    """Adds a kernel over ``shape`` and its launch.

    ``body``: statements that set each output's name (a value of its compute type) from the inputs' names; also in scope: ``i``, the
    row-major number of the element, ``params`` (hal_i64) and ``immediates`` (name, dtype, argument).
    An empty ``shape`` adds the kernel without a launch.
    ``raw``: operands that the body reads itself: the name is a pointer to the place that the element's coordinates lead to
    (it may write there too).
    ``status``: where ``hal_raise(status, index)`` in the body reports to (`Builder.raises`).
    ``preamble``: functions that the body calls. ``work``: roughly how many operations the body has (splits the work finer).
    """
    everything = [*inputs, *raw, *outputs]
    tensors = [t for _, t in everything]
    count = prod(shape)
    strides = [broadcast(t.shape, t.strides, shape) if count else (0,) * len(shape) for t in tensors]
    sizes, steps = collapse(shape, strides)
    rank = 8 if len(sizes) <= 8 else 16
    params = params or {}
    decode = [f"const {register(d)} {n} = {immediate(d, f'o_{n}')};" for n, d, _ in immediates]
    scalars = [f"hal_i64 o_{n}" for n, _, _ in immediates]
    if status is not None:
        scalars.append("GLOBAL void *p_status, hal_i64 o_status")
        decode.append("GLOBAL hal_i64 *status = HAL_PTR(hal_i64, p_status, o_status);")
    name, text, block = _text(
        label,
        [(n, t.dtype) for n, t in inputs],
        [(n, t.dtype) for n, t in raw],
        [(n, t.dtype) for n, t in outputs],
        scalars,
        list(params),
        body,
        rank,
        decode,
    )
    for part in preamble:
        b.source(part)
    b.source(guarded(name, text))
    if count == 0:
        return
    general = bool(b.target.threads) and len(sizes) > 1 and sizes[-1] < TILE
    cols = count if general else sizes[-1]
    outer = sizes if general else sizes[:-1]
    row_pieces = ceil_div(cols, TILE)
    pieces = row_pieces * (count // cols)
    most = max(1, (64 if not b.target.threads else 8) // work)
    per_group = max(1, min(most, pieces // (4 * (b.target.concurrency or 1))))
    stream = not b.target.threads and count * sum(ITEMSIZE[t.dtype] for t in tensors) >= STREAM_BYTES
    flags = sum(1 << k for k, (_, t) in enumerate(inputs) if t.immediate)
    values = [
        pieces,
        per_group,
        cols,
        row_pieces,
        len(outer),
        int(general or stream),
        flags,
        *params.values(),
        *outer,
        *[1] * (rank - len(outer)),
    ]
    for t, s in zip(tensors, steps):
        values += [t.offset, 0 if general else s[-1], *(s if general else s[:-1]), *[0] * (rank - len(outer))]
    assert len(values) == block
    arguments: list[Argument] = [Block(tuple(values)), *(t.argument for t in tensors), *(a for _, _, a in immediates)]
    if status is not None:
        arguments.append(status)
    b.step(name, ceil_div(pieces, per_group), TILE, arguments)
