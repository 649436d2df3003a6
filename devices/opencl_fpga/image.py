"""The image file: program binaries in a container that is checked before a driver sees any of it.

A truncated binary kills the process inside some drivers, and one with a byte missing may be accepted. So: 8 bytes of magic, the format's
version (u32), the length of the header (u32) and of the whole file (u64), little endian; the header, JSON; the binaries; the SHA-256 of
everything before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hal

from .opencl import Identity

MAGIC = b"HALFPGA\0"
VERSION = 1
_HEAD = struct.Struct("<8sIIQ")
_DIGEST = 32

#: Kernel name -> C types of its parameters: "pointer", "i64" or "block:N".
Manifest = dict[str, tuple[str, ...]]


class ImageError(hal.InvalidArgumentError):
    """The file isn't an image that this device may load; the text says why."""


@dataclass(frozen=True)
class Program:
    """One program binary of an image."""

    binary: bytes
    kernels: dict[str, Manifest]  #: key of the source -> its kernels


@dataclass(frozen=True)
class Image:
    """A verified image."""

    name: str
    path: str  #: "" if it was never written
    identity: Identity
    sources: str  #: hash of what generated the kernels
    programs: tuple[Program, ...]
    failed: dict[str, str]  #: key -> why it isn't in the image
    length: int

    def keys(self) -> dict[str, int]:
        """Key of a source -> number of the program that has its kernels."""
        return {key: n for n, program in enumerate(self.programs) for key in program.kernels}


def pack(
    identity: Identity, sources: str, programs: list[tuple[bytes, Mapping[str, Mapping[str, Any]]]], failed: Mapping[str, str]
) -> bytes:
    """The file's content. programs: (binary, {key: {kernel: types}})."""
    header = {
        "platform": identity.platform,
        "device": identity.device,
        "driver": identity.driver,
        "hal": hal.__version__,
        "sources": sources,
        "failed": dict(failed),
        "programs": [
            {"length": len(binary), "kernels": {key: {name: list(types) for name, types in m.items()} for key, m in kernels.items()}}
            for binary, kernels in programs
        ],
    }
    text = json.dumps(header, sort_keys=True).encode()
    payload = b"".join(binary for binary, _ in programs)
    total = _HEAD.size + len(text) + len(payload) + _DIGEST
    body = _HEAD.pack(MAGIC, VERSION, len(text), total) + text + payload
    return body + hashlib.sha256(body).digest()


def unpack(content: bytes, name: str, path: str = "") -> Image:
    """Checks everything that can be checked without the device. Raises ImageError."""

    def refuse(text: str) -> ImageError:
        return ImageError(f"[fpga image] {path or name}: {text}; build it again with 'hal fpga build'")

    if len(content) < _HEAD.size + _DIGEST:
        raise refuse(f"truncated: got {len(content)} bytes, expected at least {_HEAD.size + _DIGEST}")
    magic, version, header_length, total = _HEAD.unpack_from(content)
    if magic != MAGIC:
        raise refuse(f"not an image: it begins with {magic!r}, expected {MAGIC!r}")
    if version != VERSION:
        raise refuse(f"format version: got {version}, expected {VERSION}")
    if total != len(content):
        raise refuse(f"{'truncated' if len(content) < total else 'too long'}: got {len(content)} bytes, expected {total}")
    if hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise refuse("corrupt: its SHA-256 doesn't match its content")
    header = json.loads(content[_HEAD.size : _HEAD.size + header_length])
    at = _HEAD.size + header_length
    programs = []
    for entry in header["programs"]:
        kernels = {key: {kernel: tuple(types) for kernel, types in m.items()} for key, m in entry["kernels"].items()}
        programs.append(Program(content[at : at + entry["length"]], kernels))
        at += entry["length"]
    if at != len(content) - _DIGEST:
        raise refuse("its header doesn't describe its content")
    identity = Identity(header["platform"], header["device"], header["driver"])
    return Image(name, path, identity, header["sources"], tuple(programs), header["failed"], len(content))


def read(path: str | os.PathLike[str], expected: Identity | None = None) -> Image:
    """The image in a file, for the device ``expected``. Raises ImageError, OSError."""
    file = Path(path)
    image = unpack(file.read_bytes(), file.name, str(file))
    if expected is not None and image.identity != expected:
        raise ImageError(
            f"[fpga image] {file}: it was built for {image.identity}, expected {expected}; build it again with 'hal fpga build'"
        )
    return image


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes the file at once: another process sees the old one, none, or the whole. Raises OSError."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
