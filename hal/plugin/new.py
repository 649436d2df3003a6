"""`hal new-plugin`: writes a package with a working device, its tests and a README, to start from."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from string import Template

LANGUAGES = ("python", "c")
_TEMPLATES = Path(__file__).parent / "templates"


def class_name(plugin_id: str) -> str:
    """my_chip -> MyChip."""
    return "".join(part.capitalize() for part in plugin_id.split("_"))


def check_id(plugin_id: str) -> None:
    """Raises ValueError unless it can be a device id, a Python module and a C identifier, and names nothing that exists."""
    import hal

    head = f"[new-plugin] the name {plugin_id!r}"
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", plugin_id):
        raise ValueError(f"{head} can't be a device id: expected [a-z][a-z0-9_]*, at most 64 characters")
    if keyword.iskeyword(plugin_id) or plugin_id in sys.stdlib_module_names:
        raise ValueError(f"{head} is taken by Python itself: choose another")
    if plugin_id in ("hal", "devices", "oneflow_mini", "conformance", "path", "validate", "log", "test"):
        raise ValueError(f"{head} is taken by the SDK: choose another")
    for record in hal._core.plugin_records(load=False):
        if record["id"] == plugin_id:
            raise ValueError(f"{head} is the id of a plugin that is installed: {record['origin']}")


def create(plugin_id: str, parent: Path, language: str) -> Path:
    """Writes the package ``parent/plugin_id`` and returns its folder. Raises ValueError for a bad name or language, FileExistsError."""
    if language not in LANGUAGES:
        raise ValueError(f"[new-plugin] unknown language: got {language!r}, expected one of {', '.join(LANGUAGES)}")
    check_id(plugin_id)
    root = parent / plugin_id
    if root.exists():
        raise FileExistsError(f"[new-plugin] {root} exists already: nothing was written")
    values = {"id": plugin_id, "Class": class_name(plugin_id), "ID": plugin_id.upper(), "dist": plugin_id.replace("_", "-")}
    files = {path: Template(path.read_text(encoding="utf-8")).substitute(values) for path in sorted((_TEMPLATES / language).rglob("*.in"))}
    for path, text in files.items():
        name = str(path.relative_to(_TEMPLATES / language)).removesuffix(".in").replace("ID", plugin_id)
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return root
