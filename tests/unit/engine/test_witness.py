"""Tasks that pass are looked at once more only where that is wanted, and a full disk is no failure of theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.engine import run_task
from harness.model.ports import Evidence, Snapshot
from harness.model.record import TaskResult
from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError
from harness.recovery import Capture
from harness.values import replace
from tests.unit.fakes import FakeWorld, Theatre


def played(theatre: Theatre, witness: Any, **spec: Any) -> TaskResult:
    return asyncio.run(run_task(theatre.plan(**spec), replace(theatre.ports(), witness=witness)))


def test_what_a_task_that_passed_looks_like_is_kept_before_the_browser_is_closed() -> None:
    seen: list[Any] = []
    theatre = Theatre(world=FakeWorld(environment={"a": 1}, entries_={"k": 1}))

    def witness(plan: Any, result: TaskResult, evidence: Evidence, state: Snapshot) -> Path:
        seen.append((result.final_state, evidence.url, state.environment, state.memory, theatre.session.closed))
        return Path("kept")

    assert played(theatre, witness).final_state == "completed"
    assert seen == [
        ("completed", "http://shop.local/", {"env": {"a": 1}}, {"k": {"key": "k", "value": 1}}, False),
    ]
    assert theatre.session.wanted == Capture(screenshot=False, logs=False)
    assert theatre.session.closed


def test_without_a_witness_nothing_is_looked_at() -> None:
    theatre = Theatre()
    assert played(theatre, None).ok
    assert theatre.session.wanted is None


def test_one_that_failed_or_was_left_out_has_no_witness() -> None:
    def witness(*_: Any) -> Path:
        raise AssertionError("nobody passed")

    assert not played(Theatre(), witness, success_criteria=["mem('a') == 1"]).ok
    left_out = {"on_precondition_fail": {"strategy": "skip_task"}}
    result = played(Theatre(), witness, preconditions=["mem('a') == 1"], error_recovery=left_out)
    assert result.skipped


def test_a_disk_that_is_full_is_a_warning() -> None:
    def witness(*_: Any) -> Path:
        raise OSError(28, "No space left on device")

    result = played(Theatre(), witness)
    assert result.ok
    assert [(each.type, "No space left" in each.message) for each in result.warnings] == [("evidence_not_kept", True)]


def test_the_project_says_whose_evidence_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.harness]\nevidence = "all"\n')
    assert load_settings(tmp_path).evidence == "all"
    assert load_settings(tmp_path, evidence="failed").evidence == "failed"
    file.write_text('[tool.harness]\nevidence = "some"\n')
    with pytest.raises(SettingsError, match=r"tool\.harness\.evidence: Input should be 'failed' or 'all'"):
        load_settings(tmp_path)


CRITERIA: dict[str, Any] = {
    "success_criteria": ["ALL[exists('#a'), url() != '']", "count('#row-${memory.k}') == 1"],
    "fallback_plan": {"enabled": True, "relaxed_success_criteria": ["visible('#relaxed')"]},
    "scoring_checkpoints": [{"id": "p", "assertion": "text('#part') == 'x'", "when": "exists('text=when')"}],
}


@pytest.mark.parametrize("there", [True, False])
def test_the_browser_is_asked_about_the_elements_of_all_criteria(there: bool) -> None:
    theatre = Theatre(world=FakeWorld(entries_={"k": 7}))
    theatre.session.page = {"exists #a": there, "url": "http://shop.local/", "count #row-7": 1}
    result = played(theatre, lambda *_: Path("kept"), **CRITERIA)
    assert result.ok is there
    assert theatre.session.looked_at == tuple(
        (each, None) for each in ("#a", "#part", "#relaxed", "#row-7", "text=when")
    )


def test_a_criterion_that_refers_to_what_nobody_remembered_names_no_element() -> None:
    theatre = Theatre()
    assert not played(theatre, None, success_criteria=["exists('#row-${memory.none}')", "exists('#b')"]).ok
    assert theatre.session.looked_at == (("#b", None),)
