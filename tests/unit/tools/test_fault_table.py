"""docs/faults.md names every kind of fault, as the models have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.fault_plan import load_fault_plan
from harness.spec.validation import FAULTS
from tools.docs.fault_table import rendered, updated

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "faults.md"


def test_the_document_is_up_to_date() -> None:
    document = DOCUMENT.read_text("utf-8")
    assert updated(document) == document, "python -m tools.docs.fault_table docs/faults.md"


def test_every_kind_has_a_line() -> None:
    assert [line.split("`")[1] for line in rendered().splitlines()[2:]] == list(FAULTS)


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="kinds: begin"):
        updated("# Faults")


def test_the_plan_of_the_document_can_be_read(tmp_path: Path) -> None:
    text = DOCUMENT.read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "nightly.faults.yaml"
    path.write_text(text, "utf-8")
    assert load_fault_plan(path).name == "nightly"
