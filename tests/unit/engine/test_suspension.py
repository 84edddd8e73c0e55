"""A suspended task: its deadline moves, and what cannot be opened again as it was is told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.engine.checkpoints import resume, suspend
from harness.engine.result import suspension_warnings
from harness.engine.run import Run, Suspension, TaskJournal
from harness.recovery.failure import Failed, Failure

GONE = Failure("NET_CONNECTION_REFUSED", "nothing listens there")


class FakeSession:
    """A browser session with one page."""

    def __init__(self, *, posted: bool = False, answer: tuple[str, ...] | Failure = ()) -> None:
        self.saved = SimpleNamespace(url="http://shop.test/order", posted=posted)
        self.answer = answer
        self.restored: list[Any] = []

    async def save(self, _: float) -> Any:
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
