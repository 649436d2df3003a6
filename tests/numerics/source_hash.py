"""The text that a shared function's bits depend on, and its hash: the function, what it calls and the tables it reads, preprocessed."""

from __future__ import annotations

import hashlib
import re
import subprocess
from functools import cache
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "hal" / "include"
_NAME = re.compile(r"\b(hal_\w+|HAL_\w+)\b")


def _definitions(text: str) -> dict[str, str]:
    """Top-level functions and tables by name; each text with its white space made one blank."""
    found, start, depth = {}, 0, 0
    for i, c in enumerate(text):
        if c in "{(":
            depth += 1
        elif c in "})":
            depth -= 1
        if depth or c not in "};":
            continue
        item = " ".join(text[start : i + 1].split())
        table = item.startswith("typedef") or "=" in item.split("{")[0]
        if c == "}" and table:
            continue  # its end is the semicolon
        start = i + 1
        names = _NAME.findall(item if item.startswith("typedef") else re.split(r"[({=\[]", item, maxsplit=1)[0])
        if names:
            found[names[-1]] = item
    return found


@cache
def definitions() -> dict[str, str]:
    """Of all of numerics.h, as a C11 compiler without special instructions sees it."""
    command = ["gcc", "-E", "-P", "-std=c11", "-D__FMA__=1", f"-I{INCLUDE}", "-x", "c", "-"]
    text = subprocess.run(command, input='#include "hal/numerics/numerics.h"\n', capture_output=True, text=True, check=True).stdout
    return _definitions(re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text))


def source(name: str) -> str:
    """All that ``name`` (hal_exp_f32 …) is made of, in an order of its own."""
    known, todo, seen = definitions(), [name], set()
    if name not in known:
        raise KeyError(f"no function {name} in numerics.h")
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += [n for n in _NAME.findall(known[one]) if n in known]
    return "\n".join(known[n] for n in sorted(seen))


def source_hash(name: str) -> str:
    """16 hexadecimal digits."""
    return hashlib.sha256(source(name).encode()).hexdigest()[:16]
