"""docs/design/never-twice.md says of every way back what the function says that decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.recovery.never_twice import RepeatWay
from tools.docs.ways_back import rendered, updated

DOCUMENT = Path(__file__).parents[3] / "docs" / "design" / "never-twice.md"


def test_the_document_is_up_to_date() -> None:
    document = DOCUMENT.read_text("utf-8")
    assert updated(document) == document, "run `python -m tools.docs.ways_back docs/design/never-twice.md`"


def test_every_way_has_a_line() -> None:
    assert [line.split(" | ")[0].removeprefix("| ") for line in rendered().splitlines()[2:]] == list(RepeatWay)


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="ways: begin"):
        updated("# Never twice")
