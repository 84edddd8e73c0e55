"""What a failed task prints."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.criteria import difference
from harness.model.diagnosis import error_report
from harness.model.record import MetFault, Rewound, StepRecord, Warning_
from harness.model.report import Context
from harness.recovery import Retry
from harness.recovery.failure import Assertion, Failure
from harness.reporting.files import told_lines
from harness.reporting.redaction import MARK, Redactor
from harness.reporting.words import fold_lines
from harness.spec.faults import Covered, Hang, Refuse
from harness.values import replace
from tests.unit.reporting import sample
from tests.unit.reporting.sample import brief, failure_text, headline


def test_a_timeout() -> None:
    plan = sample.plan()
    result = sample.failed(plan, attempts=3, artifacts=Path("errors/B1-2025-001"))
    lines = failure_text(plan, result, 100).splitlines()
    assert lines[0] == "B1-2025-001 failed: STEP_TIMEOUT at step 4 (of 0-5): wait .product-grid .product-item"
    assert lines[1] == "  tasks/b1.task.yaml"
    table = [line.split() for line in lines[2:7]]
    assert [row[:2] for row in table] == [["1", "click"], ["2", "type"], ["3", "click"], [">", "4"], ["5", "click"]]
    assert lines[5].rstrip().endswith("90.0 s  3 attempts")
    assert lines[6].rstrip().endswith("not run")
    assert lines[7:11] == [
        "  tried:",
        "    ATTEMPT 1: FAILED - wait .product-grid .product-item exceeded 30 s",
        "    RETRY (after 1s): FAILED - wait .product-grid .product-item exceeded 30 s",
        "    RETRY (after 1s): FAILED - wait .product-grid .product-item exceeded 30 s",
    ]
    assert "  message: wait .product-grid .product-item exceeded 30 s" in lines
    assert any(line.startswith("  hint: Look at the screenshot") for line in lines)
    assert "  url: http://shop.local/search?q=mouse" in lines
    assert "    [ERROR] Failed to fetch /api/search: net::ERR_CONNECTION_TIMED_OUT" in lines
    assert lines[-1] == "  artifacts: errors/B1-2025-001"


def test_an_assertion() -> None:
    plan = sample.plan()
    text = failure_text(plan, sample.failed(plan, sample.WRONG_STATE))
    assert "  expected: approved\n  actual:   processing\n  " in text
    assert "+ processing" not in text, "the two values stand there already"


def test_no_name_of_a_tool_and_no_message_steers_a_terminal() -> None:
    odd = "get\x1b[31m_odd\n::error::x\u202e\x07"
    plan = sample.plan(steps=[{"act": "tool", "server": "mail", "tool": odd, "arguments": {"to": odd}}])
    result = sample.failed(plan, Failure("TOOL_INVALID", f"Tool `mail.{odd}` was not called"), index=0)
    for text in (failure_text(plan, result), brief(plan, result), headline(plan, result)):
        assert "mail.get [31m_odd" in text
        assert all(line.isprintable() for line in text.split("\n"))


def test_preconditions_and_criteria() -> None:
    plan = sample.plan()
    before = failure_text(plan, sample.failed(plan, Failure("PRECONDITION_NOT_MET", "no cart"), -1))
    assert before.splitlines()[0].endswith("failed: PRECONDITION_NOT_MET at a precondition: assert exists('#done')")
    assert before.splitlines()[2].startswith("  > pre  assert  exists('#done')")
    assert before.splitlines()[3].split()[:2] == ["0", "open"]
    after = failure_text(plan, sample.failed(plan, Failure("CRITERIA_UNMET", "no order"), 6))
    assert after.splitlines()[0].endswith("failed: CRITERIA_UNMET at the success criteria: assert exists('#done')")
    assert after.splitlines()[5].startswith("  > end  assert")


def test_the_code_comes_first_and_no_type_that_says_nothing() -> None:
    plan = sample.plan()
    failure = Failure("HTTP_CLIENT_ERROR", "404")
    assert headline(plan, sample.failed(plan, failure)) == (
        "B1-2025-001 failed: HTTP_CLIENT_ERROR at step 4 (of 0-5): wait .product-grid .product-item"
    )


@pytest.mark.parametrize("code", ["SERVICE_DOWN", "BROWSER_LAUNCH_FAILED", "INTERRUPTED"])
def test_before_anything_ran(code: str) -> None:
    plan = sample.plan()
    result = replace(sample.failed(plan, Failure(code, "no"), -1), history=())
    lines = failure_text(plan, result).splitlines()
    assert lines[0] == f"B1-2025-001 failed: {code} before the first step"
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "2"]
    assert all(line.endswith("not run") for line in lines[2:5])
    assert "FAILED" not in "\n".join(lines[1:])


def test_of_a_services_log_the_last_lines_are_shown() -> None:
    plan = sample.plan()
    log = [f'"GET /health HTTP/1.1" 200 - {number}' for number in range(15)]
    log += ["Traceback (most recent call last):", 'File "app.py", line 3', "RuntimeError: no database"]
    text = "service `desk` ended with exit code 1. The end of .harness/logs/desk.log:\n" + "\n".join(log)
    lines = failure_text(plan, sample.failed(plan, Failure("SERVICE_DOWN", text), -1)).splitlines()
    said = lines.index("  message: service `desk` ended with exit code 1. The end of .harness/logs/desk.log:")
    assert lines[said + 3 : said + 6] == [f"    | {line}" for line in log[-3:]]
    assert lines[said + 6] == "  suspect: project"
    assert lines[said + 7].startswith("  hint: See the end of its log")


def test_a_task_whose_process_died_says_nothing_of_its_steps() -> None:
    plan = sample.plan()
    result = replace(sample.failed(plan, Failure("WORKER_CRASHED", "its process died"), -1), history=())
    first, *lines = failure_text(plan, result).splitlines()
    assert first == "B1-2025-001 failed: WORKER_CRASHED at an unknown step"
    assert "not run" not in "\n".join(lines)


def test_a_precondition_that_could_not_be_looked_at() -> None:
    plan = sample.plan()
    lines = failure_text(plan, sample.failed(plan, Failure("CHANNEL_UNREADABLE", "no"), -1)).splitlines()
    assert lines[0] == "B1-2025-001 failed: CHANNEL_UNREADABLE at a precondition: assert exists('#done')"
    assert lines[2].startswith("  > pre  assert")


def test_incomplete() -> None:
    plan = sample.plan()
    failed = sample.failed(plan, Failure("INCOMPLETE", "memory_keys names 'k', which no step wrote"), 6)
    check = failed.history[-1].step
    tries = (sample.attempt(check, 1, 1, sample.WRONG_STATE), sample.attempt(check, 2, 1, remedy=Retry(1)))
    text = failure_text(plan, replace(failed, history=(*failed.history[:-1], StepRecord(6, check, tries))))
    lines = text.splitlines()
    assert lines[0] == "B1-2025-001 failed: INCOMPLETE at the end"
    assert lines[5].split() == [">", "end", "memory_keys,", "artifacts", "FAILED"]
    assert "Add a step that writes what `memory_keys` and `artifacts` name" in text
    assert "tried:" not in text


def test_a_step_shows_what_was_done() -> None:
    plan = sample.plan()
    declared, real = (sample.step(act="click", selector=f"#order-{name}") for name in ("${memory.a.b}", "7"))
    result = sample.failed(plan)
    record = StepRecord(4, declared, (sample.attempt(real, 2, 1, sample.TIMEOUT),))
    text = failure_text(plan, replace(result, history=(*result.history[:-1], record)))
    assert "click  #order-7" in text
    healed = StepRecord(4, plan.steps[1], (sample.attempt(real, 2, 1, sample.TIMEOUT),))
    assert "#order-7" not in failure_text(plan, replace(result, history=(*result.history[:-1], healed)))


def test_a_long_value_says_where_the_whole_is(tmp_path: Path) -> None:
    plan = sample.plan()
    where = "    (shortened; error_report.json has the whole text)"
    for long, shown in (("a" * 300, True), ("short", False)):
        failure = Failure("ASSERTION_FAILED", "no", assertion=Assertion("x", "e", long, ""))
        result = sample.failed(plan, failure, artifacts=tmp_path)
        assert (where in failure_text(plan, result).splitlines()) is shown
        assert (where.strip() in brief(plan, result)) is shown
    assertion = Assertion("x", "e\n" * 9, "a\n" * 9, difference("e\n" * 9, "a\n" * 9))
    failure = Failure("ASSERTION_FAILED", "no", assertion=assertion)
    assert where in failure_text(plan, sample.failed(plan, failure, artifacts=tmp_path))
    assert where not in failure_text(plan, sample.failed(plan, failure))


def test_artifacts_elsewhere_are_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    plan = sample.plan()
    text = failure_text(plan, sample.failed(plan, artifacts=tmp_path / "errors/B1"))
    assert text.endswith(f"\n  artifacts: {tmp_path}/errors/B1")


def test_secrets_of_a_task_inside_are_not_printed() -> None:
    plan = replace(sample.plan(), alternative=sample.plan(secrets=("inner-secret",)))
    result = sample.failed(plan, Failure("ACTION_FAILED", "the page says inner-secret"), 0)
    assert f"the page says {MARK}" in failure_text(plan, result)
    assert f"the page says {MARK}" in brief(plan, result)


def test_secrets_are_not_printed() -> None:
    steps = [{"act": "type", "selector": "#password", "value": "literal-pw"}]
    plan = sample.plan(steps=steps, secrets=("env-secret",))
    text = failure_text(
        plan,
        sample.failed(plan, Failure("ACTION_FAILED", "typed env-secret 1234"), 0),
        redactor=Redactor((), [r"\d{4}"]),
    )
    assert "literal-pw" not in text
    assert f"typed {MARK} {MARK}" in text


def test_a_task_that_did_not_fail() -> None:
    plan = sample.plan()
    assert headline(plan, sample.completed(plan)) == "B1-2025-001 completed after 3.2 s"


@given(st.integers(40, 200), st.integers(1, 30), st.integers(0, 200), st.integers(-1, 6))
def test_it_fits_a_screen(width: int, attempts: int, length: int, index: int) -> None:
    plan = sample.plan()
    diff = "\n".join(f"- line {n}" for n in range(40))
    failure = Failure("ASSERTION_FAILED", "word\n" * length, assertion=Assertion("x", "e\n" * 50, ["a"] * 90, diff))
    result = sample.failed(plan, failure, index, attempts, Path("errors/B1"))
    result = replace(result, warnings=tuple(Warning_("t", "m " * 90) for _ in range(9)))
    lines = failure_text(plan, result, width).splitlines()
    assert len(lines) <= 35
    assert max(len(line) for line in lines[1:-1]) <= max(width, 70)


@pytest.mark.parametrize("code", ["AGENT_FAILED", "AGENT_UNAVAILABLE", "MODEL_AUTH", "MODEL_CASSETTE_MISS"])
def test_an_agent_that_chose_nothing_fails_while_choosing(code: str) -> None:
    made = sample.plan(steps=(), agent="mine")
    text = failure_text(made, replace(sample.failed(made, Failure(code, "boom"), index=0), steps_total=0))
    assert text.splitlines()[0] == f"B1-2025-001 failed: {code} while choosing step 0"
    assert "the agent's choice" in text


def test_the_matches_of_an_ambiguous_selector_are_listed() -> None:
    made = sample.plan()
    found = Failure("SELECTOR_AMBIGUOUS", "a matches 4 elements", "a", {"matches": ["<a>1", "<a>2", "<a>3", "<a>4"]})
    lines = failure_text(made, sample.failed(made, found)).splitlines()
    place = lines.index("  matches:")
    assert lines[place + 1 : place + 5] == ["    <a>1", "    <a>2", "    <a>3", "    <a>4"]
    assert "the report lists" not in "\n".join(lines)


def test_the_limit_and_the_requests_without_an_answer_stand_below_the_cause() -> None:
    made = sample.plan()
    details = {"limit": "step_timeout 3 s", "unanswered": ["GET http://shop.local/api/cart"]}
    found = Failure("ELEMENT_COVERED", "#buy is covered by <div>", "#buy", details)
    lines = failure_text(made, sample.failed(made, found)).splitlines()
    place = lines.index("  message: #buy is covered by <div>")
    assert lines[place + 1 : place + 3] == [
        "  limit: step_timeout 3 s",
        "  no answer yet: GET http://shop.local/api/cart",
    ]
    assert "limit: step_timeout 3 s" in brief(made, sample.failed(made, found))


def test_faults_of_the_task_are_named() -> None:
    faults = (Hang(url="http://shop.local/*", seconds=2, step=4), Refuse(host="bank.local", connections=2))
    plan = sample.plan(faults=faults)
    placed = faults[0].with_source("t.task.yaml:9")
    met = (MetFault("refuse-0", faults[1], why="nobody asked"), MetFault("hang-1", placed, 1, (3.5,), steps=(4,)))
    result = replace(sample.failed(plan), faults=met)
    text = failure_text(plan, result)
    assert text.splitlines()[0].endswith(
        " at step 4 (of 0-5), after injected fault hang: wait .product-grid .product-item"
    )
    hang = "hang http://shop.local/* from step 4 on, seconds 2 (t.task.yaml:9): struck once in step 4 at 3.5 s"
    assert f"  faults injected:\n{textwrap.fill(hang, 98, initial_indent='    ', subsequent_indent='      ')}\n" in text
    assert "    refuse bank.local from step 0 on, connections 2: never struck: nobody asked\n" in text
    assert f"\ninjected fault: {hang}\n" in brief(plan, result)
    assert "hint: This failure follows an injected fault. To survive it, use `on_timeout`" in text
    report = error_report(plan, result, Context(), expected=False)
    assert [(each.id, each.where, each.struck, each.behind) for each in report.faults] == [
        ("refuse-0", "", 0, False), ("hang-1", "t.task.yaml:9", 1, True),
    ]  # fmt: skip
    assert report.hint in " ".join(text.split())
    declared = error_report(plan, result, Context(), expected=True)
    assert declared.hint == "This failure follows an injected fault, as the task declares: there is nothing to do."


def test_a_fault_that_could_not_be_done_is_what_failed() -> None:
    fault = Covered(id="lid", selector="a:b", step=1)
    plan = sample.plan(faults=(fault,))
    result = sample.failed(plan, Failure("INVALID_INPUT", "no such thing", advice="Mend the fault."), 1)
    untried = replace(result, history=result.history[:-1], faults=(MetFault("lid", fault, problem="no such thing"),))
    lines = failure_text(plan, untried).splitlines()
    assert lines[0].endswith("at step 1 (of 0-5), because injected fault lid could not be done")
    assert [line.split() for line in lines if line.startswith("  >")] == [
        [">", "1", "fault", "covered", "a:b", "from", "step", "1", "on", "FAILED"]
    ]
    assert "  hint: Mend the fault." in lines


def test_of_many_faults_those_that_the_failure_follows_come_first() -> None:
    faults = tuple(Refuse(id=f"f{number}", host="bank.local", connections=2) for number in range(5))
    plan = sample.plan(faults=faults)
    met = [MetFault(fault.id, fault, int(number > 1), (3.0,) * (number > 1)) for number, fault in enumerate(faults)]
    lines = failure_text(plan, replace(sample.failed(plan), faults=tuple(met))).splitlines()
    assert ", after injected faults f2, f3 and 1 more: " in lines[0]
    place = lines.index("  faults injected:")
    assert [line.split()[0] for line in lines[place + 1 : place + 5]] == ["f2", "f3", "f4", "..."]


def test_what_came_before_going_back_is_told_first() -> None:
    made = sample.plan()
    result = sample.failed(made)
    late = replace(result.history[-1], rewound=Rewound(2))
    text = failure_text(made, replace(result, history=(*result.history[:-1], late, result.history[-1])))
    tried = text[text.index("  tried:") :].splitlines()[1:4]
    assert [line.split(":")[0].strip() for line in tried] == [
        "ATTEMPT 1",
        "WENT BACK from step 4 to the checkpoint before step 2",
        "AFTER GOING BACK",
    ]


def test_values_are_shown_as_the_difference_writes_them() -> None:
    made = sample.plan()
    wrong = Failure("ASSERTION_FAILED", "wrong", assertion=Assertion("a == 1", True, None, "- true\n+ null"))
    text = failure_text(made, sample.failed(made, wrong))
    assert "  expected: true\n  actual:   null\n" in text
    assert "the diff" not in text
    assert "- true" not in text, "a difference of two short values is the two values"
    spaced = replace(wrong, assertion=Assertion("a == 'b  c'", "b  c", "b c", "- b  c\n+ b c"))
    assert "    - b  c\n    + b c\n" in failure_text(made, sample.failed(made, spaced))
    assert "- true" not in brief(made, sample.failed(made, wrong))


def test_what_fits_into_one_box_has_the_matches_and_the_page() -> None:
    plan = sample.plan()
    matches = [f"<a id=l{n}>" for n in range(9)]
    failure = Failure("SELECTOR_AMBIGUOUS", "a matches 9 elements", details={"matches": matches})
    lines = brief(plan, sample.failed(plan, failure)).splitlines()
    assert lines[2:8] == [*(f"match: {each}" for each in matches[:5]), "url: http://shop.local/search?q=mouse"]


def test_a_difference_goes_without_its_heading() -> None:
    plan = sample.plan()
    diff = difference({"a": 1}, {"a": 2})
    failure = Failure("ASSERTION_FAILED", "no", assertion=Assertion("x", {"a": 1}, {"a": 2}, diff))
    text = brief(plan, sample.failed(plan, failure))
    assert '- "a": 1\n+ "a": 2' in text
    assert "@@" not in text
    assert "+++" not in text


def test_of_several_criteria_the_value_of_the_first_stands_once() -> None:
    plan = sample.plan()
    first = unmet("value('#a') == 'x'", "value('#a') is 'kept', expected 'x'", "x", "kept", plain=True)
    other = "Assertion failed: count('.row') == 3: count('.row') is 2, expected 3"
    both = replace(first, message=f"{first.message}; {other}", details={**first.details, "also_unmet": [other]})
    text = failure_text(plan, sample.failed(plan, both, 6))
    assert text.count("kept") == 1
    assert "  also unmet:\n    count('.row') == 3: count('.row') is 2, expected 3\n" in text


def unmet(criterion: str, why: str, expected: Any, actual: Any, *, plain: bool) -> Failure:
    assertion = Assertion(criterion, expected, actual, "", why if plain else "")
    message = f"Assertion failed: {criterion}: {why}"
    return Failure("CRITERIA_UNMET", message, details={"criterion": criterion}, assertion=assertion)


def test_a_criterion_stands_first_and_its_values_once() -> None:
    plan, criterion = sample.plan(), "text('#grid') includes 'M999'"
    why = "text('#grid') is 'M185 Mouse', expected to include 'M999'"
    text = failure_text(plan, sample.failed(plan, unmet(criterion, why, "M999", "M185\nMouse", plain=True), 6))
    assert text.splitlines()[0] == f"B1-2025-001 failed: CRITERIA_UNMET at the success criteria: {criterion}"
    assert "message:" not in text
    assert "  expected: to include M999\n  actual:   M185 Mouse\n" in text
    assert text.count("M185") == 1


def test_of_several_criteria_each_is_told_once_and_in_the_same_words() -> None:
    plan = sample.plan()
    first, second = "count('.ticket') == 3", "text('#who') == 'ann'"
    why, other = "count('.ticket') is 2, expected 3", "text('#who') is 'bob', expected 'ann'"
    also = f"Assertion failed: {second}: {other}"
    details = {"criterion": first, "also_unmet": [also], "unmet_criteria": [first, second]}
    message = f"Assertion failed: {first}: {why}; {also}"
    assertion = Assertion(first, 3, 2, "", why)
    result = sample.failed(plan, Failure("CRITERIA_UNMET", message, details=details, assertion=assertion), 6)
    text = failure_text(plan, result)
    assert "  expected: 3\n  actual:   2\n" in text
    assert f"  also unmet:\n    {other}\n" in text
    assert "message:" not in text
    assert f"\nalso unmet: {other}" in brief(plan, result)


def test_what_the_values_do_not_say_is_still_told() -> None:
    plan, criterion = sample.plan(), "text('#grid') == 'x'"
    why = "text('#grid') is missing (no element matches '#grid'), expected 'x'"
    text = failure_text(plan, sample.failed(plan, unmet(criterion, why, "x", None, plain=False), 6))
    assert f"  message: {why}\n" in text
    more = replace(unmet(criterion, "it is 'y'", "x", "y", plain=True), message="Assertion failed: c: no; and d: no")
    assert "and d: no" in failure_text(plan, sample.failed(plan, more, 6))


def test_a_click_that_was_retried_as_a_navigation_says_so() -> None:
    plan = sample.plan()
    click, opened = sample.step(act="click", selector="#slow"), sample.step(act="open", url="http://a.test/slow")
    tries = (sample.attempt(click, 1, 1, sample.TIMEOUT), sample.attempt(opened, 3, 1, sample.TIMEOUT, Retry(1)))
    result = sample.failed(plan, attempts=2)
    text = failure_text(plan, replace(result, history=(*result.history[:-1], StepRecord(4, click, tries))))
    assert "click  #slow (retried by opening http://a.test/slow)" in text
    assert "RETRY (after 1s) by opening http://a.test/slow: FAILED" in text


def test_what_each_attempt_says_to_the_console_stands_once() -> None:
    assert fold_lines(["a", "b", "a", "a"]) == ("b", "a (3 times)")
    assert fold_lines([*["x" * 200] * 2, "y"], 40) == ("x" * 29 + "… (2 times)", "y")


def test_what_only_groups_the_console_is_in_the_files_alone() -> None:
    noise = [
        f"[{kind}] x (http://a.test/:1)" for kind in ("STARTGROUP", "STARTGROUPCOLLAPSED", "ENDGROUP", "TABLE", "CLEAR")
    ]
    told = ["[ERROR] [TABLE] x", "[LOG] console.groupEnd", "[DIR] {a: 1}"]
    assert [*told_lines([*noise, *told])] == told
    plan = sample.plan()
    result = sample.failed(plan)
    assert result.error is not None
    context = result.error.context.model_copy(update={"browser_console_logs": (*noise, *told)})
    shown = failure_text(plan, replace(result, error=result.error.model_copy(update={"context": context})))
    assert "[DIR] {a: 1}" in shown
    assert "GROUP]" not in shown


def test_of_a_long_list_the_rest_is_counted_below_it() -> None:
    made = sample.plan()
    result = sample.failed(made)
    shown = Context(vanished_texts=["Saving", "Saved", "Retrying", "Failed"])
    result = replace(result, error=error_report(made, result, shown, expected=False))
    lines = failure_text(made, result).splitlines()
    place = lines.index("  shown for a moment:")
    assert lines[place + 1 : place + 4] == ["    Saving", "    Saved", "    ... 2 more"]
