"""A device with a kernel for every op: tier 2. It compiles the portable kernels with the system's C++ compiler and calls them.

    python examples/plugins/compiled.py

An accelerator's plugin has the same shape: its own memory, its own compiler in `compile`, its own queue in `launch`.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hal

# The bits depend on these: no contraction to fma, no fast-math, exact division and square root.
FLAGS = ["-std=c++17", "-O1", "-march=native", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-w", "-shared", "-fPIC"]


class Memory:
    """Bytes at an aligned address."""

    __slots__ = ("address", "owner")

    def __init__(self, size: int, alignment: int) -> None:
        self.owner: np.ndarray | None = np.empty(size + alignment, np.uint8)
        start = self.owner.ctypes.data
        self.address = start + -start % alignment


class Compiled(hal.Plugin):
    id = "compiled"
    version = "1.0"
    portable_target = "c++"

    def __init__(self) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = Path(os.environ.get("COMPILED_CACHE") or cache / "hal-compiled-example")

    # --- devices and memory -----------------------------------------------------------------------------------------------------------

    def devices(self) -> list[Any]:
        self.compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
        if not self.compiler:
            raise hal.UnavailableError("no C++ compiler was found: set CXX, or install g++ or clang++")
        return [
            {
                "name": f"kernels by {Path(self.compiler).name}",
                "vendor": "example",
                "total_memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                "memory_alignment": 64,
                "capabilities": ["fma", "subnormals", "rounded_div_sqrt", "f64"],
            }
        ]

    def alloc(self, device: Any, size: int, alignment: int) -> Memory:
        return Memory(size, alignment)

    def free(self, device: Any, memory: Memory) -> None:
        memory.owner = None

    def host_address(self, device: Any, memory: Memory) -> int:
        return memory.address

    def copy_from_host(self, stream: Any, dst: Memory, dst_offset: int, data: memoryview) -> None:
        ctypes.memmove(dst.address + dst_offset, np.frombuffer(data, np.uint8).ctypes.data, len(data))

    def copy_to_host(self, stream: Any, data: memoryview, src: Memory, src_offset: int) -> None:
        ctypes.memmove(np.frombuffer(data, np.uint8).ctypes.data, src.address + src_offset, len(data))

    def copy(self, stream: Any, dst: Memory, dst_offset: int, src: Memory, src_offset: int, size: int) -> None:
        ctypes.memmove(dst.address + dst_offset, src.address + src_offset, size)

    # --- kernels ----------------------------------------------------------------------------------------------------------------------

    def compile(self, device: Any, source: str, kernels: Sequence[str]) -> Mapping[str, Any]:
        """A shared library per source, kept under the hash of all that it depends on."""
        version = subprocess.run([str(self.compiler), "-v"], capture_output=True, text=True, check=True).stderr
        macros = [str(self.compiler), "-march=native", "-dM", "-E", "-x", "c", os.devnull]
        cpu = subprocess.run(macros, capture_output=True, check=True).stdout
        key = hashlib.sha256("\0".join([source, *FLAGS, version]).encode() + cpu).hexdigest()
        library = self.folder / f"{key}.so"
        if not library.exists():
            self._build(source, library)
        module = ctypes.CDLL(str(library))
        functions = {name: getattr(module, name) for name in kernels}
        for function in functions.values():
            function.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
            function.restype = None
        return functions

    def _build(self, source: str, library: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            text, made = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
            text.write_text(source)
            done = subprocess.run([str(self.compiler), *FLAGS, str(text), "-o", str(made)], capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{self.compiler} failed:\n{done.stderr[:2000]}")
            made.replace(library)  # at once, so that another process never sees half a file

    def launch(self, stream: Any, kernel: Any, groups: int, group_size: int, args: tuple[Any, ...]) -> None:
        parts, places = [], []  # the parameters one after another, and where each begins
        at = 0
        for arg in args:
            if type(arg) is tuple:
                memory, offset = arg
                part = struct.pack("=qq", 0 if memory is None else memory.address, offset)
                places += [at, at + 8]
            else:
                part = arg if type(arg) is bytes else arg.to_bytes(8, sys.byteorder, signed=True)
                places.append(at)
            parts.append(part)
            at += len(part)
        values = ctypes.create_string_buffer(b"".join(parts), at)
        base = ctypes.addressof(values)
        addresses = (ctypes.c_void_p * len(places))(*[base + place for place in places])
        kernel(0, groups, addresses)


if __name__ == "__main__":
    hal.register_plugin(Compiled)
    hal.set_fallback("error")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    results = [hal.run("matmul", [hal.array(a, device=d), hal.array(b, device=d)]).numpy() for d in ("compiled:0", hal.host_device())]
    print("the same bits as on the host:", np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32)))
