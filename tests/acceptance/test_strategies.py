"""Every strategy of `error_recovery`, once, as a person runs it: pytest, a real browser, the demo shop."""

from __future__ import annotations

import json
import os
import pty
import select
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm
from tests.conftest import FULL

OPEN = {"act": "open", "url": "http://shop.local/"}
LATE = {"act": "wait", "selector": "#nowhere", "timeout": 1}
CLICK = {"act": "click", "selector": "#nowhere"}
WANTS = ["mem('ready') == 'yes'"]
BOUND = {
    "memory": {"card": "9999"},
    "state_bindings": {"card": "env.shop.bindings.PM-1.last4"},
    "steps": [OPEN, {"act": "click", "selector": "#search-box"}],
}
HOOK = """
def pytest_taskspec_repair(task_id, precondition, memory):
    if task_id == "repair-hook":
        assert precondition == "mem('ready') == 'yes'" and memory["known"] == 1
        return {"ready": "yes"}
"""


@dataclass(frozen=True)
class Case:
    """A task, what becomes of it, and what of it with `--task-no-recovery`."""

    spec: Mapping[str, Any]
    state: str
    code: str | None = None
    warnings: tuple[str, ...] = ()
    message: str = ""
    bare: tuple[str, str | None] = ("", None)
    """State and code with `--task-no-recovery`; by default the same."""


def case(state: str, code: str | None = None, *warnings: str, message: str = "", **spec: Any) -> Case:
    bare = spec.pop("bare", (state, code))
    rules = {"on_element_not_found": {"wait_seconds": 0.5}, **spec.pop("rules", {})}
    return Case({"error_recovery": rules, **spec}, state, code, warnings, message, bare)


STEPS = {
    "timeout-capture": case("failed", "STEP_TIMEOUT", steps=[OPEN, LATE]),
    "timeout-abort": case("aborted", "STEP_TIMEOUT", rules={"on_timeout": "abort"}, steps=[OPEN, LATE]),
    "skip-step": case(
        "partial_success",
        None,
        "step_skipped",
        rules={"on_timeout": "skip_step"},
        steps=[OPEN, LATE, OPEN],
        bare=("failed", "STEP_TIMEOUT"),
    ),
    "element-abort": case(
        "aborted",
        "ELEMENT_NOT_FOUND",
        rules={"on_element_not_found": "abort"},
        steps=[OPEN, {**CLICK, "timeout": 3}],
    ),
    "element-fallback": case(
        "completed",
        None,
        "fallback_selector_used",
        rules={"on_element_not_found": {"wait_seconds": 0.5, "fallback_selectors": {"#nowhere": ["#search-box"]}}},
        steps=[OPEN, CLICK],
        bare=("failed", "ELEMENT_NOT_FOUND"),
    ),
    "ambiguous-abort": case(
        "aborted",
        "SELECTOR_AMBIGUOUS",
        steps=[OPEN, {**CLICK, "selector": "a"}],
    ),
    "ambiguous-first": case(
        "completed",
        None,
        "fallback_selector_used",
        rules={"on_selector_ambiguous": "use_first"},
        steps=[OPEN, {**CLICK, "selector": "a"}],
        bare=("failed", "SELECTOR_AMBIGUOUS"),
    ),
    "assertion-silent": case(
        "aborted",
        "ASSERTION_FAILED",
        rules={"on_assertion_fail": "abort_silent"},
        steps=[OPEN, {"act": "assert", "expr": "title() == 'x'"}],
    ),
    "network-abort": case(
        "aborted",
        "NET_CONNECTION_REFUSED",
        rules={"on_network_error": "abort"},
        faults=[{"kind": "refuse", "host": "shop.local", "seconds": 30}],
    ),
    "network-retry": case(
        "completed",
        None,
        "network_error_recovered",
        rules={"on_network_error": {"strategy": "retry", "retry_delay_ms": 100}},
        faults=[{"kind": "refuse", "host": "shop.local", "connections": 1}],
        bare=("failed", "NET_CONNECTION_REFUSED"),
    ),
}
REPAIRED = {
    "rules": {"on_precondition_fail": "attempt_repair"},
    "preconditions": WANTS,
    "bare": ("aborted", "PRECONDITION_NOT_MET"),
}
PRECONDITIONS = {
    "warned": case("aborted", "PRECONDITION_NOT_MET", preconditions=WANTS),
    "repair-memory": case(
        "completed", None, "precondition_repaired", repairs=[{"memory": {"ready": "yes"}}], **REPAIRED
    ),
    "repair-steps": case(
        "completed",
        None,
        "precondition_repaired",
        repairs=[{"steps": [{**OPEN, "remember": {"ready": "'yes'"}}]}],
        **REPAIRED,
    ),
    "repair-task": case("completed", None, "precondition_repaired", repairs=[{"task": "setup"}], **REPAIRED),
    "repair-hook": case("completed", None, "precondition_repaired", memory={"known": 1}, **REPAIRED),
    "repair-none": case("aborted", "PRECONDITION_NOT_MET", message="no repair is declared for it", **REPAIRED),
    "repair-fails": case(
        "aborted",
        "PRECONDITION_NOT_MET",
        message="its repair failed: no element matches #nowhere",
        repairs=[{"steps": [OPEN, CLICK]}],
        **REPAIRED,
    ),
    "repair-task-fails": case(
        "aborted", "PRECONDITION_NOT_MET", message="its repair failed: broken", repairs=[{"task": "broken"}], **REPAIRED
    ),
    "repair-in-vain": case(
        "aborted",
        "PRECONDITION_NOT_MET",
        message="mem('ready') is 'no'",
        repairs=[{"memory": {"ready": "no"}}],
        **REPAIRED,
    ),
    "setup": case("completed", steps=[{**OPEN, "remember": {"ready": "'yes'"}}]),
    "broken": case("failed", "ELEMENT_NOT_FOUND", steps=[OPEN, CLICK]),
}
DIFFERS = ("failed", "STATE_INCONSISTENT")
STATES = {
    "trust-env": case(
        "completed",
        None,
        "state_inconsistency_resolved",
        success_criteria=["mem('card') == '1234'"],
        bare=DIFFERS,
        **BOUND,
    ),
    "trust-memory": case(
        "completed",
        None,
        "state_inconsistency_resolved",
        rules={"on_state_inconsistency": "trust_memory"},
        success_criteria=["json('env', 'shop.bindings.PM-1.last4') == '9999'", "mem('card') == '9999'"],
        bare=DIFFERS,
        **BOUND,
    ),
    "nobody-there": case(
        *DIFFERS,
        message="nobody decided which value is right",
        rules={"on_state_inconsistency": "manual_resolution"},
        **BOUND,
    ),
    "state-abort": case("aborted", DIFFERS[1], rules={"on_state_inconsistency": "abort"}, **BOUND),
}
OVER = ("aborted", "BUDGET_EXCEEDED")
BUDGETS = {
    "budget-steps": case(
        *OVER,
        message="`max_steps` allows 2 steps, and another one was to begin",
        budget={"max_steps": 2},
        steps=[OPEN, OPEN, OPEN],
    ),
    "budget-requests": case(
        *OVER,
        message="`max_requests` allows 1 request, and the task's pages have sent ",
        budget={"max_requests": 1},
        steps=[OPEN, OPEN, OPEN],
    ),
    "budget-seconds": case(
        *OVER,
        message="`max_seconds` allows 1.5 seconds, and they are over",
        budget={"max_seconds": 1.5},
        steps=[OPEN, {"act": "wait", "value": 8}],
    ),
    "budget-retries": case(
        *OVER,
        message="`max_retries` allows 1 retry, fallbacks included, and another one is needed",
        budget={"max_retries": 1},
        rules={"on_network_error": {"strategy": "retry", "retry_delay_ms": 100}},
        faults=[{"kind": "refuse", "host": "shop.local", "seconds": 30}],
        bare=("failed", "NET_CONNECTION_REFUSED"),
    ),
}
CASES = {**STEPS, **PRECONDITIONS, **STATES, **BUDGETS}
SOME = (
    "timeout-abort",
    "skip-step",
    "element-fallback",
    "ambiguous-first",
    "assertion-silent",
    "network-retry",
    "repair-memory",
    "repair-steps",
    "repair-task",
    "repair-hook",
    "repair-fails",
    "trust-env",
    "trust-memory",
    "nobody-there",
    *BUDGETS,
)
"""At least one strategy of each rule that does more than to give up, and each budget; the others are played in a full
run.
"""
SKIPPED = case("aborted", rules={"on_precondition_fail": "skip_task"}, preconditions=WANTS)


class Played:
    """All cases, run once; what became of them, what the screen showed, and their worlds."""

    def __init__(self, folder: Any, sites: dict[str, int], *options: str) -> None:
        self._port = sites["world.local"]
        self.project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), sites)
        for name, each in {**CASES, "skip-task": SKIPPED}.items():
            self.project.task(name, **each.spec)
        (self.project.path / "conftest.py").write_text(HOOK, "utf-8")
        self.output = self.project.play("-rs", *options)
        document = json.loads((self.project.path / ".harness" / "last-run.json").read_text("utf-8"))
        self._run = document["run"]
        self.records: dict[str, dict[str, Any]] = {each["task_id"]: each for each in document["results"]}

    def env(self, name: str) -> Any:
        """The environment document of a task's world."""
        headers = {"Host": "world.local", "User-Agent": f"harness-world/{self._run}.{name}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/env", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Played:
    """All of them; in the ordinary suite those that its tests ask for, in one process."""
    needed = (*SOME, "setup", "skip-task")
    chosen = ["-n", "2"] if FULL else ["--task-workers", "4", *(f"{name}.task.json" for name in needed)]
    return Played(tmp_path_factory.mktemp("strategies"), sites, *chosen)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Played:
    """All of them with `--task-no-recovery`; in the ordinary suite only what its tests ask for."""
    chosen = ["-n", "2"] if FULL else [f"{name}.task.json" for name in ("skip-task", "trust-memory")]
    return Played(tmp_path_factory.mktemp("bare"), sites, "--task-no-recovery", *chosen)


@pytest.mark.parametrize(
    "name", [*SOME, *(pytest.param(each, marks=pytest.mark.thorough) for each in CASES if each not in SOME)]
)
def test_a_strategy_does_what_it_says(played: Played, name: str) -> None:
    wanted, record = CASES[name], played.records[name]
    assert (record["final_state"], record["code"]) == (wanted.state, wanted.code), record
    assert tuple(warning["type"] for warning in record["warnings"]) == wanted.warnings, record
    assert wanted.message in record["message"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_without_recovery_nothing_is_tried(bare: Played, name: str) -> None:
    record = bare.records[name]
    assert (record["final_state"], record["code"]) == CASES[name].bare, record
    assert (record["retries"], record["warnings"]) == (0, [])


def test_a_task_that_is_left_out_is_a_skip_with_its_reason(played: Played, bare: Played) -> None:
    assert "SKIPPED [1] skip-task.task.json" in played.output
    assert "Precondition not met: mem('ready') == 'yes'" in played.output
    assert "skip-task" not in played.records
    assert not (played.project.path / "errors" / "skip-task").exists()
    assert "SKIPPED [1] skip-task.task.json" in bare.output
    assert "skip-task" not in bare.records


def test_trust_memory_writes_into_the_environment(played: Played, bare: Played) -> None:
    assert played.env("trust-memory")["shop"]["bindings"]["PM-1"]["last4"] == "9999"
    assert played.env("trust-env")["shop"]["bindings"]["PM-1"]["last4"] == "1234"
    assert bare.env("trust-memory")["shop"]["bindings"]["PM-1"]["last4"] == "1234"


ANSWERS = {
    "1": ("passed", "1234", "1234"),
    "memory": ("passed", "9999", "9999"),
    "7\n2": ("passed", "9999", "9999"),
    "": ("failed", "9999", "1234"),
}
"""What is typed -> what becomes of the item, and the values in memory and in the environment."""


@pytest.mark.parametrize(
    "typed", [pytest.param(each, marks=pytest.mark.thorough) if each == "1" else each for each in ANSWERS]
)
@pytest.mark.sampled(1)
def test_a_person_at_the_terminal_decides(project: Project, typed: str) -> None:
    outcome, here, there = ANSWERS[typed]
    criteria = [f"mem('card') == '{here}'", f"json('env', 'shop.bindings.PM-1.last4') == '{there}'"]
    rules = {"on_state_inconsistency": "manual_resolution"}
    project.task("A-1", **BOUND, error_recovery=rules, success_criteria=criteria)
    screen = _conversation(project, typed)
    assert 'A-1: memory \'card\' is "9999", env shop.bindings.PM-1.last4 is "1234". Which is right?' in screen
    assert "1: environment, 2: memory, empty: neither" in screen
    assert f"1 {outcome}" in screen
    assert ("please answer" in screen) is typed.startswith("7")


@pytest.mark.thorough
def test_a_person_is_shown_no_secrets(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_CARD", "hunter2-9999")
    rules = {"on_state_inconsistency": "manual_resolution"}
    project.task("A-1", **{**BOUND, "memory": {"card": "${env:SECRET_CARD}"}}, error_recovery=rules)
    screen = _conversation(project, "")
    assert "Which is right?" in screen
    assert "hunter2" not in screen


def _conversation(project: Project, typed: str) -> str:
    """What pytest shows on a terminal of its own, where `typed` is entered when it asks."""
    ours, theirs = pty.openpty()
    environment = {"TERM": "dumb", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    process = warm().start(
        "pytest", "-p", "no:cacheprovider", cwd=project.path, environment=environment, stdin=theirs, stdout=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown, answers, until = "", typed.split("\n"), time.monotonic() + 90
    try:
        while (chunk := _read(ours, until)) is not None:
            shown += chunk
            if answers and shown.rstrip(" ").endswith("\n>"):
                os.write(ours, f"{answers.pop(0)}\n".encode())
        return shown
    finally:
        os.close(ours)
        process.kill()
        process.wait(10)


def _read(terminal: int, until: float) -> str | None:
    """What came; None once the other side has closed it, or nothing came until then."""
    ready, _, _ = select.select([terminal], [], [], max(0.0, until - time.monotonic()))
    try:
        return os.read(terminal, 65536).decode(errors="replace").replace("\r\n", "\n") if ready else None
    except OSError:
        return None
