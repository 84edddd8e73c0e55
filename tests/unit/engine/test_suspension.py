"""A suspended task: its deadline moves, and what cannot be opened again as it was is told."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.engine.checkpoints import resume, suspend
from harness.engine.result import suspension_warnings
from harness.engine.run import Run, Suspension, TaskJournal
from harness.model.record import Sent, StepRecord, TaskResult
from harness.model.settings import Settings
from harness.recovery.failure import Failed, Failure
from harness.spec.loaded import Loaded
from harness.spec.source import Origin
from harness.spec.steps import Step, Submit
from harness.spec.task import TaskSpec
from tests.unit.fakes import Theatre

GONE = Failure("NET_CONNECTION_REFUSED", "nothing listens there")


ORDER = "http://shop.test/order"


class FakeSession:
    """A browser session with one page."""

    url = ORDER
    held = False

    def __init__(self, *, posted: bool = False, answer: tuple[str, ...] | Failure = ()) -> None:
        self.saved = SimpleNamespace(url=ORDER, addresses=(ORDER,), posted=posted)
        self.answer = answer
        self.restored: list[Any] = []

    async def hold(self) -> bool:
        self.held = True
        return True

    async def release(self) -> None:
        self.held = False

    def take_sent(self) -> tuple[Sent, ...]:
        return ()

    async def save(self, _: float) -> Any:
        assert self.held  # what it sends after it was saved would be sent again
        if self.saved is None:
            raise Failed(Failure("PAGE_UNRESPONSIVE", "it cannot be read"))
        return self.saved

    async def restore(self, saved: Any, _: float, **__: Any) -> tuple[str, ...] | Failure:
        self.restored.append(saved)
        return () if saved is None else self.answer


def run_on(session: FakeSession) -> Run:
    world = SimpleNamespace(entries=dict)
    made = SimpleNamespace(
        stage=SimpleNamespace(session=session, world=world), journal=TaskJournal(), left=60.0, stretch=1.0,
        plan=SimpleNamespace(step_timeout=10.0),
    )  # fmt: skip
    return cast("Run", made)


@pytest.mark.parametrize(("posted", "told"), [(False, ["a line"]), (True, ["a line", "the answer to a form"])])
def test_what_is_not_as_before_is_told(told: list[str], *, posted: bool) -> None:
    session = FakeSession(posted=posted, answer=("a line",))
    run = run_on(session)
    saved = asyncio.run(suspend(run))
    assert session.restored == [None]  # its pages are closed
    lines = asyncio.run(resume(run, saved))
    assert [part in line for part, line in zip(told, lines, strict=True)] == [True] * len(told)
    assert session.restored == [None, saved]


def test_a_page_that_a_write_produced_is_not_asked_for_again() -> None:
    session = FakeSession()
    run = run_on(session)
    act = cast("Step", Submit(selector="#pay"))
    run.journal.trace.append(StepRecord(3, act, (), sent=(Sent("POST", ORDER, page=True),)))
    (line,) = asyncio.run(resume(run, asyncio.run(suspend(run))))
    assert line.startswith("no page was opened again: step 3")
    assert session.restored == [None]


def test_pages_that_cannot_be_saved_go_on() -> None:
    session = FakeSession()
    session.saved = None
    with pytest.raises(Failed, match="cannot be read"):
        asyncio.run(suspend(run_on(session)))
    assert not session.held


def test_a_site_that_does_not_answer_leaves_the_task_suspended() -> None:
    session = FakeSession(answer=GONE)
    run = run_on(session)
    with pytest.raises(Failed, match="nothing listens"):
        asyncio.run(resume(run, asyncio.run(suspend(run))))


def test_the_seconds_are_not_the_tasks_and_differences_are_warnings() -> None:
    journal = TaskJournal(suspensions=[Suspension(2, 30.0, ()), Suspension(4, 12.5, ("field #q: 'x' before, '' now",))])
    assert journal.suspended == 42.5
    (warning,) = suspension_warnings(journal.suspensions)
    assert (warning.type, warning.step_index) == ("restore_incomplete", 4)
    assert "1 difference after the pause before step 4: field #q" in warning.message


def test_a_field_that_must_not_be_filled_again_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the session could never go on: the answer would be the same each time."""

    async def refusal(*_: Any) -> str:
        return "step 1 is a write"

    monkeypatch.setattr("harness.engine.checkpoints.refill_refusal", refusal)
    session = FakeSession(answer=Failure("OUTCOME_UNKNOWN", "#a would have to be filled again, but step 1 is a write"))
    run = run_on(session)
    (line,) = asyncio.run(resume(run, asyncio.run(suspend(run))))
    assert line.startswith("#a would have to be filled again")


class Pausing:
    """An agent that pauses its task for some seconds, and goes on after that many failures; None: never."""

    def __init__(self, theatre: Theatre, seconds: float, failures: int | None) -> None:
        self.theatre = theatre
        self.seconds = seconds
        self.failures = failures
        self.fails = False
        """Whether it gives up first, so that the alternative task is run."""
        self.left: list[float] = []

    async def propose(self, plan: Any, history: Any, observe: Any) -> Any:
        if self.fails:
            self.fails = False
            raise Failed(Failure("AGENT_GAVE_UP", "too hard"))
        again = await observe.suspend()
        failures = [GONE] * (self.failures or 0)
        self.theatre.session.restoring = [*failures, ()]
        for _ in range(1 if self.failures is None else self.failures + 1):
            self.theatre.clock.time += self.seconds
            if self.failures is None:
                raise Failed(Failure("AGENT_LOST", "it has closed its session"))
            with suppress(Failed):
                await again()
        self.left.append((await observe()).left["seconds"])

    def begin(self, **spec: Any) -> TaskResult:
        self.theatre.agent, self.theatre.settings = self, Settings(agent="told")
        return asyncio.run(self.theatre.play(steps=[], timeout=60, **spec))


@pytest.mark.parametrize(("failures", "seconds"), [(0, 1000), (2, 3000), (None, 1000)])
def test_no_pause_is_the_tasks_time_even_if_it_does_not_end(failures: int | None, seconds: float) -> None:
    agent = Pausing(Theatre(), 1000, failures)
    result = agent.begin()
    assert result.final_state == ("failed" if failures is None else "completed")
    assert 0 <= result.elapsed < 20
    assert result.suspended == pytest.approx(seconds, abs=20)
    assert all(left > 40 for left in agent.left)


def test_a_pause_in_a_task_inside_another_one_is_not_the_others_time() -> None:
    theatre = Theatre()
    other = Loaded(TaskSpec.model_validate({"task_id": "OTHER", "steps": []}), Path("o"), Origin("o"))
    theatre.find = {"OTHER": other}.get
    agent = Pausing(theatre, 1000, 0)
    agent.fails = True
    result = agent.begin(fallback_plan={"enabled": True, "alternative_task_id": "OTHER"})
    assert result.alternative is not None
    assert result.alternative.ok
    assert 0 <= result.elapsed < 20
