"""docs/ops.md from the op table: ``python -m hal.ops.document [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from .spec import DTYPE_CODES, Op, Operand
from .table import OPS, OPSET_VERSION

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "ops.md"

HEAD = f"""# The ops, version {OPSET_VERSION} of the set

Written from the op table by `python -m hal.ops.document`; don't edit. What each op computes, bit for bit, stands in [numerics.md](numerics.md). An operand in
*italics* is an immediate, one with a ? may be absent. T is the op's dtype, C(T) its compute type, A(T) its accumulator.
"""


def _operand(o: Operand) -> str:
    kind = {"T": "", "C": ": C(T)", "A": ": A(T)", "A_or_T": ": T or i64", "any": ": any"}.get(o.dtype, f": {o.dtype}")
    text = f"{o.name}{kind}{'?' if o.optional else ''}"
    return f"*{text}*" if o.kind == "scalar" else text


def _dtypes(op: Op) -> str:
    return "all" if len(op.dtypes) == len(DTYPE_CODES) else " ".join(op.dtypes)


def page() -> str:
    """The whole page, grouped by category in the table's order."""
    lines = [HEAD]
    for category in dict.fromkeys(op.category for op in OPS):
        lines += [f"## {category}", "", "| op | inputs | outputs | dtypes | numerics | attributes |", "|---|---|---|---|---|---|"]
        for op in OPS:
            if op.category == category:
                cells = [
                    f"`{op.name}`",
                    ", ".join(map(_operand, op.inputs)),
                    ", ".join(map(_operand, op.outputs)),
                    _dtypes(op),
                    op.numerics,
                    ", ".join(a.name for a in op.attributes),
                ]
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is out of date: python -m hal.ops.document", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
