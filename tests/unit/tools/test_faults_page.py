"""docs/faults.md: its plan can be read, and every kind of fault is told of with what it strikes."""

from __future__ import annotations

from pathlib import Path

from harness.spec.fault_plan import load_fault_plan
from harness.spec.validation import FAULTS
from tools.docs.key_table import tables

DOCUMENT = Path(__file__).parents[3] / "docs" / "faults.md"


def test_every_kind_is_told_of_with_what_it_strikes() -> None:
    strikes = {
        key.path: section.title
        for section in tables()["faults"]
        for key in section.keys
        if not key.type and key.path.startswith("faults[")
    }
    assert strikes.keys() == {f"faults[{kind}]" for kind in FAULTS}
    some = ("page_crash", "slow", "model_cut", "tool_slow")
    assert [strikes[f"faults[{kind}]"].removeprefix("Faults of ") for kind in some] == [
        "steps",
        "requests",
        "models",
        "tools",
    ]


def test_the_plan_of_the_document_can_be_read(tmp_path: Path) -> None:
    text = DOCUMENT.read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "nightly.faults.yaml"
    path.write_text(text, "utf-8")
    assert load_fault_plan(path).name == "nightly"
