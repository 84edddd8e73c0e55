"""The calls of tools in the text of a failure, in harness show, in the kept files and in Allure."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.cli.failures import read_kept
from harness.cli.show import page
from harness.model.diagnosis import error_report
from harness.model.record import TaskResult
from harness.model.report import Context
from harness.recovery.failure import Failure
from harness.reporting.allure.sink import AllureSink
from harness.reporting.archive import trace_json
from harness.reporting.redaction import MARK, Redactor, kept_call
from harness.reporting.task_record import task_record
from harness.reporting.telling import story_of
from harness.reporting.tool_lines import call_lines
from harness.reporting.words import target_text
from harness.values import replace
from tests.unit.model.test_tool_use import CALL, ERROR, LOST
from tests.unit.reporting import sample
from tests.unit.reporting.sample import failure_text
from tests.unit.reporting.test_allure_sink import Allure
from tests.unit.reporting.test_allure_sink import allure as allure  # noqa: PLC0414 - a fixture
from tests.unit.reporting.test_artifacts import archive, keep

ARGUMENTS = {"to": "ann@shop.local", "password": "swordfish-9", "order": {"api_key": "key-of-ann", "lines": [1]}}
STEPS = (
    {"act": "open", "url": "http://shop.local/"},
    {"act": "tool", "server": "mail", "tool": "get_code", "arguments": ARGUMENTS},
)
PLAN = sample.plan(steps=STEPS, secrets=("hunter2",))


def failed(*calls: Any, code: str = "TOOL_UNAVAILABLE") -> TaskResult:
    result = sample.failed(PLAN, Failure(code, f"Tool `mail.get_code`: {code}"), 1)
    attempt = result.history[1].attempts[0]
    made = tuple(replace(each, at=attempt.started, arguments=ARGUMENTS) for each in calls)
    result = replace(result, tool_calls=made)
    return replace(result, error=error_report(PLAN, result, Context(), expected=False))


def test_a_failure_says_what_was_sent_and_what_came_back() -> None:
    text = failure_text(PLAN, failed(replace(LOST, stderr="\n".join(f"line {n} hunter2" for n in range(9)))))
    assert 'tool: mail.get_code {"to": "ann@shop.local", "password": "[redacted]"' in text
    assert "read, no answer after 4 tries in 3.6 s (TOOL_UNAVAILABLE)" in text
    assert "its process ended with exit code 3, its log:" in text
    assert "| line 8 [redacted]" in text
    assert "line 3" not in text
    assert all(secret not in text for secret in ("hunter2", "swordfish-9", "key-of-ann"))
    assert max(map(len, text.splitlines()[1:])) <= 100
    assert len(text.splitlines()) <= 35


def test_a_call_in_words() -> None:
    assert [*call_lines({**call(CALL), "effect": "read"})] == [
        'mail.get_code {"to": "ann@shop.local"}',
        "  read, answered in 0.2 s:",
        '  {"code": "123456"}',
    ]
    assert [*call_lines(call(ERROR))][1:] == ["  read, answered that it failed in 0.2 s:", "  no such mail"]
    refused = replace(LOST, tries=0, exit_code=None, stderr="", code="TOOL_INVALID")
    assert [*call_lines(call(refused))][1:] == ["  read, not sent (TOOL_INVALID)"]
    cut = [*call_lines({**call(CALL), "result": "xx", "result_cut_from": 99})][-1]
    assert cut == "  xx (cut: it has 99 characters)"


def call(of: Any) -> dict[str, Any]:
    from harness.model.tool_evidence import call_document

    return call_document(of)


def test_the_kept_report_and_trace_have_the_call(tmp_path: Path) -> None:
    told = replace(
        ERROR, result={"text": "hunter2 is wrong", "token": "tkn-1", "pages": [{"pin": 1234}, {"pin": None}]}
    )
    folder = keep(archive(tmp_path), PLAN, result=failed(told, code="TOOL_FAILED"))
    kept = "".join(path.read_text("utf-8") for path in folder.glob("*.json"))
    assert all(secret not in kept for secret in ("hunter2", "swordfish-9", "key-of-ann", "tkn-1", "1234,"))
    report = json.loads((folder / "error_report.json").read_text("utf-8"))
    assert report["tool_error"]["type"] == "tool_error"
    assert report["tool_error"]["payload"]["arguments"]["password"] == MARK
    assert report["tools"]["mail"]["get_code"]["errors"] == report["tools_total"]["errors"] == 1
    assert (report["tool_calls"][0]["id"], report["tool_calls"][0]["step"]) == ("tool-2", 1)
    assert report["step"]["arguments"]["order"] == {"api_key": MARK, "lines": [1]}
    trace = json.loads((folder / "partial_trace.json").read_text("utf-8"))
    (called,) = trace["steps"][1]["tool_calls"]
    assert called["result"]["pages"] == [{"pin": MARK}, {"pin": None}]
    assert called["arguments"]["to"] == "ann@shop.local"
    shown = page(read_kept(folder))
    assert "  tool: mail.get_code {" in shown
    assert "  tools: 1 call, 1 answered with an error\n" in shown
    assert "read, answered that it failed in 0.2 s:" in shown


def test_a_task_without_tools_has_nothing_of_them(tmp_path: Path) -> None:
    folder = keep(archive(tmp_path), sample.plan())
    assert {"tools", "tools_total", "tool_calls", "tool_error"}.isdisjoint(
        json.loads((folder / "error_report.json").read_text("utf-8"))
    )
    assert "tool_calls" not in (folder / "partial_trace.json").read_text("utf-8")


def test_harness_show_names_the_tool_of_a_step() -> None:
    assert (
        target_text({"act": "tool", "server": "mail", "tool": "get_code", "arguments": {"n": 1}})
        == 'mail.get_code {"n": 1}'
    )
    assert target_text({"act": "tool", "server": "page", "tool": "search"}) == "page.search"


def test_a_passing_task_has_the_call_in_its_trace_and_record() -> None:
    result = replace(sample.completed(PLAN), tool_calls=(CALL, replace(LOST, step=None)))
    document = trace_json(result, Redactor())
    assert document["steps"][1]["tool_calls"][0]["result"] == {"code": "123456"}
    assert "tool_calls" not in document["steps"][0]
    record = task_record(story_of(PLAN, result))
    assert (record.called.calls, record.called.failed) == (2, 1)
    assert record.steps[1].target.startswith('mail.get_code {"to": ')


def test_a_secret_in_a_long_result_is_not_cut_in_two() -> None:
    whole = "x" * 16_380 + "super-secret-token-of-ann" + "y" * 10**6
    document = kept_call(call(replace(CALL, result=whole)), Redactor(["super-secret-token-of-ann"]))
    assert "sup" not in json.dumps(document)


def test_allure_has_each_call_with_its_document(allure: Allure) -> None:
    AllureSink().finish(*sample.told(PLAN, failed(CALL, replace(LOST, step=None))))
    own = allure.test.steps[-1] if allure.test.steps[-1].steps else allure.test.steps[-2]
    (below,) = own.steps
    assert below.name == "mail.get_code: answered in 0.2 s"
    attached = below.attachments[0]
    assert (attached.name, attached.type) == ("mail.get_code", "application/json")
    document = json.loads(str(allure.files.attachments[attached.source]))
    assert (document["result"], document["arguments"]["password"]) == ({"code": "123456"}, MARK)
    names = {step.name: step for step in allure.test.steps}
    of_channel = names["mail.get_code: TOOL_UNAVAILABLE in 3.6 s, 4 tries: it was lost"]
    assert of_channel.status == "broken"
    values = {each.name: each.value for each in allure.test.parameters}
    assert (values["tool calls"], values["tool failures"]) == ("2", "1")
    assert [label.value for label in allure.test.labels if label.name == "tool"] == ["mail.get_code"]


def test_allure_has_the_calls_of_repair_and_alternative_tasks_below_their_steps(allure: Allure) -> None:
    other = sample.plan(task_id="OTHER", steps=STEPS, secrets=("secret-of-other",))
    during = replace(CALL, at=sample.START + timedelta(seconds=0.6), result={"text": "it is secret-of-other"})
    inner = replace(
        sample.completed(other), tool_calls=(during, replace(LOST, step=None, at=sample.START + timedelta(seconds=0.2)))
    )
    plan = sample.plan(alternative=other)
    AllureSink().finish(*sample.told(plan, replace(sample.failed(plan), inner=(inner,), alternative=inner)))
    for task in (allure.test.steps[0], allure.test.steps[-1]):
        own = {step.name.split(":")[0].split()[0]: step for step in task.steps}
        assert [*own] == ["0.", "mail.get_code", "1."]
        (below,) = own["1."].steps
        assert below.name == "mail.get_code: answered in 0.2 s"
        document = json.loads(str(allure.files.attachments[below.attachments[0].source]))
        assert document["result"] == {"text": f"it is {MARK}"}


def test_a_call_that_was_refused_had_an_answer() -> None:
    unknown = replace(CALL, outcome="failed", code="TOOL_UNKNOWN", result=None)
    assert "  read, refused in 0.2 s (TOOL_UNKNOWN)" in [*call_lines({**call(unknown), "effect": "read"})]
