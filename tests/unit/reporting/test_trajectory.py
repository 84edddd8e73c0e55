"""The trajectory of an agent: which requests to models led to which proposal."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from harness.model.inference import ModelCall, Usage
from harness.model.record import Attempt, StepRecord
from harness.model.settings import Settings
from harness.recovery.failure import Failure, Passed
from harness.reporting.agent_way import MOST_CHOICES, way_page, way_text
from harness.reporting.attachments import on_test
from harness.reporting.redaction import MARK, Redactor
from harness.reporting.telling import story_of
from harness.reporting.trajectory import Trajectories, read
from harness.spec.steps import Tool
from harness.values import replace
from tests.unit.reporting import sample


def trajectories(root: Path) -> Trajectories:
    return Trajectories(Settings(root=root, history_runs=1, keep_previous=1), "run", Redactor())


def at(seconds: float) -> datetime:
    return sample.START + timedelta(seconds=seconds)


def test_each_request_belongs_to_the_proposal_that_followed_it(tmp_path: Path) -> None:
    """Two proposals were refused, so three records have the same index."""
    plan = sample.plan()
    step, refused = plan.steps[0], Failure("AGENT_INVALID_STEP", "no step")
    outcomes = ((1.0, refused), (2.0, refused), (3.0, Passed()))
    history = tuple(
        StepRecord(0, step, (Attempt(step, seconds, 0.1, at(seconds), outcome),), agent="builder")
        for seconds, outcome in outcomes
    )
    calls = tuple(
        ModelCall("builder", "m", "openai", "m-1", 0, 1, at(seconds), 0.3, None, Usage(), None, "answered")
        for seconds in (0.2, 0.6, 1.5, 2.5)
    )
    result = replace(sample.completed(plan, history), model_calls=calls)
    file = trajectories(tmp_path).keep(plan, result)
    assert [tuple(call.at for call in each.asked) for each in read(file).steps] == [
        (at(0.2), at(0.6)), (at(1.5),), (at(2.5),),
    ]  # fmt: skip


def test_a_report_shows_the_way_as_a_table(tmp_path: Path) -> None:
    plan = sample.plan()
    step, refused = plan.steps[0], Failure("AGENT_INVALID_STEP", "no <b>step</b>\x1b[31m")
    history = tuple(
        StepRecord(0, step, (Attempt(step, seconds, 0.1, at(seconds), outcome),), agent="builder")
        for seconds, outcome in ((1.0, refused), (3.5, Passed()))
    )
    call = ModelCall("builder", "m", "openai", "m-1", 0, 1, at(0.2), 0.3, None, Usage(100, 7), None, "answered")
    (tmp_path / "errors").mkdir()
    result = replace(sample.completed(plan, history), model_calls=(call,), artifacts=tmp_path / "errors")
    trajectories(tmp_path).keep(plan, result)
    (page,) = (each.data for each in on_test(story_of(plan, result)) if each.name == "agent's way")
    assert page.count("<tr") == 3, "the head and a row for each choice"
    assert '<tr class="bad">' in page
    assert "failed: AGENT_INVALID_STEP: no &lt;b&gt;step&lt;/b&gt;" in page
    assert "\x1b" not in page
    assert '<td class="n m">2.5 s</td>' in page
    assert "<div>asked m: 0.3 s, 100/7 tokens, unpriced</div>" in page


def test_a_long_way_ends_with_its_last_choices(tmp_path: Path) -> None:
    plan = sample.plan()
    step, count = plan.steps[0], MOST_CHOICES + 2
    history = tuple(
        StepRecord(number, step, (Attempt(step, number, 0.1, at(number), Passed()),), agent="builder")
        for number in range(count)
    )
    file = trajectories(tmp_path).keep(plan, sample.completed(plan, history))
    page = way_page(read(file)) or ""
    assert f"{count} choices, the last {MOST_CHOICES} of them shown" in page
    assert page.count("<tr") == 1 + MOST_CHOICES


def test_a_call_of_a_tool_is_a_step_with_its_answer(tmp_path: Path) -> None:
    plan = replace(sample.plan(), known_secrets=("s3cr3t-value",))
    step = Tool(server="shop", tool="get_order", arguments={"id": "O-1", "key": "s3cr3t-value"}, effect="read")
    answer = Passed({"result": {"status": "paid", "key": "s3cr3t-value"}})
    history = (
        StepRecord(0, step, (Attempt(step, 0.0, 0.1, at(1.0), answer),), agent="builder"),
        StepRecord(1, plan.steps[0], (Attempt(plan.steps[0], 2.0, 0.1, at(2.0), Passed({"result": 1})),), agent="b"),
    )
    file = trajectories(tmp_path).keep(plan, sample.completed(plan, history))
    assert "s3cr3t-value" not in file.read_text("utf-8")
    found, other = read(file).steps
    assert found.step == {
        "act": "tool",
        "server": "shop",
        "tool": "get_order",
        "arguments": {"id": "O-1", "key": MARK},
        "effect": "read",
    }
    assert (found.answer, other.answer) == (f'{{"status": "paid", "key": "{MARK}"}}', "")
    lines = way_text(read(file), 200).splitlines()
    assert f'builder: tool shop.get_order {{"id": "O-1", "key": "{MARK}"}} (read) -> passed (0.1 s)' in lines[1]
    assert lines[2].strip() == f'answered {{"status": "paid", "key": "{MARK}"}}'
