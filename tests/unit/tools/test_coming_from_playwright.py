"""The tables of docs/coming-from-playwright.md: each row names, in a comment, tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAD = "| Playwright Test, pytest-playwright | pytest-taskspec |"


def test_each_row_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "coming-from-playwright.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and line != HEAD]
    named = [re.findall(r"[\w/]+\.py", line.partition("<!-- ")[2]) for line in rows]
    assert len(rows) > 30
    assert [row for row, tests in zip(rows, named, strict=True) if not tests] == []
    assert [test for tests in named for test in tests if not (ROOT / "tests" / test).is_file()] == []
