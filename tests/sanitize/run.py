"""Builds everything with sanitizers, in a folder of its own, and runs a part of the suite on it (make sanitize).

``run.py address`` (AddressSanitizer and UBSan) and ``run.py thread`` (ThreadSanitizer). Python itself isn't instrumented, so the sanitizer's
runtime is preloaded. Leak detection is off: the interpreter keeps what it allocates. What else is left out is named in the .supp files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: what to build with, the runtime to preload, and the tests; those that start hundreds of processes or build plugins without the
#: sanitizer are left to the ordinary suite
KINDS: dict[str, tuple[str, str, list[str]]] = {
    "address": (
        "address,undefined",
        "libasan.so",
        [
            "tests/mini",
            "tests/reports/test_use.py",
            "tests/reports/test_views.py",
            "tests/robust/test_allocation_failures.py",
            "tests/runtime/test_allocator.py",
            "tests/runtime/test_streams.py",
            "tests/runtime/test_dispatch.py",
            "tests/ops/test_errors.py",
            "tests/ops/test_bits.py",
        ],
    ),
    "thread": (
        "thread",
        "libtsan.so",
        [
            "tests/runtime/test_streams.py",
            "tests/runtime/test_allocator.py",
            "tests/mini/test_broken_once.py",
            "tests/mini/test_nn.py",
            "tests/reports/test_use.py",
            "tests/ops/test_invariance.py",
        ],
    ),
}


def runtime(name: str) -> str:
    path = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        sys.exit(f"sanitize: the compiler has no {name}; install its sanitizer runtimes")
    return os.path.realpath(path)


def environment(kind: str, site: Path) -> dict[str, str]:
    options = {
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:abort_on_error=0:alloc_dealloc_mismatch=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "TSAN_OPTIONS": f"halt_on_error=0:exitcode=66:second_deadlock_stack=1:report_signal_unsafe=0:die_after_fork=0:suppressions={HERE / 'thread.supp'}",
    }
    # the C++ runtime too: AddressSanitizer looks its __cxa_throw up when it starts, before any extension has been loaded
    preload = f"{runtime(KINDS[kind][1])} {runtime('libstdc++.so.6')}"
    # the installed halves of the packages first, the sources (for conformance's and tests' Python) behind them
    return {
        **os.environ,
        **options,
        "LD_PRELOAD": preload,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{site}",
        "PYTHONMALLOC": "malloc",
        "HAL_TEST_PATIENCE": "20",
    }


def build(kind: str, folder: Path, jobs: int) -> Path:
    site = folder / "site"
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DHAL_SANITIZE={KINDS[kind][0]}", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    subprocess.run([*configure, f"-DPython_EXECUTABLE={sys.executable}"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, f"-j{jobs}"], check=True)
    subprocess.run(["cmake", "--install", folder, "--prefix", site], check=True, stdout=subprocess.DEVNULL)
    return site


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--folder", type=Path, help="to build in (default: build/<kind>)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-build", action="store_true", help="run on what has been built")
    parser.add_argument("arguments", nargs="*", help="for pytest, instead of the kind's own part of the suite")
    options = parser.parse_intermixed_args()
    folder = (options.folder or ROOT / "build" / options.kind).resolve()
    site = folder / "site" if options.no_build else build(options.kind, folder, options.jobs)
    tests = options.arguments or [*KINDS[options.kind][2], "-m", "not slow"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment(options.kind, site), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
