"""The tables of tests/requirements/agents.md: each row names tests that exist, and which run only in a full run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def source_of(name: str) -> str:
    """The decorators and the first line of a test; empty if there is none of this name."""
    file, _, function = name.partition("::")
    text = (ROOT / "tests" / file).read_text("utf-8") if (ROOT / "tests" / file).is_file() else ""
    found = re.search(rf"(?:^@.*\n(?:[ )\]].*\n)*)*^(?:async )?def {function}\(", text, re.MULTILINE)
    return found[0] if found else ""


def test_each_row_names_tests_that_exist() -> None:
    text = (ROOT / "tests" / "requirements" / "agents.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and ".py::" in line]
    named = [name.strip() for row in rows for name in row.rstrip(" |").rpartition("|")[2].split(",")]
    assert len(named) >= len(rows) > 30
    assert [name for name in named if not source_of(name.rstrip("*"))] == []
    thorough = [name for name in named if re.match(r"@pytest\.mark\.thorough\n", source_of(name.rstrip("*")))]
    assert thorough == [name for name in named if name.endswith("*")]
