"""What the pytest process of a slot tells its driver."""

from __future__ import annotations

import pytest

from harness.pytest_plugin.cluster_child import error_of


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "test_x.py:1: in <module>\n    import x\nE   ModuleNotFoundError: No module named 'x'\nmore",
            "ModuleNotFound",
        ),
        ("one\ntwo\n", "two"),
        ("", ""),
    ],
)
def test_the_line_with_the_error_is_found(text: str, error: str) -> None:
    assert error_of(text).startswith(error)
