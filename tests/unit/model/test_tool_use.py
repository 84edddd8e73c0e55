"""What calls of tools have done, and how reports show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.tool_evidence import bounded, bounded_call, call_document, calls_of_attempts, failed_call, tool_error
from harness.model.tool_use import ToolFigures, by_tool, of_all_tools, tool_call_lines, tools_added_up
from harness.model.tools import LONGEST_DOCUMENT, ToolAnswer, ToolCall
from harness.recovery.failure import Failure
from harness.values import replace
from tests.unit.reporting import sample

CALL = ToolCall(
    id="tool-1",
    server="mail",
    tool="get_code",
    arguments={"to": "ann@shop.local"},
    effect="read",
    step=1,
    at=datetime(2025, 11, 16, 9, tzinfo=UTC),
    seconds=0.25,
    tries=1,
    outcome="answered",
    result={"code": "123456"},
)
ERROR = replace(CALL, id="tool-2", outcome="error", result="no such mail", code="TOOL_FAILED", message="no such mail")
LOST = replace(
    CALL, id="tool-3", outcome="failed", result=None, tries=4, seconds=3.6, code="TOOL_UNAVAILABLE",
    message="it was lost", exit_code=3, stderr="Traceback\nboom", retryable=True, max_retries=3,
)  # fmt: skip
OTHER = replace(CALL, id="tool-4", server="shop", tool="place_order", effect="write", outcome="cancelled", result=None)


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        ([CALL], "1 call"),
        ([CALL, ERROR, LOST], "3 calls, 1 answered with an error, 1 failed, 3 repeated"),
        ([OTHER], "1 call, 1 cancelled"),
    ],
)
def test_figures_in_words(calls: list[ToolCall], line: str) -> None:
    assert ToolFigures.of(calls).describe() == line


def test_by_tool() -> None:
    found = by_tool([CALL, OTHER, LOST])
    assert {name: [*tools] for name, tools in found.items()} == {"mail": ["get_code"], "shop": ["place_order"]}
    assert found["mail"]["get_code"].by_outcome() == {"answered": 1, "error": 0, "failed": 1, "cancelled": 0}


CALLS = st.lists(st.sampled_from([CALL, ERROR, LOST, OTHER]), max_size=6)


@given(CALLS, CALLS)
def test_sums_of_parts_are_the_sum_of_all(one: list[ToolCall], two: list[ToolCall]) -> None:
    assert of_all_tools(tools_added_up((by_tool(one), by_tool(two)))) == ToolFigures.of([*one, *two])


def test_a_line_has_the_code_and_no_arguments() -> None:
    (line,) = tool_call_lines([replace(ERROR, code="")], CALL.at - timedelta(seconds=2))
    assert (line.t, line.code, line.outcome, "arguments" in line.model_dump()) == (2.0, "TOOL_FAILED", "error", False)


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30_000),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=5), inner, max_size=8),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_a_document_fits_and_a_small_one_is_whole(document: Any) -> None:
    size = len(json.dumps(document, ensure_ascii=False))
    kept, cut_from = bounded(document)
    assert len(json.dumps(kept, ensure_ascii=False)) <= LONGEST_DOCUMENT
    assert (kept == document) if cut_from is None else (cut_from == size > LONGEST_DOCUMENT)


def test_a_cut_is_said_and_keeps_the_structure() -> None:
    rows = [{"id": number, "text": "x" * 100} for number in range(10_000)]
    kept, cut_from = bounded({"rows": rows, "total": 10_000})
    assert cut_from is not None
    assert (kept["total"], kept["rows"][0], kept["rows"][-1]) == (10_000, rows[0], "… (10000 entries)")
    text, _ = bounded("y" * 10**7)
    assert text.endswith("y… (10000000 characters)")
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert len(json.dumps(bounded(deep)[0])) <= LONGEST_DOCUMENT


def test_the_document_of_a_call() -> None:
    found = call_document(LOST)
    assert (found["outcome"], found["exit_code"], found["stderr"]) == ("failed", 3, "Traceback\nboom")
    assert "result" not in found
    kept = bounded_call(call_document(replace(CALL, result="z" * 10**7)))
    assert (kept["result_cut_from"], len(kept["result"]) <= LONGEST_DOCUMENT) == (10**7 + 2, True)
    assert call_document(replace(CALL, result=None))["result"] is None


PLAN = sample.plan(
    steps=(
        {"act": "open", "url": "http://shop.local/"},
        {"act": "tool", "server": "mail", "tool": "get_code", "arguments": {"to": "ann@shop.local"}},
    )
)
UNAVAILABLE = Failure("STEP_TIMEOUT", "slow")


def test_each_attempt_has_its_own_calls() -> None:
    result = sample.failed(PLAN, UNAVAILABLE, 1, attempts=2)
    first, second = result.history[1].attempts
    calls = (
        replace(LOST, at=first.started + timedelta(seconds=1)),
        replace(ERROR, at=second.started + timedelta(seconds=1)),
        replace(CALL, step=None),
        replace(CALL, step=0),
    )
    found = calls_of_attempts(replace(result, tool_calls=calls))
    assert {key: [each.id for each in those] for key, those in found.items()} == {
        id(first): ["tool-3"],
        id(second): ["tool-2"],
    }


def test_the_call_behind_a_failure() -> None:
    failed = replace(sample.failed(PLAN, UNAVAILABLE, 1), tool_calls=(CALL, LOST, replace(ERROR, step=None)))
    assert failed_call(failed) is None
    of_tool = replace(failed, failure=Failure("TOOL_UNAVAILABLE", "m"))
    assert failed_call(of_tool) is LOST
    assert failed_call(replace(of_tool, tool_calls=(replace(ERROR, step=None), CALL))) is not None
    unsure = replace(failed, failure=Failure("OUTCOME_UNKNOWN", "m"))
    assert failed_call(unsure) is LOST


@pytest.mark.parametrize("step", [1, None])
def test_a_call_of_a_repair_task_is_not_behind_the_failure_of_the_task(step: int | None) -> None:
    own, of_repair = replace(LOST, step=step), replace(ERROR, step=step)
    repair = replace(sample.completed(PLAN), tool_calls=(of_repair,))
    failed = replace(sample.failed(PLAN, Failure("TOOL_UNAVAILABLE", "m"), 1), inner=(repair,))
    assert failed_call(replace(failed, tool_calls=(own,))) is own
    assert failed_call(failed) is None


def test_the_error_document() -> None:
    found = tool_error(LOST).model_dump()
    assert found["type"] == "tool_error"
    assert found["payload"] == {
        "tool_call_id": "tool-3",
        "tool": "mail.get_code",
        "arguments": {"to": "ann@shop.local"},
        "code": "TOOL_UNAVAILABLE",
        "message": "it was lost",
        "details": {"exit_code": 3, "stderr": "Traceback\nboom", "stdout": "", "execution_time_ms": 3600},
        "retryable": True,
        "max_retries": 3,
    }
    assert tool_error(replace(ERROR, result={"why": 1})).payload.details.stdout == '{"why": 1}'


def test_a_text_that_reports_could_not_hold_is_no_document() -> None:
    for text in (300 * "[" + 300 * "]", 50_000 * "[", '{"a": NaN}', '{"a": '):
        assert ToolAnswer(text).document == text
    assert ToolAnswer('{"a": [1e3]}').document == {"a": [1000.0]}
