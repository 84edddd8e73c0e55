"""When a failed task may be run a second time for its trace: never where it would write twice."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.model.record import StepRecord, TaskResult
from harness.model.settings import Settings
from harness.pytest_plugin.run import command, refusal
from harness.recovery import Rulebook
from harness.recovery.failure import Failure
from harness.spec.faults import Fault
from harness.values import replace
from tests.unit.reporting import sample

CRASH = TypeAdapter[Any](Fault).validate_python({"kind": "page_crash"})
WRITES = [{"act": "open", "url": "http://shop.local/"}, {"act": "click", "selector": "#buy", "effect": "write"}]


def failed(folder: Path, *methods: str, steps: Any = sample.STEPS) -> TaskResult:
    """A task that failed at its last step, having sent these requests."""
    entries = [{"request": {"method": method, "url": "http://shop.local/x"}} for method in methods]
    (folder / "network_logs.har").write_text(json.dumps({"log": {"entries": entries}}))
    return sample.failed(sample.plan(steps=steps), index=len(steps) - 1, artifacts=folder)


@pytest.mark.parametrize(
    ("methods", "settings", "spec", "why"),
    [
        (("GET", "HEAD", "OPTIONS"), {}, {}, None),
        (("GET", "POST"), {}, {}, "it sent POST http://shop.local/x, and the project declares neither"),
        (("GET", "DELETE"), {"isolation": "none"}, {}, "it sent DELETE"),
        (("POST",), {"isolation": "world"}, {}, None),
        (("POST",), {"isolation": "reset"}, {}, None),
        (("POST",), {"isolation": "world"}, {"episode_id": "E"}, "the tasks of an episode share their state"),
        (("GET",), {}, {"episode_id": "E"}, None),
        (("GET",), {"tracing": "off"}, {}, "no trace is recorded"),
    ],
)
def test_a_task_is_run_again_only_where_nothing_is_written_twice(
    tmp_path: Path, methods: tuple[str, ...], settings: dict[str, Any], spec: dict[str, Any], why: str | None
) -> None:
    said = refusal(sample.plan(spec=spec), failed(tmp_path, *methods), Settings(**settings), alone=True)
    assert (said is None) is (why is None)
    assert why is None or (said is not None and why in said)


def test_a_declared_write_counts_although_it_sends_a_get(tmp_path: Path) -> None:
    said = refusal(sample.plan(steps=WRITES), failed(tmp_path, "GET", steps=WRITES), Settings(), alone=True)
    assert said is not None
    assert said.startswith("step 1 (click) may have written")


def test_what_a_task_inside_it_wrote_counts(tmp_path: Path) -> None:
    inner = failed(tmp_path, steps=WRITES)
    result = replace(failed(tmp_path, "GET"), inner=(inner,))
    assert inner.written == ()  # its write came to nothing
    assert refusal(sample.plan(), result, Settings(), alone=True) is None
    done = replace(inner.history[-1], effect_already_done=True)
    result = replace(result, inner=(replace(inner, history=(done,)),))
    said = refusal(sample.plan(), result, Settings(), alone=True)
    assert said is not None
    assert said.startswith("a task that ran inside it may have written (click #buy)")


def test_what_is_not_known_counts_as_written(tmp_path: Path) -> None:
    result = failed(tmp_path, "GET")
    (tmp_path / "network_logs.har").unlink()
    said = refusal(sample.plan(), result, Settings(), alone=True)
    assert said is not None
    assert said.startswith("its requests were not kept")


def test_a_task_that_wants_no_evidence_is_not_run_again_for_it(tmp_path: Path) -> None:
    quiet = replace(sample.plan(), rulebook=Rulebook(capture="none"))
    assert refusal(quiet, failed(tmp_path, "GET"), Settings(), alone=True) == "the task says `capture: none`"
    rules = {"capture": "none", "on_timeout": {"strategy": "abort", "capture": "all"}}
    other = replace(sample.plan(), rulebook=Rulebook.model_validate(rules))
    assert refusal(other, failed(tmp_path, "GET"), Settings(), alone=True) is None


def test_a_precondition_that_did_not_hold_has_no_page_to_show(tmp_path: Path) -> None:
    check = sample.step(act="assert", expr="mem('cart') == 1")
    record = StepRecord(-1, check, (sample.attempt(check, 0, 0.1, Failure("PRECONDITION_NOT_MET", "no")),))
    result = replace(failed(tmp_path, "GET"), history=(record,), failed_index=-1, failure=record.failure)
    assert refusal(sample.plan(), result, Settings(), alone=True) == "it failed before it had a page"


def test_the_command_that_is_offered_meets_the_same_faults_and_agent(tmp_path: Path) -> None:
    config = SimpleNamespace(invocation_params=SimpleNamespace(dir=tmp_path))
    item: Any = SimpleNamespace(nodeid="t.task.yaml::T", path=tmp_path / "tasks" / "t.task.yaml", config=config)
    plans = (tmp_path / "all of it.faults.yaml",)
    state: Any = SimpleNamespace(settings=Settings(root=tmp_path, faults=plans), chosen="mine")
    assert command(item, state) == (
        "pytest tasks/t.task.yaml::T --task-retrace --task-faults 'all of it.faults.yaml' --task-agent mine"
    )


def test_faults_strike_no_task_beside_it_and_a_task_without_a_page_has_no_trace(tmp_path: Path) -> None:
    plan, result = sample.plan(faults=(CRASH,)), failed(tmp_path)
    assert refusal(plan, result, Settings(), alone=True) is None
    assert (
        refusal(plan, result, Settings(), alone=False) == "its faults could strike the tasks that run at the same time"
    )
    down = replace(result, history=(), failed_index=-1, failure=Failure("SERVICE_DOWN", "it is down"))
    assert refusal(sample.plan(), down, Settings(), alone=True) == "it failed before it had a page"
