"""hal/_core.pyi against the compiled module: the same names and parameters."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import hal

STUB = ast.parse((Path(hal.__file__).parent / "_core.pyi").read_text(encoding="utf-8"))


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs if a.arg != "self"]


def documented_parameters(function: Any) -> list[str]:
    """From the signature that pybind11 puts first in a docstring."""
    signature = function.__doc__.splitlines()[0]
    inside = signature[signature.index("(") + 1 : signature.rindex(" -> ") - 1]
    names = re.findall(r"(?:^|, )(\w+): ", inside)
    return [name for name in names if name != "self"]


CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef)]
FUNCTIONS = [node for node in STUB.body if isinstance(node, ast.FunctionDef)]


def test_no_name_is_missing_or_invented() -> None:
    stubbed = {node.name for node in CLASSES + FUNCTIONS} | {"ABI_VERSION"}
    compiled = {name for name in vars(hal._core) if not name.startswith("__")}
    assert stubbed == compiled


@pytest.mark.parametrize("node", FUNCTIONS, ids=lambda node: node.name)
def test_parameters_of_functions(node: ast.FunctionDef) -> None:
    assert parameters(node) == documented_parameters(getattr(hal._core, node.name))


@pytest.mark.parametrize("node", CLASSES, ids=lambda node: node.name)
def test_members_of_classes(node: ast.ClassDef) -> None:
    compiled = getattr(hal._core, node.name)
    stubbed = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
    for name in stubbed:
        assert hasattr(compiled, name), name
    own = {name for name in vars(compiled) if not name.startswith("__") and name != "_pybind11_conduit_v1_"}
    assert own <= stubbed
    for base in node.bases:
        assert isinstance(base, ast.Name)
        parent = getattr(hal._core, base.id, None) or __builtins__[base.id]  # type: ignore[index]
        assert issubclass(compiled, parent)
