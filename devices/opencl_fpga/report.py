"""An ESTIMATE of what a kernel would take of an FPGA: initiation interval, LUT, FF, DSP, BRAM and what limits it.

Nothing is synthesised. The kernel's source is read, its operations are counted through the functions that it calls, each is weighed with
what vendors' floating-point cores take (rounded), and the logic around them is scaled so that the one published engine that we know comes
out right: an 8-bit convolution engine with 5 processing elements on a U50, 238k LUT, 420k FF, 147.5 BRAM, 2,598 DSP at 275 MHz. A real
tool may well be off by a factor of two from this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

#: The published engine, per DSP and per processing element.
_LUT_PER_DSP, _FF_PER_DSP, _BRAM_PER_ELEMENT = 238_000 / 2_598, 420_000 / 2_598, 147.5 / 5
CLOCK_MHZ = 275.0


@dataclass(frozen=True)
class BoardProfile:
    """What a board has."""

    name: str
    lut: int
    ff: int
    dsp: int
    bram: int  #: blocks of 36 Kbit
    memory_ports: int  #: global accesses per cycle
    bandwidth: float  #: bytes per second


BOARDS = {
    "u50": BoardProfile("Alveo U50", 872_000, 1_743_000, 5_952, 1_344, 32, 316e9),
    "u280": BoardProfile("Alveo U280", 1_304_000, 2_607_000, 9_024, 2_016, 32, 460e9),
    "u250": BoardProfile("Alveo U250", 1_728_000, 3_456_000, 12_288, 2_688, 4, 77e9),
}

#: (DSP, LUT besides, cycles) of an operation at this width, rounded from vendors' tables of floating-point cores.
_COST: dict[str, tuple[int, int, int]] = {
    "f32 fma": (4, 300, 12), "f32 *": (3, 80, 5), "f32 +": (2, 220, 7), "f32 /": (0, 800, 24), "f32 sqrt": (0, 500, 24),
    "f64 fma": (13, 900, 20), "f64 *": (11, 300, 8), "f64 +": (3, 800, 10), "f64 /": (0, 3200, 48), "f64 sqrt": (0, 1900, 48),
    "f32 <": (0, 70, 1), "f64 <": (0, 130, 1),
    "int *": (4, 60, 3), "int +": (0, 48, 1), "int /": (0, 1300, 36), "int <": (0, 32, 1), "int &": (0, 24, 1),
}  # fmt: skip

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|<<|>>|[<>=!]=|&&|\|\||[-+*/%&|^<>?]|\S")
_FUNCTION = re.compile(r"HAL_FN\s+(\w+)\s+(hal_\w+)\s*\(([^)]*)\)\s*\{")
_KERNEL = re.compile(r"HAL_KERNEL\((\w+),\s*(\w+),\s*\(")
_DECLARED = re.compile(r"\b(?:hal_f(32|64)|(float|double))\s*\*?\s*(\w+(?:\s*,\s*\w+\b(?!\s*\())*)")


def _body(text: str, opening: int) -> str:
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[opening : at + 1]
    return text[opening:]


@lru_cache(maxsize=4)
def _functions(text: str) -> dict[str, str]:
    """Name -> parameters and body."""
    return {m[2]: m[3] + " " + _body(text, m.end() - 1) for m in _FUNCTION.finditer(text)}


class OperationCounter:
    """Counts operations through calls; each function once per call, since a pipeline holds all of them."""

    def __init__(self, prelude: str, source: str) -> None:
        self._functions = {**_functions(prelude), **_functions(source)}
        self._known: dict[str, Counter[str]] = {}

    def count(self, text: str) -> Counter[str]:
        kinds: dict[str, str] = {}
        for bits, word, names in _DECLARED.findall(text):
            for name in re.split(r"\s*,\s*", names):
                kinds[name] = "f64" if bits == "64" or word == "double" else "f32"
        tokens = _TOKEN.findall(re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S))
        found: Counter[str] = Counter()
        for i, token in enumerate(tokens):
            following = tokens[i + 1] if i + 1 < len(tokens) else ""
            if following == "(" and (token in self._functions or token.startswith(("HAL_FMA", "HAL_SQRT"))):
                found += self._call(token)
            elif token in ("+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "<<", ">>", "?") and i > 0:
                before = tokens[i - 1]
                if not (before[0].isalnum() or before[0] == "_" or before in ")]") or before == "return":
                    continue  # unary, or part of a type
                kind = kinds.get(before) or kinds.get(following) or "int"
                symbol = {"-": "+", "%": "/", ">": "<", "<=": "<", ">=": "<", "==": "<", "!=": "<"}.get(token, token)
                symbol = "&" if symbol in ("|", "^", "<<", ">>", "?") else symbol
                if token == "*" and before.startswith("hal_"):
                    continue  # a pointer
                found[f"{kind} {symbol}" if f"{kind} {symbol}" in _COST else f"int {symbol}"] += 1
            elif token == "HAL_PTR":
                found["memory"] += 1
        return found

    def _call(self, name: str) -> Counter[str]:
        if name.startswith("HAL_"):
            return Counter({f"{'f64' if name.endswith('64') else 'f32'} {'fma' if 'FMA' in name else 'sqrt'}": 1})
        if name not in self._known:
            self._known[name] = Counter()  # no recursion in the dialect
            self._known[name] = self.count(self._functions[name])
        return self._known[name]


@dataclass(frozen=True)
class Estimate:
    """Of one kernel on a board. Every number is an estimate."""

    kernel: str
    interval: int  #: cycles between two elements of its inner loop
    lut: int
    ff: int
    dsp: int
    bram: float
    limit: str


def estimate(prelude: str, source: str, board: BoardProfile) -> Iterable[Estimate]:
    """One per kernel of a source of the portable library."""
    counter = OperationCounter(prelude, source)
    for match in _KERNEL.finditer(source):
        text = source[match.end() :]
        operations = counter.count(_body(source, source.index("{", match.end())))
        streams = max(1, operations.pop("memory", 0) or text[: text.index("{")].count("GLOBAL"))
        dsp = sum(_COST[name][0] * n for name, n in operations.items())
        lut = round(sum(_COST[name][1] * n for name, n in operations.items()) + _LUT_PER_DSP * dsp)
        ff = round(_FF_PER_DSP * dsp + 1.2 * (lut - _LUT_PER_DSP * dsp))
        bram = _BRAM_PER_ELEMENT + 2 * streams  # one processing element, a burst buffer per stream
        interval = -(-streams // board.memory_ports)
        shares = {"LUT": lut / board.lut, "FF": ff / board.ff, "DSP": dsp / board.dsp, "BRAM": bram / board.bram}
        bytes_per_second = 4 * streams * CLOCK_MHZ * 1e6 / interval
        copies = int(1 / max(shares.values()))
        limit = "memory bandwidth" if copies * bytes_per_second > board.bandwidth else max(shares, key=lambda k: shares[k])
        yield Estimate(match[1], interval, lut, ff, dsp, bram, limit if interval == 1 else "memory ports")
