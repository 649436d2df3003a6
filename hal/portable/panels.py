"""The core of matmul and the convolutions (sections 7 and 8 of docs/numerics.md): operands are packed into panels, then tiles of outputs
run their chains over k in order.

A panel holds ``width`` rows (or columns) of an operand, k by k: element (k, r) at k·width + r, in the compute type, 0 where the tile
reaches beyond the matrix. Chains run across outputs, never inside one, so tiles and panels don't show in the bits.

Without threads one work-item computes tiles of 6×16 that stay in registers; with threads 256 work-items share a tile of 64×64 through
local memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from .build import Builder, Tensor, guarded, render, short_hash
from .interface import Argument, Block
from .packing import BATCH_RANK, MARK, arithmetic_type, widths
from .types import STORAGE, compute, store
from .views import ceil_div

_HEADER = """
typedef struct { hal_i64 v[40]; } ${name}_block;
HAL_KERNEL($name, $lanes, (${name}_block g, GLOBAL void *p_a, hal_i64 o_a, GLOBAL void *p_b, hal_i64 o_b, GLOBAL void *p_y, hal_i64 o_y
                           $flag_parameter)) {
  const hal_i64 rows = g.v[1], cols = g.v[2], depth = g.v[3], chunk = g.v[4];
  const hal_i64 row_panels = g.v[5], col_panels = g.v[6], split = g.v[7], splits = g.v[8];
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
      const hal_i64 l = hal_min_i64(cols - 1, col_panel * $cols_wide + j);
      const hal_i64 l2 = hal_div(l, n1 * n0), r = l - l2 * (n1 * n0), l1 = hal_div(r, n0);
      place[j] = l2 * step_2 + l1 * step_1 + (r - l1 * n0) * step_0;
    }
    for (; panel < end; ++panel) {
      GLOBAL const $type *a = a_all + panel * depth * $rows_wide, *b = b_all;
      const hal_i32 m = (hal_i32)hal_min_i64($rows_wide, rows - panel * $rows_wide);
      const hal_i32 n = (hal_i32)hal_min_i64($cols_wide, cols - col_panel * $cols_wide);
      hal_i64 from;
      hal_i32 i;
      $type line[$rows_wide][$cols_wide];
$totals
      for (from = 0; from < depth; from += chunk) {
        hal_i64 k;
        const hal_i64 length = hal_min_i64(chunk, depth - from);
$accumulators
        $fast for (k = 0; k < length; ++k) {
          const $vec right0 = HAL_LOAD_$VEC(b), right1 = HAL_LOAD_$VEC(b + $half);
$multiply
          a += $rows_wide;
          b += $cols_wide;
        }
$slow
$add
$group_add
      }
$lines
      for (i = 0; i < m; ++i)
        for (j = 0; j < n; ++j) y[(panel * $rows_wide + i) * step_row + place[j]] = $result;
    }
  }
}
"""

_THREADS = """
  HAL_SHARED($type, sa, 1024);
  HAL_SHARED($type, sb, 1024);
  {
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


#: After the last chunk of 16, or of all.
_GROUP_ENDS = "if ((from / chunk & 15) == 15 || from + chunk >= depth)"


def _loop_fields(
    kind: str, rows: int, cols: int, into: str, grouped: bool, left_out: str | None, scalar: Callable[[str, str, str], str]
) -> dict[str, object]:
    """The parts of _LOOPS, written out row by row in vectors (two to a row) so that all of a tile's chains stay in registers."""
    half = cols // 2
    element = kind.removeprefix("hal_")
    name = f"{element}x{half}"
    up = name.upper()
    every = [(i, h) for i in range(rows) for h in (0, 1)]

    def each(pad: str, code: str) -> str:
        return "\n".join(pad + code.format(i=i, h=h, at=h * half) for i, h in every)

    zero = f"HAL_FILL_{up}(({kind})0)"
    fields: dict[str, object] = {
        "vec": f"hal_{name}",
        "VEC": up,
        "half": half,
        "totals": each("      ", f"hal_{name} total{{i}}{{h}} = {zero}{f', group{{i}}{{h}} = {zero}' if grouped else ''};"),
        "accumulators": each("        ", f"hal_{name} acc{{i}}{{h}} = {zero};"),
        "multiply": "\n".join(
            f"          {{ const hal_{name} left = HAL_FILL_{up}(a[{i}]); acc{i}0 = HAL_MAC_{up}(left, right0, acc{i}0);"
            f" acc{i}1 = HAL_MAC_{up}(left, right1, acc{i}1); }}"
            for i in range(rows)
        ),
        "add": each("        ", f"{into}{{i}}{{h}} = {into}{{i}}{{h}} + (acc{{i}}{{h}} + {zero});"),
        "group_add": "",
        "lines": each("      ", f"HAL_STORE_{up}(line[{{i}}] + {{at}}, total{{i}}{{h}});"),
        "fast": "",
        "slow": "",
    }
    if grouped:
        fields["group_add"] = (
            f"        {_GROUP_ENDS} {{\n"
            + each("          ", f"total{{i}}{{h}} = total{{i}}{{h}} + group{{i}}{{h}}; group{{i}}{{h}} = {zero};")
            + "\n        }"
        )
    if left_out is not None:
        fields["fast"] = "if (!marks)"
        fields["slow"] = f"""        else {{
          for (i = 0; i < {rows}; ++i) for (j = 0; j < {cols}; ++j) line[i][j] = 0;
          HAL_SCALAR_LOOP for (k = 0; k < length; ++k, a += {rows}, b += {cols})
            HAL_SCALAR_LOOP for (j = 0; j < {cols}; ++j) {{
              if ({left_out % "b[j]"}) continue;
              HAL_SCALAR_LOOP for (i = 0; i < {rows}; ++i) line[i][j] = {scalar("a[i]", "b[j]", "line[i][j]")};
            }}
{each("          ", f"acc{{i}}{{h}} = HAL_LOAD_{up}(line[{{i}}] + {{at}});")}
        }}"""
    return fields


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
    into = "group" if grouped else "total"
    fields: dict[str, object] = {
        "lanes": 256,
        "type": kind,
        "storage": STORAGE[dtype],
        "rows_wide": rows_wide,
        "cols_wide": cols_wide,
        "rank": BATCH_RANK,
        "flag_parameter": "" if flag is None else ", GLOBAL void *p_flag, hal_i64 o_flag",
        "flag": "" if flag is None else "const hal_i32 marks = *HAL_PTR(hal_u8, p_flag, o_flag) == 0;",
    }
    scalar = (lambda p, q, s: f"HAL_FMA_{c.upper()}({p}, {q}, {s})") if real else (lambda p, q, s: f"{s} + {p} * {q}")
    left_out = f"hal_{c}_to_bits(%s) == hal_{c}_to_bits({MARK[c]})" if real else "0 && %s"
    result = "total[i][j]" if b.target.threads else "line[i][j]"
    fields["result"] = store(dtype, result) if real else f"({STORAGE[dtype]}){result}"
    if b.target.threads:
        mac = scalar("left", "right", "acc[i][j]")
        end = "for (i = 0; i < 4; ++i) for (j = 0; j < 4; ++j)"
        fields |= {
            "group_declare": ", group[4][4]" if grouped else "",
            "group_zero": "group[i][j] = 0;" if grouped else "",
            "group_add": f"        {_GROUP_ENDS} {end} {{ total[i][j] += group[i][j]; group[i][j] = 0; }}" if grouped else "",
            "thread_multiply": mac if flag is None else f"marks && {left_out % 'right'} ? acc[i][j] : {mac}",
            "thread_add": f"{into}[i][j] += acc[i][j] + 0;",
        }
    else:
        fields |= _loop_fields(kind, rows_wide, cols_wide, into, grouped, None if flag is None else left_out, scalar)
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
    values = [
        tasks,
        rows,
        cols,
        depth,
        chunk,
        row_panels,
        col_panels,
        split,
        splits,
        columns.sizes[1],
        columns.sizes[2],
        *columns.steps,
        step_row,
        offset,
    ]
    values += [int(a[1] > 1), int(bs[1] > 1), *pad, *(n for n, _ in batch), *[0] * len(pad), *(s for _, s in batch)]
    arguments: list[Argument] = [Block((*values, *[0] * (40 - len(values)))), a[0].argument, bs[0].argument, out.argument]
    b.step(name, tasks, 256, arguments if flag is None else [*arguments, flag.argument])
