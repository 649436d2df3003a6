"""save and load: round trips, other tools' files, and files that lie."""

from __future__ import annotations

import io
import json
import struct
from collections import OrderedDict

import numpy as np
import pytest

import oneflow_mini as flow
from oneflow_mini import nn

ALL = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def raw(t):
    return flow._C.tensor_to_bytes(t.detach())


def container(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), start=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_every_dtype_round_trips_bit_for_bit(tmp_path, rng, name, shape):
    dtype = getattr(flow, name)
    bits = rng.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    bits = bits % 2 if name == "bool" else bits
    t = flow._C.tensor_from_bytes(bits.tobytes(), dtype, shape)
    flow.save({"t": t}, tmp_path / "f")
    back = flow.load(tmp_path / "f")["t"]
    assert back.dtype == dtype and tuple(back.shape) == shape and raw(back) == bits.tobytes()


def test_strided_and_graph_tensors(tmp_path):
    base = flow.arange(12, dtype=flow.float32).reshape(3, 4).requires_grad_()
    flow.save([base.t() * 1, base.detach()[:, 1:3], base.detach().t()], tmp_path / "f")
    a, b, c = flow.load(tmp_path / "f")
    np.testing.assert_array_equal(a.numpy(), np.arange(12.0).reshape(3, 4).T)
    np.testing.assert_array_equal(b.numpy(), np.arange(12.0).reshape(3, 4)[:, 1:3])
    np.testing.assert_array_equal(c.numpy(), np.arange(12.0).reshape(3, 4).T)
    assert not a.requires_grad


def test_containers_come_back(tmp_path):
    shared = flow.ones(2)
    obj = OrderedDict(
        [
            ("z", shared),
            ("a", {"list": [1, 2.5, "text", None, True, float("inf")], 3: (shared, flow.float16), "nested": {"x": [flow.zeros(1)]}}),
            ("tiny", 5e-324),
            ("big", 2**70),
            ("numpy", np.float32(1.5)),
        ]
    )
    flow.save(obj, tmp_path / "f")
    back = flow.load(tmp_path / "f")
    assert isinstance(back, OrderedDict) and list(back) == list(obj)
    assert back["a"]["list"] == [1, 2.5, "text", None, True, float("inf")] and back["a"]["list"][4] is True
    assert back["a"][3][0] is back["z"] and back["a"][3][1] == flow.float16 and isinstance(back["a"][3], tuple)
    assert back["tiny"] == 5e-324 and back["big"] == 2**70 and back["numpy"] == 1.5
    nan = io.BytesIO()
    flow.save({"nan": float("nan")}, nan)
    nan.seek(0)
    assert np.isnan(flow.load(nan)["nan"])


def test_names_that_collide(tmp_path):
    flow.save({"a.b": flow.ones(1), "a": {"b": flow.zeros(1)}, "__metadata__": flow.full((1,), 2.0)}, tmp_path / "f")
    back = flow.load(tmp_path / "f")
    assert float(back["a.b"]) == 1.0 and float(back["a"]["b"]) == 0.0 and float(back["__metadata__"]) == 2.0


def test_model_round_trip(tmp_path):
    make = lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    a, b = make(), make()
    flow.save(a.state_dict(), tmp_path / "model.safetensors")
    state = flow.load(str(tmp_path / "model.safetensors"))
    assert list(state) == list(a.state_dict())
    b.load_state_dict(state)
    x = flow.randn(3, 1, 4, 4)
    assert raw(a.eval()(x)) == raw(b.eval()(x))


def test_other_tools_read_and_write_it(tmp_path, rng):
    import safetensors.numpy

    x = rng.standard_normal((2, 3)).astype("float32")
    flow.save({"w": flow.tensor(x)}, tmp_path / "f")
    np.testing.assert_array_equal(safetensors.numpy.load_file(tmp_path / "f")["w"], x)
    safetensors.numpy.save_file({"w": x, "n": np.arange(3)}, tmp_path / "g")
    back = flow.load(tmp_path / "g")
    np.testing.assert_array_equal(back["w"].numpy(), x)
    assert back["n"].dtype == flow.int64


def test_map_location(tmp_path):
    import hal

    flow.save(flow.ones(2), tmp_path / "f")
    name = hal.host_device().name
    assert flow.load(tmp_path / "f", map_location=name).device.name == name
    with pytest.raises(Exception, match="nowhere"):
        flow.load(tmp_path / "f", map_location="nowhere:0")
    with pytest.raises(TypeError, match="map_location"):
        flow.load(tmp_path / "f", map_location=lambda storage, location: storage)


def test_what_can_t_be_saved(tmp_path):
    target = tmp_path / "f"
    flow.save({"old": 1}, target)
    with pytest.raises(TypeError, match=r"obj\.model: got Linear.*state_dict"):
        flow.save({"model": nn.Linear(1, 1)}, target)
    with pytest.raises(TypeError, match=r"obj\.f: got function"):
        flow.save({"f": raw}, target)
    with pytest.raises(TypeError, match="key"):
        flow.save({(1, 2): 1}, target)
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        flow.save(loop, target)
    assert flow.load(target) == {"old": 1} and [p.name for p in tmp_path.iterdir()] == ["f"]
    with pytest.raises(FileNotFoundError, match="Parent directory"):
        flow.save({}, tmp_path / "no" / "f")
    with pytest.raises(FileNotFoundError):
        flow.load(tmp_path / "absent")


DATA = b"\0" * 8
HOSTILE = {
    "empty": b"",
    "short": b"\1\2\3",
    "header length 0": struct.pack("<Q", 0),
    "header length huge": container(b"{}", length=2**63),
    "header length all ones": b"\xff" * 8,
    "header longer than the file": container(b"{}", length=1000),
    "not JSON": container(b"not json"),
    "not UTF-8": container(b"\xff\xfe{}"),
    "a list": container([1]),
    "deep JSON": container(b'{"a":' * 50000 + b"1" + b"}" * 50000),
    "no offsets": container({"a": {"dtype": "F32", "shape": [2]}}, DATA),
    "offsets beyond the file": container({"a": entry(end=8)}, b"\0" * 4),
    "offsets backwards": container({"a": entry(start=8, end=0)}, DATA),
    "offsets negative": container({"a": entry(start=-8, end=0)}, DATA),
    "offsets huge": container({"a": entry(start=0, end=2**64)}, DATA),
    "offsets overlap": container({"a": entry(), "b": entry()}, DATA),
    "offsets with a hole": container({"a": entry(start=4, end=12)}, b"\0" * 12),
    "data left over": container({"a": entry()}, DATA + b"extra"),
    "shape negative": container({"a": entry(shape=(-2,))}, DATA),
    "shape too large for its data": container({"a": entry(shape=(3,))}, DATA),
    "shape that overflows": container({"a": entry(shape=(2**32, 2**32))}, DATA),
    "shape of text": container({"a": entry(shape=("2",))}, DATA),
    "dtype unknown": container({"a": entry(dtype="F31")}, DATA),
    "dtype not supported here": container({"a": entry(dtype="U64", shape=(1,))}, DATA),
    "dtype of another width": container({"a": entry(dtype="F64", shape=(2,))}, DATA),
    "bool of 2": container({"a": entry(dtype="BOOL", shape=(8,))}, b"\2" * 8),
    "metadata not text": container({"__metadata__": {"oneflow_mini": 3}}),
    "structure not JSON": container({"__metadata__": {"oneflow_mini": "{"}}),
    "structure names a missing tensor": container({"__metadata__": {"oneflow_mini": '{"t": "b"}'}, "a": entry()}, DATA),
    "structure with an unknown tag": container({"__metadata__": {"oneflow_mini": '{"python": "os.system"}'}}),
    "structure with two tags": container({"__metadata__": {"oneflow_mini": '{"l": [], "d": []}'}}),
    "structure with a bad float": container({"__metadata__": {"oneflow_mini": '{"f": "zzz"}'}}),
    "structure with a bad dict": container({"__metadata__": {"oneflow_mini": '{"d": [[[1], 2]]}'}}),
    "structure with a tensor name of another type": container({"__metadata__": {"oneflow_mini": '{"t": ["a"]}'}}),
    "structure with a dtype of another type": container({"__metadata__": {"oneflow_mini": '{"dtype": ["float32"]}'}}),
    "structure nested deep": container({"__metadata__": {"oneflow_mini": '{"l":[' * 5000 + "]}" * 5000}}),
    "structure of plain nesting": container({"__metadata__": {"oneflow_mini": "[" * 100000}}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_raise_value_error_with_the_path(tmp_path, case):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(HOSTILE[case])
    with pytest.raises(ValueError, match=r"hostile\.safetensors"):
        flow.load(path)


def test_every_truncation_of_a_file_is_refused(tmp_path):
    path = tmp_path / "cut.safetensors"
    flow.save({"a": flow.arange(6, dtype=flow.float32), "n": {"b": flow.ones(3)}}, path)
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        with pytest.raises(ValueError, match=r"cut\.safetensors"):
            flow.load(path)


def test_flipped_header_bytes_raise_or_load_but_never_crash(tmp_path, rng):
    path = tmp_path / "flip.safetensors"
    flow.save({"a": flow.arange(6, dtype=flow.float32), "n": [{"b": flow.ones(3)}, 1.5]}, path)
    whole = bytearray(path.read_bytes())
    refused = 0
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[rng.integers(0, len(whole) - 40)] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        try:
            flow.load(path)
        except ValueError as error:
            assert "flip.safetensors" in str(error)
            refused += 1
    assert refused > 250
