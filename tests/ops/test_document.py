"""docs/ops.md says what the op table says."""

from __future__ import annotations

import pytest

from hal.ops import document


def test_page_is_current() -> None:
    if not document.PAGE.exists():
        pytest.skip("the docs aren't beside this installation")
    assert document.PAGE.read_text(encoding="utf-8") == document.page(), "run: python -m hal.ops.document"
