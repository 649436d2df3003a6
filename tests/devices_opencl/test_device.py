"""The device on a real OpenCL driver: bits, streams, events, images and their switches. Each script has a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from fpga_cases import entries

from devices.opencl_fpga import build, image
from devices.opencl_fpga.opencl import find_devices

HEAD = """
import numpy as np, hal, time, threading
hal.set_fallback("error")
device = hal.device("opencl_fpga:0")
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((33, 65)).astype(np.float32) for _ in range(2))
x, y = (hal.array(v, device=device) for v in (a, b))
"""


def run(body: str, images: list[Path] | None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    if images is not None:
        env["HAL_FPGA_IMAGE"] = ":".join(map(str, images))
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + textwrap.dedent(body)], env=env, capture_output=True, text=True, timeout=100
    )


def passes(body: str, images: list[Path] | None, **environment: str) -> str:
    done = run(body, images, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_bits_and_views(image_file: Path) -> None:
    passes(
        """
        assert np.array_equal(hal.run("add", [x, y]).numpy(), a + b)
        assert np.array_equal(hal.run("mul", [x, 3.0]).numpy(), a * np.float32(3))
        t = x.as_strided((65, 33), (1, 65))
        assert np.array_equal(hal.run("copy", [t]).numpy(), a.T)
        part = x.as_strided((10,), (1,), 7)
        assert np.array_equal(hal.run("add", [part, part]).numpy(), a.reshape(-1)[7:17] * 2)
        i = rng.integers(0, 33, (4, 65))
        assert np.array_equal(hal.run("gather", [x, hal.array(i, device=device)], {"axis": 0}).numpy(), np.take_along_axis(a, i, 0))
        """,
        [image_file],
    )


def test_an_index_out_of_range_is_an_error(image_file: Path) -> None:
    passes(
        """
        try:
            hal.run("gather", [x, hal.array(np.array([[99]]), device=device)], {"axis": 0}).numpy()
        except hal.InvalidArgumentError as error:
            assert "got 99" in str(error), error
        else:
            raise SystemExit("no error")
        device.synchronize()
        """,
        [image_file],
    )


def test_copies_of_overlapping_ranges(image_file: Path) -> None:
    passes(
        """
        import hal.plugin.registration as r
        plugin, board = r._opened["opencl_fpga", 0]
        stream = plugin.create_stream(board, 0)
        memory = plugin.alloc(board, 1 << 17, 128)
        data = rng.integers(0, 256, 1 << 17).astype(np.uint8)
        for to, start, size in ((0, 100, 100000), (100, 0, 100000), (5, 5, 1000)):
            plugin.copy_from_host(stream, memory, 0, memoryview(data))
            plugin.copy(stream, memory, to, memory, start, size)
            out = bytearray(1 << 17)
            plugin.copy_to_host(stream, memoryview(out), memory, 0)
            plugin.wait_marker(plugin.record(stream))
            expected = data.copy(); expected[to : to + size] = data[start : start + size]
            assert bytes(expected) == bytes(out)
        """,
        [image_file],
    )


def test_two_streams_with_events(image_file: Path) -> None:
    passes(
        """
        one, two = hal.Stream(device), hal.Stream(device)
        gate = hal.Event(device, host_signalled=True)
        start, end = hal.Event(device, timing=True), hal.Event(device, timing=True)
        device.synchronize()
        z = hal.empty((33, 65), "f32", device)
        one.wait(gate)
        start.record(one)
        hal.run("add", [x, y], outputs=[z], stream=one)
        for _ in range(20):
            hal.run("add", [z, 1.0], outputs=[z], stream=one)
        end.record(one)
        two.wait(end)
        w = hal.run("mul", [z, 2.0], stream=two)
        assert not one.query() and not two.query() and not end.query()
        gate.signal()
        two.synchronize(timeout=30)
        expected = a + b
        for _ in range(20):
            expected = expected + np.float32(1)
        with hal.stream(two):
            assert np.array_equal(w.numpy(), expected * 2)
        assert 0 < start.elapsed(end) < 10
        """,
        [image_file],
    )


def test_threads(image_file: Path) -> None:
    passes(
        """
        errors = []
        def work(i):
            try:
                with hal.stream(hal.Stream(device)), hal.fallback("error"):
                    for k in range(50):
                        v = hal.array(np.full(100 + i, k, np.float32), device=device)
                        assert hal.run("add", [v, float(i)]).numpy()[0] == k + i
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        [t.start() for t in threads]; [t.join(60) for t in threads]
        assert not errors, errors
        """,
        [image_file],
    )


def test_what_is_in_no_image_is_not_compiled_but_counted(image_file: Path) -> None:
    passes(
        """
        try:
            hal.run("exp", [x])
        except hal.UnsupportedError as error:
            assert "in no image" in str(error), error
        else:
            raise SystemExit("compiled?")
        hal.set_fallback("allow")
        assert hal.run("exp", [x]).numpy().shape == (33, 65)
        facts = [d for p in hal.doctor()["plugins"] for d in p["devices"] if d["name"] == "opencl_fpga:0"][0]["facts"]
        assert facts["uses without a kernel in the image"] != "0", facts
        """,
        [image_file],
    )


def test_two_images_and_their_switches(tmp_path: Path) -> None:
    files = []
    for name in ("add", "mul"):
        files.append(tmp_path / f"{name}.halfpga")
        image.write(files[-1], build.compile_entries(0, entries(0, [name])))
    passes(
        """
        from hal.plugin.registration import facts
        def switches():
            return int(facts("opencl_fpga", 0)["image switches"].split(",")[0])
        hal.run("add", [x, y]); assert switches() == 0
        start = time.perf_counter()
        z = hal.run("mul", [x, y]); assert switches() == 1
        assert time.perf_counter() - start > 0.2
        hal.run("mul", [x, y]); assert switches() == 1
        w = hal.run("add", [z, y]); assert switches() == 2
        assert np.array_equal(w.numpy(), a * b + b)
        """,
        files,
        HAL_FPGA_RECONFIGURE_MS="200",
    )


@pytest.mark.parametrize("wrong", ["truncated", "flipped", "absent"])
def test_a_bad_image_is_refused_with_words(wrong: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.halfpga"
    if wrong != "absent":
        path.write_bytes(content[: len(content) // 2] if wrong == "truncated" else content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    done = run("", [path])
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert {"truncated": "truncated", "flipped": "corrupt", "absent": "No such file"}[wrong] in done.stderr


def test_options_are_checked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import hal; hal.device('opencl_fpga:0?colour=red')"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "unknown option 'colour'" in done.stderr


@pytest.mark.skipif(len(find_devices()) < 2, reason="one OpenCL device")
def test_two_devices_in_one_process(tmp_path: Path) -> None:
    files = []
    for index in (0, 1):
        files.append(tmp_path / f"{index}.halfpga")
        image.write(files[-1], build.compile_entries(index, entries(index, ["add"])))
    body = f"""
        other = hal.device("opencl_fpga:1?image={files[1]}")
        v = hal.array(a, device=other)
        assert np.array_equal(hal.run("add", [v, 1.0]).numpy(), hal.run("add", [x, 1.0]).numpy())
        """
    passes(body, [files[0]])


def test_without_pyopencl_the_device_is_unavailable_with_a_reason() -> None:
    script = "import sys; sys.modules['pyopencl'] = None\nimport hal\nprint([d for d in hal.devices() if d.name == 'opencl_fpga'][0].reason)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert "pip install 'pyopencl[pocl]'" in done.stdout, done.stderr
