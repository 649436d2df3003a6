"""Measures the f32 functions of one argument over all 2^32 inputs, and keeps the results in docs/numerics.md by the hash of their source.

``make ulp`` (or ``python tests/numerics/ulp.py``) runs the functions whose hash differs from the recorded one or that have not been measured
over all inputs; ``--all`` runs every function, names run those. Needs g++ with libquadmath and AVX2; a minute or so for each function and
core. A function is recorded as soon as it is done, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import mpmath

sys.path.insert(0, str(Path(__file__).resolve().parent))
from source_hash import source_hash

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "numerics.md"
README = HERE.parents[1] / "hal" / "include" / "hal" / "numerics" / "README.md"
BEGIN, END = "<!-- ulp: written by tests/numerics/ulp.py -->", "<!-- /ulp -->"
ALL_INPUTS = 1 << 32
_LINE = re.compile(r"(\w+)\s+f32\s+max ([\d.]+) ulp at (\S+?)\s+over (\d+) inputs(.*)")


class Result(NamedTuple):
    ulp: float
    at: str  # the input with the largest error
    over: str  # "2^32 (all)", or what else was tried
    hash: str


def build(folder: Path) -> Path:
    out = folder / "ulp_check"
    flags = ["-std=gnu++17", "-O3", "-mavx2", "-mfma", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    subprocess.run(
        ["g++", *flags, f"-I{HERE.parents[1] / 'hal' / 'include'}", str(HERE / "ulp_check.cpp"), "-o", str(out), "-lquadmath"], check=True
    )
    return out


def limits(program: Path) -> dict[str, float]:
    """Each function with its f32 limit, in ulp."""
    lines = subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: float(limit) for name, limit in (line.split() for line in lines)}


def measure(program: Path, name: str, stride: int, progress: Any = None) -> tuple[float, str, int]:
    """Largest error, where, and how many inputs. Raises RuntimeError if a limit is passed or a NaN or a zero's sign is wrong."""
    environment = {**os.environ, "ULP_PROGRESS": "1"} if progress else dict(os.environ)
    with subprocess.Popen(
        [program, "f32", name, str(stride)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as run:
        assert run.stderr is not None and run.stdout is not None
        for line in run.stderr:
            if progress:
                progress(float(line))
        text = run.stdout.read().strip()
    found = _LINE.match(text)
    if run.returncode or not found or found[5].strip():
        raise RuntimeError(f"{name}: {text or f'exit status {run.returncode}'}")
    return float(found[2]), found[3], int(found[4])


# ---- the second judge ----------------------------------------------------------------------------------------------------------------

_EXACT: dict[str, Any] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "expm1": mpmath.expm1, "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10, "log1p": mpmath.log1p, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "sinpi": mpmath.sinpi,
    "cospi": mpmath.cospi, "atan": mpmath.atan, "asin": mpmath.asin, "acos": mpmath.acos, "tanh": mpmath.tanh, "sinh": mpmath.sinh,
    "cosh": mpmath.cosh, "erf": mpmath.erf, "erfc": mpmath.erfc, "erfinv": mpmath.erfinv, "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "silu": lambda x: x / (1 + mpmath.exp(-x)), "gelu": lambda x: x * mpmath.ncdf(x),
    "gelu_tanh": lambda x: x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
}  # fmt: skip


def ulp_by_mpmath(name: str, at: float, got: float) -> float:
    """The error of the result ``got`` at the input ``at``, with 80 digits: libm in double rounds too."""
    with mpmath.workdps(80):
        exact = _EXACT[name](mpmath.mpf(at))
        if exact == 0:
            return 0.0 if got == 0 else float("inf")
        exponent = min(max(int(mpmath.floor(mpmath.log(abs(exact), 2))), -126), 127)
        return float(abs(mpmath.mpf(got) - exact) / mpmath.power(2, exponent - 23))


def function_value(folder: Path, name: str, at: str) -> float:
    """hal_<name>_f32(at), as C hexadecimal would read it."""
    source = folder / f"{name}.c"
    source.write_text(
        f'#include "hal/numerics/numerics.h"\n#include <stdio.h>\nint main(void) {{ printf("%a", (double)hal_{name}_f32((float){at})); }}'
    )
    program = folder / f"{name}_value"
    flags = ["-std=gnu11", "-O1", "-mfma", "-ffp-contract=off", f"-I{HERE.parents[1] / 'hal' / 'include'}"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(program), "-lm"], check=True)
    return float.fromhex(subprocess.run([program], capture_output=True, text=True, check=True).stdout)


# ---- the record ----------------------------------------------------------------------------------------------------------------------


def read() -> dict[str, Result]:
    text = PAGE.read_text(encoding="utf-8")
    block = text[text.index(BEGIN) : text.index(END)]
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| (\S*) \| (.+?) \| `(\w+)` \|$", block, re.MULTILINE)
    return {name: Result(float(ulp), at, over, digest) for name, ulp, at, over, digest in rows}


def write(results: dict[str, Result]) -> None:
    """Into docs/numerics.md, and the two f32 columns of the headers' README."""
    lines = ["| function | max ulp | at | over | source |", "|---|---|---|---|---|"]
    lines += [f"| `{name}` | {r.ulp:.4g} | {r.at} | {r.over} | `{r.hash}` |" for name, r in results.items()]
    text = PAGE.read_text(encoding="utf-8")
    head, tail = text[: text.index(BEGIN)], text[text.index(END) :]
    PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{tail}", encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    for name, r in results.items():
        shown = f"{-(-r.ulp * 100 // 1) / 100:.2f}"  # rounded up
        readme = re.sub(rf"^(\| `{name}` \| `\w+\.h` \| \w+ \|) [^|]+ \| (?:[^|]|\\\|)+ \|", lambda m, s=shown, o=r.over: f"{m[1]} {s} | {o} |", readme, flags=re.MULTILINE)  # fmt: skip
    README.write_text(readme, encoding="utf-8")


def due(results: dict[str, Result], names: list[str]) -> list[str]:
    return [n for n in names if n not in results or results[n].hash != source_hash(f"hal_{n}_f32") or results[n].over != "2^32 (all)"]


def main() -> int:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="functions to measure (default: those that are due)")
    parser.add_argument("--all", action="store_true", help="measure every function")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stride", type=int, default=1, help="only every stride-th input, nothing is recorded (to try the tool)")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        program = build(folder)
        known = limits(program)
        if unknown := [n for n in options.names if n not in known]:
            parser.error(f"no such function: {', '.join(unknown)}; expected some of {', '.join(known)}")
        results = read()
        names = options.names or (list(known) if options.all else due(results, list(known)))
        if not names:
            print(f"all {len(known)} functions are measured over all inputs, with the sources as they are")
            return 0
        columns = (
            TextColumn("{task.description:>10}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns) as bars, ThreadPoolExecutor(options.jobs) as pool:
            whole = bars.add_task("all", total=len(names))

            def run(name: str) -> tuple[float, str, int]:
                bar = bars.add_task(name, total=1.0)
                try:
                    return measure(program, name, options.stride, lambda done: bars.update(bar, completed=done))
                finally:
                    bars.remove_task(bar)

            tasks = {pool.submit(run, name): name for name in names}
            for task in as_completed(tasks):
                name = tasks[task]
                bars.advance(whole)
                try:
                    ulp, at, inputs = task.result()
                    exact = ulp_by_mpmath(name, float(at), function_value(folder, name, at))
                except Exception as error:
                    failed += 1
                    bars.console.print(f"{name}: {error}")
                    continue
                ok = exact <= known[name]
                failed += not ok
                bars.console.print(
                    f"{name:10} {exact:.4f} ulp at {at} (libm's judgement: {ulp:.4f}), {inputs} inputs{'' if ok else ': LIMIT PASSED'}"
                )
                if options.stride == 1 and ok:
                    results[name] = Result(
                        exact, at, "2^32 (all)" if inputs == ALL_INPUTS else f"{inputs} inputs", source_hash(f"hal_{name}_f32")
                    )
                    write({n: results[n] for n in known if n in results})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
