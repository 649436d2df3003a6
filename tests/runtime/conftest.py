from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "plugins")]

from dispatch_fixtures import blocker, device, picky, picky_session, toy  # noqa: E402, F401


@pytest.fixture(scope="session")
def toy_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy plugin, built in a tree of its own."""
    from build import build

    library = build("toy", tmp_path_factory.mktemp("toy")) / "libhal_toy.so"
    assert library.is_file()
    return library


@pytest.fixture(scope="session")
def broken_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Fault -> library; see tests/plugins/broken/broken.c."""
    from build import build

    out = build("broken", tmp_path_factory.mktemp("broken"))
    return {path.stem: path for path in sorted(out.glob("*/*.so"))}
