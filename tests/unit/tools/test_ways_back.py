"""docs/design/never-twice.md says of every way back what the function says that decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.ledger import RULES
from harness.recovery.never_twice import RepeatWay
from tools.docs.ways_back import rendered_processes, rendered_ways, updated

DOCUMENT = Path(__file__).parents[3] / "docs" / "design" / "never-twice.md"


def test_the_document_is_up_to_date() -> None:
    document = DOCUMENT.read_text("utf-8")
    assert updated(document) == document, "run `python -m tools.docs.ways_back docs/design/never-twice.md`"


def test_every_way_has_a_line() -> None:
    assert [line.split(" | ")[0].removeprefix("| ") for line in rendered_ways().splitlines()[2:]] == list(RepeatWay)


def test_every_kind_of_process_has_a_column_and_every_failure_of_a_process_a_line() -> None:
    lines = rendered_processes().splitlines()
    assert all(line.count(" | ") == len(RULES) for line in lines)
    assert all(any(code in line for line in lines) for rule in RULES.values() for code in rule.no_end)


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="ways: begin"):
        updated("# Never twice")
