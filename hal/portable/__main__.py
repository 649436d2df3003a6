"""``python -m hal.portable --target opencl --out DIR``: the whole library as files, for plugins without Python.

Writes ``prelude.h``, one source per key under ``kernels/`` (to be compiled after the prelude), and ``manifest.json``:

- ``target``: language, threads, f64; ``prelude_sha256``;
- ``kernels``: kernel -> {"source": key, "lanes": work-items per group, "arguments": C types in order};
- ``ops``: op -> dtype -> keys.

The launches of an op on given shapes are computed by `plan` alone; a plugin without Python replays plans recorded beforehand.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from ..ops.table import OPS
from .catalogue import representatives
from .dialect import prelude
from .dispatch import plan
from .interface import LANGUAGES, Target
from .signatures import lanes, signatures


def write(target: Target, out: Path) -> dict[str, Any]:
    """Writes the files; returns the manifest."""
    (out / "kernels").mkdir(parents=True, exist_ok=True)
    head = prelude(target)
    (out / "prelude.h").write_text(head, encoding="utf-8")
    ops: dict[str, dict[str, list[str]]] = {}
    kernels: dict[str, dict[str, Any]] = {}
    written: set[str] = set()
    for op in OPS:
        for dtype in op.dtypes:
            for operands, attributes in representatives(op, dtype):
                if not target.f64 and any(o is not None and o.dtype == "f64" for o in operands):
                    continue
                found = plan(op.name, operands, attributes, target)
                keys = ops.setdefault(op.name, {}).setdefault(dtype, [])
                if found.key not in keys:
                    keys.append(found.key)
                if found.key in written:
                    continue
                written.add(found.key)
                (out / "kernels" / f"{found.key}.cl").write_text(found.source, encoding="utf-8")
                groups = lanes(found.source)
                for name, types in signatures(found.source).items():
                    kernels.setdefault(name, {"source": found.key, "lanes": groups[name], "arguments": list(types)})
    manifest = {
        "target": {"language": target.language, "threads": target.threads, "f64": target.f64},
        "prelude_sha256": hashlib.sha256(head.encode()).hexdigest(),
        "kernels": kernels,
        "ops": ops,
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hal.portable", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", required=True, choices=LANGUAGES)
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")
    parser.add_argument("--threads", action=argparse.BooleanOptionalAction, help="work-groups of threads with barriers (default: for cuda)")
    parser.add_argument("--no-f64", action="store_true", help="the target has no double precision")
    options = parser.parse_args()
    manifest = write(Target(options.target, options.threads, not options.no_f64), options.out)
    print(f"{len(manifest['kernels'])} kernels for {len(manifest['ops'])} ops in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
