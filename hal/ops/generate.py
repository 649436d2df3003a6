"""Writes the C and C++ files that come from the op table.

Usage: ``python generate.py OUTPUT_DIR`` (the build calls it). Writes

- ``hal/ops.h``: op-set version and attribute structs (C11, installed);
- ``hal/pointwise.h``: every pointwise op as a scalar function per compute type, and lists of them (C11, installed);
- ``op_table.inc``: the runtime's table; ``op_ids.hpp``: an enumerator per op.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script at build time, before the package `hal` can be imported
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from ops.spec import COMPUTE_TYPE, DTYPE_CODES, Op, dtype_class
    from ops.table import OPS, OPSET_VERSION
else:
    from .spec import COMPUTE_TYPE, DTYPE_CODES, Op, dtype_class
    from .table import OPS, OPSET_VERSION

BANNER = "/* Generated from hal/ops by hal/ops/generate.py; do not edit. */\n"

C_TYPE = {"bool": "hal_u8", "u8": "hal_u8", "i8": "hal_i8", "i16": "hal_i16", "i32": "hal_i32", "i64": "hal_i64", "f32": "float", "f64": "double"}
C_FIELD = {"i64": "int64_t", "f64": "double"}


def ops_header(ops: tuple[Op, ...]) -> str:
    lines = [BANNER, "/* Attribute structs of the ops. Fields are only ever appended; 0-fill before use, then struct_size. */",
             "#ifndef HAL_OPS_H\n#define HAL_OPS_H\n\n#include <stdint.h>\n", f"#define HAL_OPSET_VERSION {OPSET_VERSION}\n"]
    first_user: dict[tuple, str] = {}
    for op in ops:
        if not op.attributes:
            continue
        name = f"hal_attributes_{op.name}"
        if op.attributes in first_user:
            lines.append(f"typedef {first_user[op.attributes]} {name};\n")
            continue
        first_user[op.attributes] = name
        fields = [f"  {C_FIELD[a.type]} {a.name}{f'[{a.count}]' if a.count > 1 else ''};" for a in op.attributes]
        lines.append("\n".join([f"typedef struct {name} {{", "  uint32_t struct_size;", "  uint32_t reserved;", *fields, f"}} {name};\n"]))
    lines.append("#endif\n")
    return "\n".join(lines)


def scalar_function(op: Op, compute: str) -> str:
    """The op on one element, all operands in the compute type."""
    unsigned = "hal_u64" if compute == "i64" else "hal_u32"
    expr = op.expr[dtype_class(compute)].replace("$s", compute).replace("$T", C_TYPE[compute]).replace("$U", unsigned)
    params = ", ".join(f"{C_TYPE['bool' if i.dtype == 'bool' else compute]} {i.name}" for i in op.inputs)
    out = "bool" if op.outputs[0].dtype == "bool" else compute
    body = f"(hal_u8)(({expr}) != 0)" if out == "bool" else f"({C_TYPE[out]})({expr})"
    return f"HAL_FN {C_TYPE[out]} hal_op_{op.name}_{compute}({params}) {{ return {body}; }}"


def pointwise_header(ops: tuple[Op, ...]) -> str:
    pointwise = [op for op in ops if op.category == "pointwise"]
    lines = [BANNER, "/* Pointwise ops as scalar functions hal_op_<name>_<compute type>, and lists to instantiate kernels from:",
             " * HAL_POINTWISE_<arity>(X) expands X(name, storage dtype, compute dtype, class of each input..., class of the output),",
             " * where a class is T (the storage dtype) or BOOL. */",
             "#ifndef HAL_POINTWISE_H\n#define HAL_POINTWISE_H\n\n#include <hal/numerics/numerics.h>\n#include <hal/numerics/op_names.h>\n"]
    for op in pointwise:
        computes = dict.fromkeys(COMPUTE_TYPE[d] for d in op.dtypes)
        for compute in computes:
            text = scalar_function(op, compute)
            lines.append(f"#ifndef HAL_NO_F64\n{text}\n#endif" if compute == "f64" else text)
    for arity in (1, 2, 3):
        rows = []
        for op in pointwise:
            if len(op.inputs) != arity:
                continue
            classes = [("BOOL" if o.dtype == "bool" else "T") for o in op.operands]
            rows += [f"  X({op.name}, {d}, {COMPUTE_TYPE[d]}, {', '.join(classes)})" for d in op.dtypes]
        lines.append(f"\n#define HAL_POINTWISE_{arity}(X) \\\n" + " \\\n".join(rows))
    lines.append("\n#endif\n")
    return "\n".join(lines)


def op_table(ops: tuple[Op, ...]) -> str:
    """Rows for ``hal::OpInfo``: see hal/runtime/op_table.hpp for the meaning of each column."""
    lines = [BANNER]
    for op in ops:
        mask = sum(1 << DTYPE_CODES[d] for d in op.dtypes)
        operands = []
        for o in op.operands:
            kind = {"tensor": "Tensor", "scalar": "Scalar", "either": "Either"}[o.kind]
            rule = {"T": "Same", "C": "Compute", "A_or_T": "Accumulated", "any": "Any"}.get(o.dtype)
            fixed = "0" if rule else str(DTYPE_CODES[o.dtype])
            operands.append(f'{{"{o.name}", OperandKind::{kind}, DTypeRule::{rule or "Fixed"}, {fixed}, {str(o.optional).lower()}}}')
        offset, attributes = 8, []
        for a in op.attributes:
            attributes.append(f'{{"{a.name}", {str(a.type == "f64").lower()}, {a.count}, {offset}, {float(a.default)}}}')
            offset += 8 * a.count
        size = offset if attributes else 0
        primary = [o.name for o in op.operands].index(op.primary)
        lines.append(
            f'{{"{op.name}", "{op.category}", "{op.numerics}", {len(op.inputs)}, {len(op.outputs)}, {{{", ".join(operands)}}}, '
            f"0x{mask:x}, ShapeRule::{op.shape}, {primary}, {{{', '.join(attributes)}}}, {size}}},"
        )
    return "\n".join(lines) + "\n"


def op_ids(ops: tuple[Op, ...]) -> str:
    body = "\n".join(f"  {op.name if op.name not in CXX_WORDS else op.name + '_'}," for op in ops)
    return f"{BANNER}#pragma once\n#include <cstdint>\nnamespace hal::op {{\n/// Index into op_table(). Ops that plugins add get ids from `count` on.\nenum Id : uint32_t {{\n{body}\n  count\n}};\n}}\n"


#: Op names that C++ reserves or <cmath> may define as macros.
CXX_WORDS = {"and", "or", "not", "xor"}


def main(output: Path) -> None:
    (output / "hal").mkdir(parents=True, exist_ok=True)
    files = {"hal/ops.h": ops_header(OPS), "hal/pointwise.h": pointwise_header(OPS), "op_table.inc": op_table(OPS), "op_ids.hpp": op_ids(OPS)}
    for name, text in files.items():
        path = output / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # keep mtimes: no needless rebuild
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
