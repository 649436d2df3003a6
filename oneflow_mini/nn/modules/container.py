"""Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ... import _C
from ..parameter import Parameter
from .module import Module, _indent


class _IndexedModules(Module):
    """Modules under the names "0", "1", …: what Sequential and ModuleList share."""

    def _at(self, idx: Any) -> str:
        n = len(self._modules)
        idx = operator.index(idx)
        if not -n <= idx < n:
            raise IndexError(f"index {idx} is out of range for a {type(self).__name__} of {n} modules")
        return list(self._modules)[idx]

    def _renumber(self, modules: Iterable[Any]) -> None:
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(*self._slice(idx))
        return self._modules[self._at(idx)]

    def _slice(self, idx: slice) -> list[Any]:
        return list(self._modules.values())[idx]

    def __setitem__(self, idx: Any, module: Module) -> None:
        setattr(self, self._at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)
        for name in names[idx] if isinstance(idx, slice) else [self._at(idx)]:
            del self._modules[name]
        if all(n.isdigit() for n in names):
            self._renumber(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(m is module for m in self._modules.values())

    def append(self, module: Module) -> Any:
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        for m in list(modules):
            self.append(m)
        return self

    def insert(self, index: int, module: Module) -> Any:
        modules = list(self._modules.values())
        if not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"index {index} is out of range for a {type(self).__name__} of {len(modules)} modules")
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, idx: Any) -> Any:
        module = self[idx]
        del self[idx]
        return module


class Sequential(_IndexedModules):
    """Calls its modules one after the other. Takes modules, or one dict of name → module."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(dict(list(self._modules.items())[idx]))
        return self._modules[self._at(idx)]

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_IndexedModules):
    """A list of modules that registers them; it has no forward."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: Any) -> Any:
        return type(self)(self._slice(idx)) if isinstance(idx, slice) else self._modules[self._at(idx)]

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """As Module's, but a run of equal modules takes one line: ``(0-2): 3 x Linear(…)``."""
        runs: list[list[Any]] = []
        for i, text in enumerate(repr(m) for m in self):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [f"({a}): {_indent(t)}" if a == b else f"({a}-{b}): {b - a + 1} x {_indent(t)}" for a, b, t in runs]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules that registers them; it has no forward."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        return self._modules.keys()

    def values(self) -> Any:
        return self._modules.values()

    def items(self) -> Any:
        return self._modules.items()

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Any:
        return self._modules.pop(key)

    def update(self, modules: Any) -> None:
        for key, module in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[key] = module


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, _C.Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list of parameters that registers them; tensors become Parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(() if values is None else values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, idx: Any) -> Any:
        values = list(self._parameters.values())
        return type(self)(values[idx]) if isinstance(idx, slice) else values[idx]

    def __setitem__(self, idx: int, value: Any) -> None:
        name = list(self._parameters)[idx]
        setattr(self, name, _as_parameter(value))

    def append(self, value: Any) -> ParameterList:
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        for v in values:
            self.append(v)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(
            f"({n}): Parameter of shape {tuple(p.shape)}, {p.dtype!r}, on {p.device.name}" for n, p in self._parameters.items()
        )


class ParameterDict(Module):
    """A dict of parameters that registers them; tensors become Parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        for key, value in () if parameters is None else parameters.items():
            self[key] = value

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.register_parameter(key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: object) -> bool:
        return key in self._parameters

    def keys(self) -> Any:
        return self._parameters.keys()

    def values(self) -> Any:
        return self._parameters.values()

    def items(self) -> Any:
        return self._parameters.items()

    extra_repr = ParameterList.extra_repr
