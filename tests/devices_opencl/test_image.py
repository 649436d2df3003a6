"""The image container: whatever is wrong with a file, it is told here, and no driver sees it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import hal
from devices.opencl_fpga import image
from devices.opencl_fpga.opencl import find_devices, identity


def test_it_comes_back_as_it_went(content: bytes, image_file: Path) -> None:
    found = image.read(image_file, identity(find_devices()[0]))
    assert found.length == len(content) == image_file.stat().st_size
    assert len(found.keys()) == 5
    assert found.failed == {}
    kernels = {name: types for program in found.programs for m in program.kernels.values() for name, types in m.items()}
    assert any("pointer" in types for types in kernels.values())


def test_truncated_at_every_97th_byte(content: bytes) -> None:
    for length in range(0, len(content), 97):
        with pytest.raises(image.ImageError, match="truncated"):
            image.unpack(content[:length], "cut")


def test_flipped_bits(content: bytes) -> None:
    rng = random.Random(1)
    for place in [*range(64), *(rng.randrange(len(content)) for _ in range(200))]:
        wrong = bytearray(content)
        wrong[place] ^= 1 << rng.randrange(8)
        with pytest.raises(image.ImageError):
            image.unpack(bytes(wrong), "flipped")


def test_a_byte_more_or_less(content: bytes) -> None:
    for wrong in (content + b"\0", content[:1000] + content[1001:], content[:1000] + b"x" + content[1000:]):
        with pytest.raises(image.ImageError, match=r"too long|truncated"):
            image.unpack(wrong, "other length")


@pytest.mark.parametrize("field", ["platform", "device", "driver"])
def test_of_another_device_or_driver(field: str, image_file: Path) -> None:
    other = replace(identity(find_devices()[0]), **{field: "another one"})
    with pytest.raises(image.ImageError, match=r"it was built for .*, expected .*another one"):
        image.read(image_file, other)


def test_an_error_is_hals_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "nonsense.halfpga"
    path.write_bytes(b"nonsense" * 100)
    with pytest.raises(hal.InvalidArgumentError, match=r"nonsense.halfpga: not an image.*hal fpga build"):
        image.read(path)
    with pytest.raises(FileNotFoundError):
        image.read(tmp_path / "absent")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        image.write(tmp_path / "x", b"data")
    assert list(tmp_path.iterdir()) == []
