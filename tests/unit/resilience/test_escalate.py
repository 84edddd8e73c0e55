"""Escalation: told at 2, 5 and 30 s; the caller gives up, the work goes on, its answer is kept for a time."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from harness.resilience import escalate as stores
from harness.resilience.escalate import Expired, LateAnswer, PendingWork, StillRunning, WorkStatus, escalate
from harness.resilience.events import Escalated
from harness.resilience.verdict import classify
from tests.unit.resilience.virtual import Scripted, Story, now, play

pytestmark = pytest.mark.fake_clock


def test_the_stages_of_specs_000_are_told_and_the_last_one_gives_up() -> None:
    async def main() -> tuple[float, StillRunning[Any]]:
        with pytest.raises(StillRunning, match=r"audit has not answered in 30 s; it goes on as audit-1") as caught:
            await escalate(name="audit", emit=story)(Scripted([40.0]))()
        return now(), caught.value

    story = Story()
    when, error = play(main())
    assert when == 30
    assert isinstance(error, TimeoutError)
    assert (error.operation, error.waited) == ("audit", 30)
    assert story.events == [Escalated("audit", 2, 5), Escalated("audit", 5, 30), Escalated("audit", 30, None)]


@pytest.mark.parametrize(("takes", "told"), [(1.9, 0), (2.5, 1), (10.0, 2), (29.9, 2)])
def test_an_answer_before_the_end_is_given_whatever_was_told(takes: float, told: int) -> None:
    async def main() -> tuple[Any, float]:
        return await escalate(emit=story)(Scripted([takes]))(), now()

    story = Story()
    assert play(main()) == (takes, takes)
    assert len(story.events) == told


def test_an_answer_at_once_is_given() -> None:
    assert play(escalate()(Scripted(["now"]))()) == "now"


@pytest.mark.parametrize("takes", [0.0, 3.0])
def test_an_error_of_the_call_is_raised_as_it_is(takes: float) -> None:
    error = ValueError("no")

    async def call() -> None:
        await asyncio.sleep(takes)
        raise error

    with pytest.raises(ValueError, match="no") as caught:
        play(escalate()(call)())
    assert caught.value is error


async def test_the_work_goes_on_and_its_answer_is_kept() -> None:
    with pytest.raises(StillRunning) as caught:
        await escalate()(Scripted([40.0]))()
    answer = caught.value.answer
    assert (answer.status, answer.hint[:15]) == (WorkStatus.TIMEOUT, "The work still ")
    with pytest.raises(asyncio.InvalidStateError):
        answer.result()
    assert await answer == 40.0
    assert now() == 40
    assert (answer.status, answer.hint, answer.result()) == (WorkStatus.COMPLETE, "", 40.0)


async def test_an_answer_is_kept_thirty_seconds_and_expired_is_not_unknown() -> None:
    store = PendingWork()
    with pytest.raises(StillRunning) as caught:
        await escalate((2,), pending=store)(Scripted([5.0]))()
    kept = store.find(caught.value.answer.id)
    assert kept is caught.value.answer
    await asyncio.sleep(5 - 2 + 29.9)
    assert (kept.status, kept.result()) == (WorkStatus.COMPLETE, 5.0)
    await asyncio.sleep(0.2)
    assert (kept.status, kept.hint) == (WorkStatus.EXPIRED, "The answer is lost: do the work again.")
    with pytest.raises(Expired, match="call-1: the answer was not fetched in time"):
        kept.result()
    with pytest.raises(Expired):
        await kept
    assert store.find("call-1") is kept
    assert store.find("call-2") is None


async def test_work_that_is_begun_and_asked_for_later() -> None:
    """Pending at once, complete or timeout after 30 s, expired 30 s after it ended."""
    store = PendingWork()
    quick, slow = store.start(Scripted([10.0]), "quick"), store.start(Scripted([50.0]), "slow")
    assert (quick.id, quick.status, quick.hint) == (
        "quick-1",
        WorkStatus.PENDING,
        "Still processing: wait and ask again.",
    )
    await asyncio.sleep(29)
    assert (quick.status, slow.status) == (WorkStatus.COMPLETE, WorkStatus.PENDING)
    await asyncio.sleep(1)
    assert slow.status is WorkStatus.TIMEOUT
    await asyncio.sleep(30)
    assert (quick.status, slow.status) == (WorkStatus.EXPIRED, WorkStatus.COMPLETE)


def test_work_that_fails_unheard_makes_no_noise() -> None:
    async def fail() -> None:
        await asyncio.sleep(5)
        raise ValueError("too late")

    async def main() -> None:
        with pytest.raises(StillRunning) as caught:
            await escalate((2,))(fail)()
        answer: LateAnswer[Any] = caught.value.answer
        await asyncio.sleep(10)
        assert answer.status is WorkStatus.ERROR
        with pytest.raises(ValueError, match="too late"):
            answer.result()
        del answer, caught
        await asyncio.sleep(60)
        gc.collect()

    play(main())


@pytest.mark.parametrize("after", [0.0, 1.0, 2.0, 4.0])
def test_cancelling_who_waits_cancels_the_work_and_waits_for_its_end(after: float) -> None:
    seen: list[float] = []

    async def call() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(1)
            seen.append(now())

    async def main() -> None:
        task = asyncio.create_task(escalate()(call)())
        await asyncio.sleep(after)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task

    play(main())
    assert seen == [after + 1]


@pytest.mark.parametrize("ending", ["answers", "fails"])
def test_a_cancellation_is_not_lost_when_the_work_ends_another_way(ending: str) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if ending == "fails":
                raise ValueError("while clearing up") from None
        return "all the same"

    async def main() -> None:
        task = asyncio.create_task(escalate()(stubborn)())
        await asyncio.sleep(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gc.collect()

    play(main())


def test_after_the_end_nothing_of_the_caller_reaches_the_work() -> None:
    async def caller() -> None:
        try:
            await escalate((2,), pending=store)(Scripted([10.0]))()
        except StillRunning as error:
            await error.answer

    store = PendingWork()

    async def main() -> None:
        task = asyncio.create_task(caller())
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answer = store.find("call-1")
        assert answer is not None
        assert await answer == 10.0

    play(main())


async def test_work_that_never_ends_is_ended_by_hand_or_by_closing_the_store() -> None:
    store = PendingWork()
    one, two = store.start(asyncio.Event().wait), store.start(asyncio.Event().wait)
    await asyncio.sleep(40)
    assert (one.status, two.status) == (WorkStatus.TIMEOUT, WorkStatus.TIMEOUT)
    one.cancel()
    await asyncio.sleep(0.1)
    assert (one.status, two.status) == (WorkStatus.ERROR, WorkStatus.TIMEOUT)
    await store.close()
    assert two.status is WorkStatus.ERROR
    await store.close()
    await asyncio.sleep(31)
    one.cancel()
    assert one.status is WorkStatus.EXPIRED


async def test_the_expired_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "TOMBSTONES", 3)
    store = PendingWork(kept=1)
    answers = [store.start(Scripted([0.5])) for _ in range(5)]
    await asyncio.sleep(2)
    assert {answer.status for answer in answers} == {WorkStatus.EXPIRED}
    assert [store.find(answer.id) is not None for answer in answers] == [False, False, True, True, True]


async def test_it_is_not_retried_since_the_work_would_be_done_twice() -> None:
    with pytest.raises(StillRunning) as caught:
        await escalate()(Scripted([40.0]))()
    assert not classify(caught.value).retryable


@pytest.mark.parametrize("stages", [(), (0,), (-1, 2), (2, 2), (5, 2), (float("nan"),)])
def test_stages_that_do_not_rise_are_refused(stages: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="stages of audit: expected rising seconds"):
        escalate(stages, name="audit")
