"""The table of docs/coming-from-playwright.md: each row names tests that exist."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_row_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "coming-from-playwright.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    named = [name.strip() for row in rows for name in row.rstrip(" |").rpartition("|")[2].split(",")]
    assert len(named) >= len(rows) > 30
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
