"""A hint fits what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.diagnosis import LOOKED_ONCE
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.recovery.catalog import CATALOG, Family
from harness.recovery.failure import Assertion, Failure
from harness.reporting.console import hint_text
from harness.reporting.telling import story_of
from harness.values import replace
from tests.unit.reporting import sample
from tests.unit.reporting.sample import brief, failure_text


def fitting_hint(plan: Plan, result: TaskResult) -> str:
    failure = story_of(plan, result).failure
    return hint_text(failure) if failure else ""


SELECTOR = "Compare the selector with dom_snapshot.html"
FALLBACK = "eclare `fallback_selectors` where the site's markup varies."


@pytest.mark.parametrize(
    ("snapshot", "heal", "hint"),
    [(True, True, f"{SELECTOR}; d{FALLBACK}"), (False, True, f"D{FALLBACK}"), (True, False, f"{SELECTOR}."),
     (False, False, "")],
)  # fmt: skip
def test_a_selector(tmp_path: Path, snapshot: bool, heal: bool, hint: str) -> None:
    if snapshot:
        (tmp_path / "dom_snapshot.html").touch()
    plan = replace(sample.plan(), heal=heal)
    result = sample.failed(plan, Failure("ELEMENT_NOT_FOUND", "none"), artifacts=tmp_path)
    assert fitting_hint(plan, result) == hint
    shown = " ".join(failure_text(plan, result).split())
    assert (f"hint: {hint}" in shown, "hint:" in shown) == (bool(hint), bool(hint))
    assert brief(plan, result).splitlines()[3:] == ["suspect: task", *([hint] if hint else [])]
    assert result.error is not None
    assert result.error.hint == f"{SELECTOR}; d{FALLBACK}"


@pytest.mark.parametrize(
    ("spec", "criterion", "hint"),
    [({}, "text('#a') == 'x'", LOOKED_ONCE), ({"expect_timeout": 5}, "text('#a') == 'x'", ""),
     ({}, "EVENTUALLY(text('#a') == 'x')", ""), ({}, "mem('a') == 'x'", ""), ({}, "json('env', 'a') == 'x'", ""),
     ({}, "mem('a') == text('#a')", LOOKED_ONCE), ({}, "url() includes '/done'", LOOKED_ONCE)],
)  # fmt: skip
def test_of_an_assertion_only_what_expected_and_actual_do_not_say(
    spec: dict[str, Any], criterion: str, hint: str
) -> None:
    plan = sample.plan(spec=spec)
    details = {"criterion": criterion}
    failure = Failure("CRITERIA_UNMET", "no", details=details, assertion=Assertion(criterion, "a", "b", "- a\n+ b"))
    assert fitting_hint(plan, sample.failed(plan, failure)) == hint


def test_an_error_of_a_tool_asks_for_no_patience_with_a_page() -> None:
    plan, failure = sample.plan(), Failure("TOOL_FAILED", "mail: no such folder")
    assert fitting_hint(plan, sample.failed(plan, failure)) == CATALOG["TOOL_FAILED"].hint


@pytest.mark.parametrize(("other", "hint"), [("mem('b') == 1", ""), ("exists('#a')", LOOKED_ONCE)])
def test_waiting_helps_no_criterion_whose_failing_part_looks_at_no_page(other: str, hint: str) -> None:
    plan, criterion = sample.plan(), "ALL[mem('a') == 'x', exists('#ok')]"
    details = {"criterion": criterion, "unmet_criteria": [criterion, other]}
    assertion = Assertion("mem('a') == 'x'", "x", "y", "- x\n+ y")
    assert fitting_hint(plan, sample.failed(plan, Failure("CRITERIA_UNMET", "no", None, details, assertion))) == hint


def test_with_everything_there_every_hint_is_whole(tmp_path: Path) -> None:
    for name in ("dom_snapshot.html", "env_snapshot.json", "screenshot.png", "network_logs.har", "console_logs.txt"):
        (tmp_path / name).touch()
    plan = sample.plan()
    whole = {code: row.hint for code, row in CATALOG.items() if row.family is not Family.ASSERTION}
    failures = {code: Failure(code, "no", assertion=Assertion("x", "a", "b", "- a")) for code in whole}
    found = {code: fitting_hint(plan, sample.failed(plan, each, artifacts=tmp_path)) for code, each in failures.items()}
    assert found == whole


def test_with_nothing_there_no_hint_names_a_file(tmp_path: Path) -> None:
    plan = sample.plan()
    hints = {code: fitting_hint(plan, sample.failed(plan, Failure(code, "no"), artifacts=tmp_path)) for code in CATALOG}
    files = ("dom_snapshot", "env_snapshot", "screenshot", "network log", "console log", "the diff")
    assert {code: hint for code, hint in hints.items() if any(words in hint for words in files)} == {}


def test_no_failure_no_hint() -> None:
    plan = sample.plan()
    assert fitting_hint(plan, sample.completed(plan)) == ""
