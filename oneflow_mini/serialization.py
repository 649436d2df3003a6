"""``save`` and ``load``: safetensors files, never pickle, so that loading a file can't run code.

Tensors are stored under readable names (a state_dict's own keys); the containers around them, numbers and strings stand as JSON in the
file's metadata under ``oneflow_mini``. Other tools read the tensors; files of other tools load as a dict of name → tensor.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from . import _C

Tensor: Any = _C.Tensor
_METADATA_KEY = "oneflow_mini"
_MAX_DEPTH = 64

#: dtype name here -> name in the file
_FILE_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64",
}  # fmt: skip
_DTYPES = {file: name for name, file in _FILE_DTYPES.items()}


# ----- objects as JSON: plain values as they are, everything else as {"tag": …} -----------------------------------------------------------


class _Encoder:
    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self._names: dict[int, str] = {}

    def _tensor(self, t: Any, path: str) -> dict[str, str]:
        if id(t) not in self._names:  # one object in two places is stored once
            name, n = path or "tensor", 1
            while name in self.tensors or name == "__metadata__":
                n += 1
                name = f"{path or 'tensor'}#{n}"
            self.tensors[name] = t
            self._names[id(t)] = name
        return {"t": self._names[id(t)]}

    def encode(self, obj: Any, path: str, depth: int = 0) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError(f"[save] obj: nested deeper than {_MAX_DEPTH} at {path!r} (or it contains itself)")
        if isinstance(obj, Tensor):
            return self._tensor(obj, path)
        if obj is None or isinstance(obj, (bool, str)):
            return obj
        if type(obj) is int:
            return obj
        if type(obj) is float:
            return {"f": obj.hex()}
        if isinstance(obj, _C.dtype):
            return {"dtype": obj.name}
        inner, depth = path + "." if path else "", depth + 1
        if isinstance(obj, Mapping):
            tag = "od" if isinstance(obj, OrderedDict) else "d"
            return {tag: [[self._key(k, path), self.encode(v, inner + str(k), depth)] for k, v in obj.items()]}
        if isinstance(obj, (list, tuple)):
            tag = "l" if isinstance(obj, list) else "tu"
            return {tag: [self.encode(v, inner + str(i), depth) for i, v in enumerate(obj)]}
        if hasattr(obj, "dtype") and hasattr(obj, "item") and getattr(obj, "ndim", None) == 0:  # a numpy scalar
            return self.encode(obj.item(), path, depth)
        hint = "; save its state_dict()" if hasattr(obj, "state_dict") else ""
        raise TypeError(f"[save] obj{'.' if path else ''}{path}: got {type(obj).__name__}, expected tensors, dicts, lists, tuples, "
                        f"numbers, strings, dtypes or None{hint}")  # fmt: skip

    def _key(self, key: Any, path: str) -> Any:
        if isinstance(key, str) and not key.isascii() and any("\ud800" <= c <= "\udfff" for c in key):
            raise ValueError(f"[save] obj.{path}: got the key {key!r}, expected valid Unicode")
        if isinstance(key, (str, bool)) or type(key) is int or key is None:
            return key
        raise TypeError(f"[save] obj.{path}: got a key of type {type(key).__name__}, expected str or int")


class _Decoder:
    """Rebuilds the object; anything unexpected is a ValueError."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        self.tensors = tensors

    def decode(self, node: Any, depth: int = 0) -> Any:
        if depth > 2 * _MAX_DEPTH:
            raise ValueError("metadata nested too deep")
        if node is None or isinstance(node, (bool, int, str)):
            return node
        if not isinstance(node, dict) or len(node) != 1:
            raise ValueError(f"metadata holds {str(node)[:60]!r}, expected one tagged value")
        ((tag, value),) = node.items()
        if tag == "t":
            if not isinstance(value, str) or value not in self.tensors:
                raise ValueError(f"metadata names a tensor {str(value)[:60]!r} that the file lacks")
            return self.tensors[value]
        if tag == "f" and isinstance(value, str):
            return float.fromhex(value)
        if tag == "dtype" and isinstance(value, str) and value in _FILE_DTYPES:
            return getattr(_C, value)
        if tag in ("l", "tu") and isinstance(value, list):
            items = [self.decode(v, depth + 1) for v in value]
            return items if tag == "l" else tuple(items)
        if tag in ("d", "od") and isinstance(value, list):
            pairs = [p for p in value if isinstance(p, list) and len(p) == 2 and (p[0] is None or isinstance(p[0], (bool, int, str)))]
            if len(pairs) != len(value):
                raise ValueError("metadata holds a dict with a malformed entry")
            return (OrderedDict if tag == "od" else dict)((k, self.decode(v, depth + 1)) for k, v in pairs)
        raise ValueError(f"metadata holds an unknown tag {str(tag)[:60]!r}")


# ----- files --------------------------------------------------------------------------------------------------------------------------


def save(obj: Any, f: Any) -> None:
    """Writes tensors, and dicts, lists, tuples, numbers and strings around them, to ``f``: a path or a binary file object.

    A path is replaced only when all is written. Tensors are stored without their device, gradient and history.
    """
    import safetensors.numpy  # its numpy functions are the library's stable interface

    encoder = _Encoder()
    structure = encoder.encode(obj, "")
    arrays = {name: _as_array(t) for name, t in encoder.tensors.items()}
    raw = safetensors.numpy.save(arrays, {"format": "oneflow_mini", _METADATA_KEY: json.dumps(structure)})
    if hasattr(f, "write"):
        f.write(raw)
        return
    path = os.path.realpath(os.fsdecode(f))  # a link stays a link: what it leads to is replaced
    if os.path.exists(path) and not os.path.isfile(path):  # a device or pipe can't be replaced; a directory is an error
        with open(path, "wb") as out:
            out.write(raw)
        return
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"[save] f: Parent directory {folder} does not exist.")
    handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(raw)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's files are private
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _as_array(t: Any) -> Any:
    import numpy as np

    if t.dtype == _C.bfloat16:
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16)
    else:
        dtype = np.dtype(t.dtype.name)
    return np.frombuffer(_C.tensor_to_bytes(t.detach()) or b"", dtype=np.uint8).view(dtype).reshape(tuple(t.shape))


def load(f: Any, map_location: Any = None) -> Any:
    """What ``save`` wrote, on ``map_location`` (default: the HOST device). ``f``: a path or a binary file object.

    A file that is truncated, not safetensors, or inconsistent in any way is a ValueError that names the path; nothing of it is executed.
    """
    if hasattr(f, "read"):
        where, raw = getattr(f, "name", "<file object>"), f.read()
    else:
        where = os.fspath(f)
        with open(where, "rb") as file:
            raw = file.read()
    place = _placer(map_location)
    try:
        tensors, metadata = _parse(raw)
        loaded = {name: place(t) for name, t in tensors.items()}
        if _METADATA_KEY not in metadata:
            return loaded
        return _Decoder(loaded).decode(json.loads(metadata[_METADATA_KEY]))
    except (ValueError, RecursionError, OverflowError) as error:
        text = "metadata nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"[load] {where}: not a valid safetensors file: {text}") from error


def _placer(map_location: Any) -> Callable[[Any], Any]:
    if map_location is None:
        return lambda t: t
    if callable(map_location) or isinstance(map_location, dict):
        raise TypeError(f"[load] map_location: got {type(map_location).__name__}, expected a device name or hal.Device")
    import hal

    device = hal.device(map_location) if isinstance(map_location, str) else map_location
    return lambda t: t.to(device)


def _parse(raw: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Tensors in the order of their data, and the metadata. The library checks the header: lengths, offsets, overlaps, holes."""
    import safetensors

    try:
        entries = safetensors.deserialize(raw)
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from None
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    tensors: dict[str, Any] = {}
    for name, info in entries:
        if info["dtype"] not in _DTYPES:
            raise ValueError(f"tensor {name!r} has dtype {info['dtype']}, expected one of {', '.join(_DTYPES)}")
        dtype = _DTYPES[info["dtype"]]
        if dtype == "bool" and bytes(info["data"]).strip(b"\x00\x01"):
            raise ValueError(f"tensor {name!r} is BOOL but holds bytes other than 0 and 1")
        tensors[name] = _C.tensor_from_bytes(info["data"], getattr(_C, dtype), tuple(info["shape"]))
    return tensors, header.get("__metadata__") or {}
