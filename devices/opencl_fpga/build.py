"""Making images: sources in batches to compiling children, binaries into a container, the container into the cache."""

from __future__ import annotations

import hashlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import hal
from hal import portable

from . import compiler, image
from .opencl import find_devices, identity

#: (key, source, {kernel: argument types})
Entry = tuple[str, str, dict[str, tuple[str, ...]]]
Progress = Callable[[int, int], None]  #: sources done, in all

BATCH = 4  # sources in a program: they share the time that the prelude takes to parse


def target(device: Any) -> portable.Target:
    """For the generator. A group is one work-item: FPGAs and CPUs run its lanes as a loop."""
    return portable.Target("opencl", threads=False, f64=bool(device.double_fp_config), concurrency=4 * max(1, device.max_compute_units))


def sources_hash() -> str:
    """Of everything that the generated kernels are made from."""
    digest = hashlib.sha256(hal.__version__.encode())
    folders = [Path(folder) for folder in portable.__path__]
    for base in hal.__path__:
        folders += [Path(base) / "include" / "hal" / "numerics", Path(base) / "ops"]
    for folder in folders:
        for path in sorted([*folder.glob("*.py"), *folder.glob("*.h")]):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:32]


class _Child:
    """One compiling process; started again if the driver takes it down."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._process: subprocess.Popen[bytes] | None = None

    def compile(self, prelude: str, sources: Sequence[str]) -> tuple[str, Any]:
        if self._process is None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            command = [sys.executable, "-m", "devices.opencl_fpga.compiler", str(self._index)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            compiler.send(self._process.stdin, (prelude, list(sources)))
            return compiler.receive(self._process.stdout)
        except (EOFError, OSError):
            code = self._process.wait()
            self._process = None
            return ("error", f"the driver ended the compiling process with code {code}")

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


def compile_entries(index: int, entries: Iterable[Entry], progress: Progress | None = None, jobs: int | None = None) -> bytes:
    """The content of an image for OpenCL device number ``index``. Sources that don't compile are listed in it, with the reason."""
    device = find_devices()[index]
    prelude = portable.prelude(target(device))
    unique = list({key: (key, source, kernels) for key, source, kernels in entries}.values())
    work: queue.SimpleQueue[list[Entry]] = queue.SimpleQueue()
    for start in range(0, len(unique), BATCH):
        work.put(unique[start : start + BATCH])
    programs: list[tuple[bytes, dict[str, Any]]] = []
    failed: dict[str, str] = {}
    lock, errors = threading.Lock(), list[BaseException]()
    done = 0

    def finish(batch: list[Entry], binary: bytes) -> None:
        nonlocal done
        with lock:
            programs.append((binary, {key: kernels for key, _, kernels in batch}))
            done += len(batch)
            if progress:
                progress(done, len(unique))

    def loop() -> None:
        nonlocal done
        child = _Child(index)
        try:
            while not errors:
                try:
                    batch = work.get_nowait()
                except queue.Empty:
                    return
                kind, result = child.compile(prelude, [source for _, source, _ in batch])
                if kind == "binary":
                    finish(batch, result)
                elif len(batch) > 1:  # find out which
                    for entry in batch:
                        work.put([entry])
                else:
                    with lock:
                        failed[batch[0][0]] = result
                        done += 1
        except BaseException as error:
            errors.append(error)
        finally:
            child.close()

    threads = [threading.Thread(target=loop) for _ in range(jobs or max(1, len(os.sched_getaffinity(0))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    programs.sort(key=lambda p: min(p[1]))  # the order of completion is chance
    return image.pack(identity(device), sources_hash(), programs, failed)


def entries_of_ops(index: int, ops: Sequence[str] | None) -> list[Entry]:
    """The library's sources for these ops, or all of them. Raises ValueError for an unknown op."""
    from hal.ops.table import BY_NAME
    from hal.portable import catalogue

    goal = target(find_devices()[index])
    if not ops:
        return list(portable.library(goal))
    if unknown := [op for op in ops if op not in BY_NAME]:
        import difflib

        near = difflib.get_close_matches(unknown[0], list(BY_NAME), 3)
        raise ValueError(f"[fpga build] unknown op {unknown[0]!r}" + (f": nearest {', '.join(near)}" if near else ""))
    found: dict[str, Entry] = {}
    for op in map(BY_NAME.__getitem__, ops):
        for dtype in op.dtypes:
            for operands, attributes in catalogue.representatives(op, dtype):
                if goal.f64 or not any(o is not None and o.dtype == "f64" for o in operands):
                    plan = portable.plan(op.name, operands, attributes, goal)
                    found[plan.key] = (plan.key, plan.source, catalogue.signatures(plan.source))
    return list(found.values())


def cache_folder() -> Path:
    """Where images are kept: HAL_FPGA_CACHE, else the user's cache directory."""
    if chosen := os.environ.get("HAL_FPGA_CACHE"):
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("hal")) / "opencl_fpga"


def cached_path(index: int) -> Path:
    """The file of the whole library for a device, its driver and these sources."""
    name = hashlib.sha256(f"{identity(find_devices()[index])}\0{sources_hash()}".encode()).hexdigest()[:24]
    return cache_folder() / f"library-{name}.halfpga"
