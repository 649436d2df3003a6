"""Operands of matmul and the convolutions, packed into panels: see panels.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from .build import Builder, Tensor, guarded, render, short_hash
from .interface import Argument, Block
from .types import STORAGE, compute, load
from .views import ceil_div

BATCH_RANK = 8
PIECE = 256  #: k that one work-group packs


@dataclass(frozen=True)
class Side:
    """One operand as rows (or columns) × k. Both numbers are split in three coordinates (2 outermost).

    The element of (l2, l1, l0) and (k2, k1, k0) is x[l2·step_l + k2·step_k + h·step_h + w·step_w] with h = l1·lane_h + k1·k_h + start_h,
    likewise w. It is +0 (or left out) where h isn't in [0, size_h), after division by ``divide`` where that must leave no remainder.
    k runs over (k2 div block, k1, k0, k2 mod block).
    """

    tensor: Tensor
    lanes: tuple[int, int, int]
    k: tuple[int, int, int]
    step_l: int
    step_k: int
    step_hw: tuple[int, int] = (0, 0)
    lane_hw: tuple[int, int] = (0, 0)
    k_hw: tuple[int, int] = (0, 0)
    start_hw: tuple[int, int] = (0, 0)
    size_hw: tuple[int, int] = (1, 1)
    divide: tuple[int, int] = (1, 1)
    block: int = 1
    batch: tuple[tuple[int, int], ...] = field(default=())  #: (size, step) of each batch dimension, outermost first


_PACK = """
typedef struct { hal_i64 v[48]; } ${name}_block;
HAL_KERNEL($name, $width, (${name}_block g, GLOBAL void *p_x, hal_i64 o_x, GLOBAL void *p_y, hal_i64 o_y$flag_parameter)) {
  const hal_i64 lanes = g.v[1], panels = g.v[2], depth = g.v[3], pieces = g.v[4];
  const hal_i64 l1n = g.v[5], l0n = g.v[6], k2n = g.v[7], k1n = g.v[8], k0n = g.v[9], block = g.v[10];
  const hal_i64 step_l = g.v[11], step_k = g.v[12], step_h = g.v[13], step_w = g.v[14];
  const hal_i64 size_h = g.v[21], size_w = g.v[22], div_h = g.v[23], div_w = g.v[24];
  const hal_i64 task = HAL_GROUP(), piece = task % pieces, panel = task / pieces % panels, batch = task / pieces / panels;
  const hal_i64 from = piece * $piece, to = hal_min_i64(depth, from + $piece);
  GLOBAL const $storage *x = HAL_PTR($storage, p_x, o_x) + g.v[25];
  GLOBAL $type *y = HAL_PTR($type, p_y, o_y) + (batch * panels + panel) * depth * $width;
  const hal_i64 row = block * k1n * k0n;
  hal_i64 k = from, rest = batch;
  hal_i32 d;
  HAL_LANE_VAR(hal_i64, base, $width); HAL_LANE_VAR(hal_i64, at, $width);
  HAL_LANE_VAR(hal_i64, h0, $width); HAL_LANE_VAR(hal_i64, w0, $width);
  $fill
  for (d = $rank - 1; d >= 0; --d) {
    const hal_i64 q = hal_div(rest, g.v[26 + d]);
    x += (rest - q * g.v[26 + d]) * g.v[26 + $rank + d];
    rest = q;
  }
  HAL_FOR_LANES(lane, $width) {
    const hal_i64 l = panel * $width + lane, l2 = hal_div(l, l1n * l0n), r = l - l2 * (l1n * l0n), l1 = hal_div(r, l0n), l0 = r - l1 * l0n;
    HAL_V(base) = l2 * step_l;
    HAL_V(h0) = l1 * g.v[15] + g.v[19];
    HAL_V(w0) = l0 * g.v[16] + g.v[20];
  }
  if (block == 1) {
    while (k < to) { /* a run of k0 at one (k2, k1) */
      const hal_i64 k2 = hal_div(k, row), in = k - k2 * row, k1 = hal_div(in, k0n), k0 = in - k1 * k0n;
      const hal_i64 run = hal_min_i64(k0n - k0, to - k);
      hal_i64 j;
      HAL_FOR_LANES(lane, $width) {
        const hal_i64 h = HAL_V(h0) + k1 * g.v[17];
        const hal_i32 in_range = panel * $width + lane < lanes && h >= 0 && h < size_h;
        HAL_V(at) = in_range ? HAL_V(base) + k2 * step_k + h * step_h : -(hal_i64)1 - ((hal_i64)1 << 62);
      }
      for (j = 0; j < run; ++j)
        HAL_FOR_LANES(lane, $width) {
          const hal_i64 w = HAL_V(w0) + (k0 + j) * g.v[18];
          if (w < 0 || w >= size_w || HAL_V(at) < -((hal_i64)1 << 62)) y[(k + j) * $width + lane] = $missing;
          else y[(k + j) * $width + lane] = $value_w;
        }
      k += run;
    }
    return;
  }
  while (k < to) { /* a run of k2 within one block, at one (k1, k0) */
    const hal_i64 b = hal_div(k, row), wide = hal_min_i64(block, k2n - b * block), in = k - b * row;
    const hal_i64 tap = hal_div(in, wide), c = in - tap * wide, k1 = hal_div(tap, k0n), k0 = tap - k1 * k0n;
    const hal_i64 run = hal_min_i64(wide - c, to - k), first = (b * block + c) * step_k;
    hal_i64 j;
    HAL_FOR_LANES(lane, $width) {
      hal_i64 h = HAL_V(h0) + k1 * g.v[17], w = HAL_V(w0) + k0 * g.v[18];
      hal_i32 in_range = panel * $width + lane < lanes;
      if (in_range && (div_h != 1 || div_w != 1)) {
        in_range = h >= 0 && w >= 0 && h % div_h == 0 && w % div_w == 0;
        h = h / div_h;
        w = w / div_w;
      }
      in_range = in_range && h >= 0 && h < size_h && w >= 0 && w < size_w;
      HAL_V(at) = in_range ? HAL_V(base) + first + h * step_h + w * step_w : -(hal_i64)1 - ((hal_i64)1 << 62);
    }
    for (j = 0; j < run; ++j)
      HAL_FOR_LANES(lane, $width) {
        if (HAL_V(at) < -((hal_i64)1 << 62)) y[(k + j) * $width + lane] = $missing;
        else y[(k + j) * $width + lane] = $value;
      }
    k += run;
  }
}
"""

#: What a tap that is left out is packed as where some weight isn't finite: a NaN that no other value is packed as.
MARK = {"f32": "hal_f32_from_bits(0x7fc0dead)", "f64": "hal_f64_from_bits(HAL_U64(0x7ff8dead, 0x12345678))"}


def arithmetic_type(dtype: str) -> str:
    """C type in which products are summed: unsigned for integers, which wrap."""
    c = compute(dtype)
    return STORAGE[c] if c in ("f32", "f64") else "hal_u64" if c == "i64" else "hal_u32"


def widths(b: Builder, dtype: str) -> tuple[int, int]:
    """Rows and columns of a tile."""
    if b.target.threads:
        return 64, 64
    return (6, 8) if arithmetic_type(dtype) in ("hal_f64", "hal_u64") else (6, 16)


def batch_count(side: Side) -> int:
    return prod(n for n, _ in side.batch)


def pack(b: Builder, side: Side, width: int, flag: Tensor | None = None) -> Tensor:
    """Packs an operand; (batch, panels, K, width) in the workspace. ``flag``: in it, 0 means that taps left out are packed as marks."""
    x, dtype = side.tensor, side.tensor.dtype
    kind, c = arithmetic_type(dtype), compute(dtype)
    lanes, depth = prod(side.lanes), prod(side.k)
    panels, pieces = ceil_div(lanes, width), ceil_div(depth, PIECE)
    value = f"({kind}){load(dtype, 'x[HAL_V(at) + j * step_k]')}"
    fill, missing = "", f"({kind})0"
    if flag is not None:
        nan = f"hal_nan_{c}()"
        fill = f"const {kind} missing = *HAL_PTR(hal_u8, p_flag, o_flag) ? 0 : {MARK[c]};"
        missing, value = "missing", f"hal_or_nan_{c}({value}, {nan})"
        b.source(guarded(f"or_nan_{c}", f"HAL_FN hal_{c} hal_or_nan_{c}(hal_{c} x, hal_{c} nan) {{ return x != x ? nan : x; }}"))
    fields = {
        "width": width,
        "storage": STORAGE[dtype],
        "type": kind,
        "value": value,
        "value_w": value.replace("j * step_k", "w * step_w"),
        "missing": missing,
        "fill": fill,
        "flag_parameter": "" if flag is None else ", GLOBAL void *p_flag, hal_i64 o_flag",
        "rank": BATCH_RANK,
        "piece": PIECE,
    }
    name = f"hal_pack_{dtype}_{width}_{short_hash(render(_PACK, name='', **fields))}"
    b.source(guarded(name, render(_PACK, name=name, **fields)))
    batch = batch_count(side)
    out = b.scratch({"hal_f32": "f32", "hal_f64": "f64", "hal_u32": "i32", "hal_u64": "i64"}[kind], (batch, panels, depth, width))
    tasks = batch * panels * pieces
    pad = [1] * (BATCH_RANK - len(side.batch))
    values = [
        tasks,
        lanes,
        panels,
        depth,
        pieces,
        side.lanes[1],
        side.lanes[2],
        *side.k,
        side.block,
        side.step_l,
        side.step_k,
        *side.step_hw,
    ]
    values += [*side.lane_hw, *side.k_hw, *side.start_hw, *side.size_hw, *side.divide, x.offset]
    values += [*pad, *(n for n, _ in side.batch), *[0] * len(pad), *(s for _, s in side.batch)]
    arguments: list[Argument] = [Block((*values, *[0] * (48 - len(values)))), x.argument, out.argument]
    b.step(name, tasks, width, arguments if flag is None else [*arguments, flag.argument])
    return out
