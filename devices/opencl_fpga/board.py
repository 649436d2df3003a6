"""An open device: its context, the images it may load, the one that is loaded, and what switching costs."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hal
from hal import portable

from . import build, image
from .opencl import find_devices, identity, load


@dataclass
class Statistics:
    """Of one device in this process."""

    switches: int = 0  #: an image replaced another
    switch_seconds: float = 0.0  #: spent on them, the configured time included
    first_load_seconds: float = 0.0
    missing: dict[str, int] = field(default_factory=dict)  #: reason -> uses that ran without a kernel of the image


class Kernel:
    """A kernel of an image. Streams make `cl.Kernel` objects of it, each with arguments of its own."""

    __slots__ = ("board", "image", "name", "program", "types")

    def __init__(self, board: Board, image_number: int, program: int, name: str, types: tuple[str, ...]) -> None:
        self.board, self.image, self.program, self.name, self.types = board, image_number, program, name, types


class Board:
    """One OpenCL device.

    Images come from HAL_FPGA_IMAGE (paths separated by ':'), or from the device option ``image=…``; else the whole library is built into
    the user's cache when the first kernel is wanted. A device holds one image: a kernel of another one makes it wait for its queues,
    switch, and count that. HAL_FPGA_RECONFIGURE_MS: what a switch costs beside loading (default 0; 750 to 8,000 on boards).
    """

    def __init__(self, index: int, options: str = "") -> None:
        self.index = index
        self.device = find_devices()[index]
        self.context = load().Context([self.device])
        self.identity = identity(self.device)
        self.target = build.target(self.device)
        self.statistics = Statistics()
        self.queues: list[Any] = []
        self._lock = threading.RLock()
        self._programs: dict[tuple[int, int], Any] = {}  # (image, program) -> what the driver made of it
        self._images: list[image.Image] | None = None
        self._keys: list[dict[str, int]] = []
        self.current = -1
        self._used: set[str] = set()
        if record := os.environ.get("HAL_FPGA_RECORD"):
            atexit.register(self._write_used, record)
        paths, reconfigure = os.environ.get("HAL_FPGA_IMAGE", ""), os.environ.get("HAL_FPGA_RECONFIGURE_MS", "0")
        for option in filter(None, options.split("&")):
            name, _, value = option.partition("=")
            if name == "image":
                paths = value
            elif name == "reconfigure_ms":
                reconfigure = value
            else:
                raise ValueError(f"unknown option {name!r}: expected image=path[:path…] or reconfigure_ms=number")
        try:
            self.reconfigure_seconds = float(reconfigure) / 1e3
        except ValueError:
            raise ValueError(f"reconfigure_ms: got {reconfigure!r}, expected a number of milliseconds") from None
        if paths:
            self._use([image.read(path, self.identity) for path in paths.split(":")])

    # --- images ---------------------------------------------------------------------------------------------------------------------

    def _use(self, images: list[image.Image]) -> None:
        self._images = images
        self._keys = [i.keys() for i in images]

    def images(self) -> list[image.Image]:
        """The device's images; finds or builds the library's if none was given."""
        with self._lock:
            if self._images is None:
                self._use([library_image(self.index)])
            assert self._images is not None
            return self._images

    @property
    def loaded_images(self) -> list[image.Image]:
        """Without building any."""
        return self._images or []

    def _write_used(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(sorted(self._used), file)

    def find(self, key: str, names: Sequence[str]) -> Mapping[str, Kernel]:
        """The kernels of a source, from the image that is loaded if it has them. Raises `hal.UnsupportedError`: they are in none."""
        images = self.images()
        with self._lock:
            order = sorted(range(len(images)), key=lambda n: (n != self.current, n))
            for number in order:
                program = self._keys[number].get(key)
                if program is not None:
                    self._used.add(key)
                    manifest = images[number].programs[program].kernels[key]
                    return {name: Kernel(self, number, program, name, manifest[name]) for name in names}
            failed = [i.failed[key] for i in images if key in i.failed]
            names_text = ", ".join(names)
            reason = f"{names_text} didn't compile: {failed[0]}" if failed else f"{names_text} is in no image of the device"
            self.statistics.missing[reason] = self.statistics.missing.get(reason, 0) + 1
            raise hal.UnsupportedError(reason + "; nothing is compiled while running: 'hal fpga build'")

    # --- what is loaded -------------------------------------------------------------------------------------------------------------

    def program(self, kernel: Kernel) -> Any:
        """The program object of a kernel, its image loaded."""
        with self._lock:
            if kernel.image != self.current:
                self._switch(kernel.image)
            key = (kernel.image, kernel.program)
            if key not in self._programs:
                binary = self.images()[kernel.image].programs[kernel.program].binary
                self._programs[key] = load().Program(self.context, [self.device], [binary]).build()
            return self._programs[key]

    def _switch(self, number: int) -> None:
        start = time.perf_counter()
        if self.current >= 0:
            for q in self.queues:
                q.finish()  # what the old image computes ends first
            self._programs = {key: program for key, program in self._programs.items() if key[0] == number}
            time.sleep(self.reconfigure_seconds)
        seconds = time.perf_counter() - start
        if self.current >= 0:
            self.statistics.switches += 1
            self.statistics.switch_seconds += seconds
        self.current = number


def library_image(index: int) -> image.Image:
    """The image of the whole library for a device: from the cache, else built now, with a progress bar, and kept there.

    Another process that is building it is waited for. A cache that can't be written costs a warning, and the build once per process.
    """
    path = build.cached_path(index)
    expected = identity(find_devices()[index])
    if path.is_file():
        try:
            return image.read(path, expected)
        except image.ImageError as error:
            _say(f"{error}")
    from filelock import FileLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if path.is_file():  # another process has built it meanwhile
                try:
                    return image.read(path, expected)
                except image.ImageError:
                    pass
            content = build_library(index)
            image.write(path, content)
            return image.unpack(content, path.name, str(path))
    except OSError as error:
        _say(f"the cache {path.parent} can't be written ({error}): the image is built for this process only; HAL_FPGA_CACHE names another")
        return image.unpack(build_library(index), "library (not kept)")


def build_library(index: int, ops: Sequence[str] | None = None, keys: Sequence[str] | None = None) -> bytes:
    """Builds with a progress bar on stderr: the library, or only what these ops, or these keys, need."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    entries = build.entries_of_ops(index, ops)
    if keys is not None:
        entries = [entry for entry in entries if entry[0] in set(keys)]
    console = Console(stderr=True)
    console.print(f"hal: building the kernels of {identity(find_devices()[index])}, once: {len(entries)} sources", markup=False)
    columns = (TextColumn("image"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("image", total=len(entries))
        return build.compile_entries(index, entries, lambda done, total: bar.update(task, completed=done, total=total))


def _say(text: str) -> None:
    print(f"hal: {text}", file=sys.stderr)


__all__ = ["Board", "Kernel", "Statistics", "build_library", "library_image", "portable"]
