"""Which trials are void: infrastructure broke. The agent's own failure never is one."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.model.inference import ModelCall, Usage
from harness.model.record import Attempt, StepRecord, TaskResult
from harness.recovery.catalog import CATALOG, Category
from harness.recovery.failure import Circumstances, Failure
from harness.runner.evaluation.trials import (
    BROWSER_CODES,
    MODEL_CODES,
    RUN_CODES,
    SITE_CODES,
    VOID,
    void_reason,
    waited_for_models,
)
from tests.unit.reporting.sample import START, step

COUNTS = {
    "AGENT_LOST", "HTTP_CLIENT_ERROR", "HTTP_NOT_FOUND", "HTTP_SERVER_ERROR", "HTTP_UNEXPECTED_STATUS",
    "MODEL_CONTEXT_OVERFLOW", "MODEL_GARBLED", "MODEL_REFUSED", "NET_BLOCKED", "NET_DNS", "NET_FAILED", "NET_PROTOCOL",
    "NET_TLS", "NET_TOO_MANY_REDIRECTS", "PAGE_CLOSED", "PAGE_UNRESPONSIVE",
}  # fmt: skip
"""Codes of infrastructure that an agent, its model or the site under test may cause."""
HOSTS = ("shop.local",)


def result(failure: Failure | None, *records: Failure, elapsed: float = 10, **more: Any) -> TaskResult:
    history = tuple(
        StepRecord(n, step(act="click", selector="#a"), (Attempt(step(act="click", selector="#a"), n, 1, START, each),))
        for n, each in enumerate(records)
    )
    state = "failed" if failure else "completed"
    return TaskResult("T", "T", state, history, START, elapsed, 3, failure, 0 if failure else None, **more)  # type: ignore[arg-type]


def call(at: float, seconds: float, *, attempt: int = 1, answered: bool = True) -> ModelCall:
    return ModelCall(
        agent="a", model="m", provider="openai", identifier="m", step=0, attempt=attempt,
        at=START + timedelta(seconds=at), seconds=seconds, first_token=None, usage=Usage(), cost=None,
        outcome="answered" if answered else "failed",
    )  # fmt: skip


def test_every_code_of_infrastructure_is_decided() -> None:
    infrastructure = {code for code, row in CATALOG.items() if row.category is Category.INFRASTRUCTURE}
    assert infrastructure - VOID == COUNTS
    assert VOID - infrastructure == {"INTERRUPTED", "TOOL_AUTH"}
    assert all(code in CATALOG for code in VOID)


@pytest.mark.parametrize("code", sorted(VOID))
def test_broken_infrastructure_is_void(code: str) -> None:
    assert void_reason(result(Failure(code, "gone")), HOSTS) == f"{code}: {CATALOG[code].cause}"


@pytest.mark.parametrize("code", sorted(CATALOG.keys() - VOID))
def test_everything_else_counts(code: str) -> None:
    assert void_reason(result(Failure(code, "no")), HOSTS) == ""


def test_the_page_names_them_all() -> None:
    page = (Path(__file__).parents[4] / "docs/evaluation.md").read_text("utf-8")
    rows = [line for line in page.partition("| void | codes |")[2].partition("\n\n")[0].splitlines() if "`" in line]
    named = [set(re.findall(r"`([A-Z_]+)`", row)) for row in rows]
    assert named == [MODEL_CODES, BROWSER_CODES, SITE_CODES, RUN_CODES]


def test_what_an_injected_fault_caused_counts() -> None:
    assert void_reason(result(Failure("MODEL_UNAVAILABLE", "cut")), HOSTS, of_fault="MODEL_UNAVAILABLE") == ""
    assert void_reason(result(Failure("MODEL_UNAVAILABLE", "cut")), HOSTS, of_fault="STEP_TIMEOUT") != ""
    down = Failure("SERVICE_DOWN", "down")
    assert void_reason(result(down), HOSTS, of_fault="NET_CONNECTION_REFUSED") == ""  # it was refused, then given up
    assert void_reason(result(down), HOSTS, of_fault="BROWSER_CRASHED") != ""
    killed = Failure("BROWSER_CRASHED", "killed", circumstances=Circumstances(injected=True))
    assert void_reason(result(killed), HOSTS) == ""
    assert void_reason(result(None), HOSTS) == ""


@pytest.mark.parametrize(
    ("codes", "void"),
    [(("MODEL_UNAVAILABLE", "MODEL_TIMEOUT"), True), (("AGENT_STUCK", "MODEL_UNAVAILABLE"), False)],
)
def test_a_chain_is_void_only_if_no_agent_of_it_failed_by_itself(codes: tuple[str, ...], void: bool) -> None:
    tried = [{"agent": "a", "code": code} for code in codes]
    failure = Failure("AGENTS_EXHAUSTED", "all", details={"tried": tried})
    assert bool(void_reason(result(failure), HOSTS)) is void


@pytest.mark.parametrize(
    ("last", "void"),
    [
        (Failure("NET_CONNECTION_REFUSED", "down", details={"url": "http://shop.local/cart"}), True),
        (Failure("NET_CONNECTION_REFUSED", "down", details={"url": "http://invented.local/"}), False),
        (Failure("SERVICE_DOWN", "down", details={"url": "http://shop.local/cart"}), True),
        (Failure("PAGE_CRASHED", "crashed"), True),
        (Failure("ELEMENT_NOT_FOUND", "no"), False),
    ],
)
def test_an_agent_that_gives_up_before_a_dead_site_is_not_to_blame(last: Failure, void: bool) -> None:
    for code in ("AGENT_GAVE_UP", "AGENT_STUCK", "CRITERIA_UNMET"):
        assert bool(void_reason(result(Failure(code, "so"), last), HOSTS)) is void


def test_an_earlier_trouble_that_was_overcome_is_no_excuse() -> None:
    refused = Failure("NET_CONNECTION_REFUSED", "down", details={"url": "http://shop.local/"})
    found = result(Failure("AGENT_STUCK", "so"), refused, Failure("ELEMENT_NOT_FOUND", "no"))
    assert void_reason(found, HOSTS) == ""


def test_the_time_in_which_no_model_answered() -> None:
    calls = (call(0, 2), call(3, 1, answered=False), call(8, 1, attempt=2, answered=False), call(13, 2, attempt=3))
    assert waited_for_models(calls) == pytest.approx(1 + 4 + 1 + 4)


def test_an_agent_whose_package_is_missing_says_nothing_about_the_agent() -> None:
    missing = Failure("AGENT_UNAVAILABLE", "no pydantic-ai", details={"model": "m"})
    assert void_reason(result(missing), HOSTS).startswith("AGENT_UNAVAILABLE")
    assert void_reason(result(Failure("AGENT_UNAVAILABLE", "its options are wrong")), HOSTS) == ""


def test_a_model_that_a_fault_has_stalled_is_no_dead_provider() -> None:
    calls = (call(0, 9, answered=False),)
    late = result(Failure("TASK_TIMEOUT", "late"), elapsed=10, model_calls=calls)
    assert void_reason(late, HOSTS) != ""
    assert void_reason(late, HOSTS, of_fault="MODEL_TIMEOUT") == ""


@pytest.mark.parametrize(("elapsed", "void"), [(17, True), (19, False)])
def test_a_task_whose_time_went_by_while_no_model_answered(elapsed: float, void: bool) -> None:
    """Nine seconds of 17 are more than half."""
    calls = (call(0, 5, answered=False), call(9, 1, attempt=2))
    assert waited_for_models(calls) == pytest.approx(9)
    late = result(Failure("TASK_TIMEOUT", "late"), elapsed=elapsed, model_calls=calls)
    assert bool(void_reason(late, HOSTS)) is void
