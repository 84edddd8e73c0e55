"""What `harness report` says of a report that was built."""

from __future__ import annotations

import json
from pathlib import Path

from harness.cli.report import TOLD, document, lines
from harness.reporting.allure.build import Report
from harness.values import replace


def built(*left_out: str) -> Report:
    return Report(Path("out/index.html"), 5, left_out, "3.18.0")


def test_what_was_left_out_is_named_and_steers_no_terminal() -> None:
    told = lines(built("a\x1b[2Jb-result.json: not JSON"))
    assert told == [
        "left out: a\\x1b[2Jb-result.json: not JSON", "report: out/index.html (5 results, Allure 3.18.0)",
    ]  # fmt: skip


def test_a_long_list_is_cut() -> None:
    told = lines(built(*(f"{n}.txt: foreign" for n in range(TOLD + 3))))
    assert told[TOLD] == "left out: 3 more (--json names them)"


def test_the_document() -> None:
    assert json.loads(document(built("x: y"))) == {
        "report": "out/index.html", "results": 5, "left_out": ["x: y"], "notes": [], "allure": "3.18.0",
    }  # fmt: skip


def test_what_else_is_to_be_known() -> None:
    made = replace(built(), notes=("of earlier runs\x1b[2J",))
    assert lines(made)[0] == "note: of earlier runs\\x1b[2J"
    assert json.loads(document(made))["notes"] == ["of earlier runs\x1b[2J"]
