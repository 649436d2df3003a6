"""The core of matmul and the convolutions (sections 7 and 8 of docs/numerics.md): operands are packed into panels, then tiles of outputs
run their chains over k in order.

A panel holds ``width`` rows (or columns) of an operand, k by k: element (k, r) at k·width + r, in the compute type, 0 where the tile
reaches beyond the matrix. Chains run across outputs, never inside one, so tiles and panels don't show in the bits.

Without threads one work-item computes tiles of 6×16 that stay in registers; with threads 256 work-items share a tile of 64×64 through
local memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from .build import Builder, Tensor, guarded, render, short_hash
from .interface import Argument, Block
from .types import STORAGE, compute, load, store
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
  HAL_LANE_VAR(hal_i64, base, $width); HAL_LANE_VAR(hal_i64, h0, $width); HAL_LANE_VAR(hal_i64, w0, $width); HAL_LANE_VAR(hal_i64, at, $width);
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
_MARK = {"f32": "hal_f32_from_bits(0x7fc0dead)", "f64": "hal_f64_from_bits(HAL_U64(0x7ff8dead, 0x12345678))"}


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
        fill = f"const {kind} missing = *HAL_PTR(hal_u8, p_flag, o_flag) ? 0 : {_MARK[c]};"
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
    values = [tasks, lanes, panels, depth, pieces, side.lanes[1], side.lanes[2], *side.k, side.block, side.step_l, side.step_k, *side.step_hw]
    values += [*side.lane_hw, *side.k_hw, *side.start_hw, *side.size_hw, *side.divide, x.offset]
    values += [*pad, *(n for n, _ in side.batch), *[0] * len(pad), *(s for _, s in side.batch)]
    arguments: list[Argument] = [Block(tuple([*values, *[0] * (48 - len(values))])), x.argument, out.argument]
    b.step(name, tasks, width, arguments if flag is None else [*arguments, flag.argument])
    return out


_HEADER = """
typedef struct { hal_i64 v[40]; } ${name}_block;
HAL_KERNEL($name, $lanes, (${name}_block g, GLOBAL void *p_a, hal_i64 o_a, GLOBAL void *p_b, hal_i64 o_b, GLOBAL void *p_y, hal_i64 o_y$flag_parameter)) {
  const hal_i64 rows = g.v[1], cols = g.v[2], depth = g.v[3], chunk = g.v[4], row_panels = g.v[5], col_panels = g.v[6], split = g.v[7], splits = g.v[8];
  const hal_i64 n1 = g.v[9], n0 = g.v[10], step_2 = g.v[11], step_1 = g.v[12], step_0 = g.v[13], step_row = g.v[14];
  const hal_i64 task = HAL_GROUP(), part = task % splits, col_panel = task / splits % col_panels, batch = task / splits / col_panels;
  GLOBAL const $type *a_all = HAL_PTR($type, p_a, o_a) + (g.v[16] ? batch : 0) * row_panels * depth * $rows_wide;
  GLOBAL const $type *b_all = HAL_PTR($type, p_b, o_b) + ((g.v[17] ? batch : 0) * col_panels + col_panel) * depth * $cols_wide;
  GLOBAL $storage *y = HAL_PTR($storage, p_y, o_y) + g.v[15];
  hal_i64 rest = batch, panel = part * split;
  const hal_i64 end = hal_min_i64(row_panels, panel + split);
  hal_i32 d;
  $flag
  for (d = $rank - 1; d >= 0; --d) {
    const hal_i64 q = hal_div(rest, g.v[18 + d]);
    y += (rest - q * g.v[18 + d]) * g.v[18 + $rank + d];
    rest = q;
  }
"""

_LOOPS = """
  {
    hal_i64 place[$cols_wide];
    hal_i32 j;
    for (j = 0; j < $cols_wide; ++j) {
      const hal_i64 l = hal_min_i64(cols - 1, col_panel * $cols_wide + j), l2 = hal_div(l, n1 * n0), r = l - l2 * (n1 * n0), l1 = hal_div(r, n0);
      place[j] = l2 * step_2 + l1 * step_1 + (r - l1 * n0) * step_0;
    }
    for (; panel < end; ++panel) {
      GLOBAL const $type *a = a_all + panel * depth * $rows_wide, *b = b_all;
      const hal_i32 m = (hal_i32)hal_min_i64($rows_wide, rows - panel * $rows_wide), n = (hal_i32)hal_min_i64($cols_wide, cols - col_panel * $cols_wide);
      hal_i64 from;
      hal_i32 i;
      $type total[$rows_wide][$cols_wide]$group_declare;
      for (i = 0; i < $rows_wide; ++i) for (j = 0; j < $cols_wide; ++j) { total[i][j] = 0; $group_zero }
      for (from = 0; from < depth; from += chunk) {
        hal_i64 k;
        const hal_i64 length = hal_min_i64(chunk, depth - from);
$accumulators
        $fast for (k = 0; k < length; ++k) {
$multiply
          a += $rows_wide;
          b += $cols_wide;
        }
$slow
$add
$group_add
      }
      for (i = 0; i < m; ++i)
        for (j = 0; j < n; ++j) y[(panel * $rows_wide + i) * step_row + place[j]] = $result;
    }
  }
}
"""

_THREADS = """
  {
    HAL_SHARED($type, sa, 1024);
    HAL_SHARED($type, sb, 1024);
    const hal_i32 t = HAL_LANE(), tr = t / 16, tc = t % 16;
    for (; panel < end; ++panel) {
      GLOBAL const $type *a = a_all + panel * depth * 64, *b = b_all;
      hal_i64 from;
      hal_i32 i, j;
      $type acc[4][4], total[4][4]$group_declare;
      for (i = 0; i < 4; ++i) for (j = 0; j < 4; ++j) { total[i][j] = 0; $group_zero }
      for (from = 0; from < depth; from += chunk) {
        const hal_i64 stop = hal_min_i64(depth, from + chunk);
        hal_i64 k;
        for (i = 0; i < 4; ++i) for (j = 0; j < 4; ++j) acc[i][j] = 0;
        for (k = from; k < stop; k += 16) {
          const hal_i32 deep = (hal_i32)hal_min_i64(16, stop - k);
          hal_i32 e;
          HAL_BARRIER();
          for (e = t; e < deep * 64; e += 256) { sa[e] = a[k * 64 + e]; sb[e] = b[k * 64 + e]; }
          HAL_BARRIER();
          for (e = 0; e < deep; ++e)
            for (i = 0; i < 4; ++i) {
              const $type left = sa[e * 64 + tr + 16 * i];
              for (j = 0; j < 4; ++j) {
                const $type right = sb[e * 64 + tc + 16 * j];
                acc[i][j] = $thread_multiply;
              }
            }
        }
        for (i = 0; i < 4; ++i) for (j = 0; j < 4; ++j) { $thread_add }
$group_add
      }
      for (i = 0; i < 4; ++i)
        for (j = 0; j < 4; ++j) {
          const hal_i64 r = panel * 64 + tr + 16 * i, l = col_panel * 64 + tc + 16 * j;
          if (r < rows && l < cols) {
            const hal_i64 l2 = hal_div(l, n1 * n0), q = l - l2 * (n1 * n0), l1 = hal_div(q, n0);
            y[r * step_row + l2 * step_2 + l1 * step_1 + (q - l1 * n0) * step_0] = $result;
          }
        }
    }
  }
}
"""


@dataclass(frozen=True)
class Columns:
    """Where the tile's columns lie in the output: column (n2, n1, n0) at n2·step_2 + n1·step_1 + n0·step_0."""

    sizes: tuple[int, int, int]
    steps: tuple[int, int, int]


def multiply(
    b: Builder,
    dtype: str,
    a: tuple[Tensor, int],
    bs: tuple[Tensor, int],
    rows: int,
    depth: int,
    columns: Columns,
    out: Tensor,
    step_row: int,
    offset: int,
    batch: Sequence[tuple[int, int]],
    chunk: int,
    grouped: bool = False,
    flag: Tensor | None = None,
) -> None:
    """Tiles of the output from packed panels ``a`` and ``bs`` (each with its number of batches: 1 serves all).

    ``grouped``: chunk sums are added within groups of 16 chunks first. ``flag``: 0 in it means that marked taps are left out.
    """
    rows_wide, cols_wide = widths(b, dtype)
    kind, c = arithmetic_type(dtype), compute(dtype)
    real = c in ("f32", "f64")
    fma = f"HAL_FMA_{c.upper()}" if real else ""
    mac = (lambda p, q, s: f"{fma}({p}, {q}, {s})") if real else (lambda p, q, s: f"{s} + {p} * {q}")
    zero = f"(hal_{c})0" if real else "0"
    finish = lambda s: f"({s} + {zero})" if real else s  # noqa: E731
    into = "group" if grouped else "total"
    limits = "4" if b.target.threads else None
    r_end, c_end = limits or str(rows_wide), limits or str(cols_wide)
    group_add = (
        f"        if ((from / chunk & 15) == 15 || from + chunk >= depth) for (i = 0; i < {r_end}; ++i) for (j = 0; j < {c_end}; ++j)"
        " { total[i][j] += group[i][j]; group[i][j] = 0; }"
    )
    each = [f"for (j = 0; j < {cols_wide}; ++j) acc{i}[j] = {mac(f'a[{i}]', 'b[j]', f'acc{i}[j]')};" for i in range(rows_wide)]
    marked = ""
    test = f"hal_{c}_to_bits(%s) == hal_{c}_to_bits({_MARK[c]})" if real else ""
    if flag is not None:
        skip = [f"for (j = 0; j < {cols_wide}; ++j) if (!({test % 'b[j]'})) acc{i}[j] = {mac(f'a[{i}]', 'b[j]', f'acc{i}[j]')};" for i in range(rows_wide)]
        marked = "        else for (k = 0; k < length; ++k) {\n" + "\n".join(skip) + f"\n          a += {rows_wide}; b += {cols_wide};\n        }}"
    thread_mac = mac("left", "right", "acc[i][j]")
    total = "total[i][j]"
    plain = STORAGE[dtype] if not real else ""
    fields = {
        "lanes": 256,
        "type": kind,
        "storage": STORAGE[dtype],
        "rows_wide": rows_wide,
        "cols_wide": cols_wide,
        "rank": BATCH_RANK,
        "flag_parameter": "" if flag is None else ", GLOBAL void *p_flag, hal_i64 o_flag",
        "flag": "" if flag is None else "const hal_i32 marks = *HAL_PTR(hal_u8, p_flag, o_flag) == 0;",
        "fast": "" if flag is None else "if (!marks)",
        "slow": marked,
        "group_declare": (f", group[{r_end}][{c_end}]") if grouped else "",
        "group_zero": "group[i][j] = 0;" if grouped else "",
        "group_add": group_add if grouped else "",
        "accumulators": "\n".join(f"        {kind} acc{i}[{cols_wide}]; for (j = 0; j < {cols_wide}; ++j) acc{i}[j] = 0;" for i in range(rows_wide)),
        "multiply": "\n".join(f"          {line}" for line in each),
        "add": "\n".join(f"        for (j = 0; j < {cols_wide}; ++j) {into}[{i}][j] += {finish(f'acc{i}[j]')};" for i in range(rows_wide)),
        "thread_multiply": thread_mac if flag is None else f"marks && {test % 'right'} ? acc[i][j] : {thread_mac}",
        "thread_add": f"{into}[i][j] += {finish('acc[i][j]')};",
        "result": store(dtype, total) if real else f"({plain}){total}",
    }
    body = _HEADER + (_THREADS if b.target.threads else _LOOPS)
    name = f"hal_tiles_{dtype}_{short_hash(render(body, name='', **fields))}"
    b.source(guarded(name, render(body, name=name, **fields)))
    cols, batches = prod(columns.sizes), prod(n for n, _ in batch)
    if rows == 0 or cols == 0 or batches == 0:
        return
    row_panels, col_panels = ceil_div(rows, rows_wide), ceil_div(cols, cols_wide)
    if b.target.threads:
        splits = row_panels
    else:
        splits = min(row_panels, max(1, ceil_div(2 * (b.target.concurrency or 1), col_panels * batches), ceil_div(row_panels, 32)))
    split = ceil_div(row_panels, splits)
    splits = ceil_div(row_panels, split)
    tasks = batches * col_panels * splits
    pad = [1] * (BATCH_RANK - len(batch))
    values = [tasks, rows, cols, depth, chunk, row_panels, col_panels, split, splits, columns.sizes[1], columns.sizes[2], *columns.steps, step_row, offset]
    values += [int(a[1] > 1), int(bs[1] > 1), *pad, *(n for n, _ in batch), *[0] * len(pad), *(s for _, s in batch)]
    arguments: list[Argument] = [Block(tuple([*values, *[0] * (40 - len(values))])), a[0].argument, bs[0].argument, out.argument]
    b.step(name, tasks, 256, arguments if flag is None else [*arguments, flag.argument])
