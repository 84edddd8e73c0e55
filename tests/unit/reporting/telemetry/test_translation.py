"""What the engine says of whole runs, in the words of resilience."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from harness.engine.agent import INVALID_IN_A_ROW
from harness.model.events import AttemptEnded, Event, RemedyChosen, StepEnded, StepStarted, TaskEnded, TaskStarted
from harness.model.plan import Plan
from harness.model.record import StepRecord, TaskResult, Warning_
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Rulebook, Skip, Substitute, Trust
from harness.recovery.failure import Failure
from harness.reporting.telemetry.record import StepDone, TaskDone
from harness.reporting.telemetry.stream import PROPOSALS, Translator, origin
from harness.resilience.events import Degraded, FellBack, GaveUp, Recovered, Retrying, Waiting
from tests.unit.reporting import sample

REFUSED = Failure("NET_CONNECTION_REFUSED", "connection refused")
ABSENT = Failure("ELEMENT_NOT_FOUND", "nothing matches #a", "#a")
PLAN = sample.plan()
OPEN, CLICK = "open http://shop.local/", "click #search-box"


def told(*events: Event, steps: bool = False) -> list[Any]:
    translator = Translator(steps=steps)
    return [event for each in events for _, event in translator.translate(each)]


def begun(index: int = 0) -> tuple[Event, ...]:
    return (TaskStarted(PLAN, sample.START), StepStarted(PLAN, index, PLAN.steps[index], sample.START))


def tried(t: float, outcome: Failure | None = None, index: int = 0, plan: Plan = PLAN) -> Event:
    return AttemptEnded(plan, index, sample.attempt(PLAN.steps[index], t, 0.5, outcome))


def chosen(remedy: Remedy, failure: Failure = REFUSED, index: int = 0) -> Event:
    return RemedyChosen(PLAN, index, failure, remedy, 1)


def test_retries_and_a_recovery() -> None:
    events = told(*begun(), tried(0, REFUSED), chosen(Retry(1.0)), tried(1.5, REFUSED), chosen(Retry(2.0)), tried(4.0))
    assert events == [
        Retrying(OPEN, 1, 3, 1.0, "connection refused", "network", **origin(REFUSED)),
        Retrying(OPEN, 2, 3, 2.0, "connection refused", "network", **origin(REFUSED)),
        Recovered(OPEN, 4.0, 3, "network"),
    ]


def test_the_number_of_retries_is_that_of_the_rule() -> None:
    rules = Rulebook.model_validate({"on_network_error": {"strategy": "retry", "max_retries": 7}})
    (event,) = told(RemedyChosen(sample.plan(rulebook=rules), 0, REFUSED, Retry(1.0), 1))
    assert event.retries == 7
    dns = Failure("NET_DNS", "no such host")
    (event,) = told(chosen(Retry(1.0), dns))
    assert event.retries == 2


def test_waiting_for_a_circuit_is_no_retry() -> None:
    name = "origin:http://shop.local"
    left_alone = Failure("CIRCUIT_OPEN", "nothing was sent", details={"circuit": {"name": name}})
    retried = (*begun(), tried(0, REFUSED), chosen(Retry(1.0)))
    waited = (tried(1.5, left_alone), chosen(Retry(30.0), left_alone)) * 2
    events = told(*retried, *waited, tried(60, REFUSED), chosen(Retry(2.0)), tried(63))
    assert events == [
        Retrying(OPEN, 1, 3, 1.0, "connection refused", "network", **origin(REFUSED)),
        *[Waiting(OPEN, 30.0, f"circuit {name} is open")] * 2,
        Retrying(OPEN, 2, 3, 2.0, "connection refused", "network", **origin(REFUSED)),
        Recovered(OPEN, 63.0, 3, "network"),
    ]
    given_up = told(*begun(), *waited, tried(60, left_alone), chosen(GiveUp(), left_alone))
    assert given_up[-1] == GaveUp(OPEN, "nothing was sent", False, "unavailable", **origin(left_alone))


def test_an_attempt_that_a_circuit_refused_is_none() -> None:
    left_alone = Failure("CIRCUIT_OPEN", "nothing was sent")
    step = PLAN.steps[0]
    tries = (sample.attempt(step, 0, 1, REFUSED), sample.attempt(step, 1, 0, left_alone), sample.attempt(step, 31, 1))
    record = StepRecord(0, step, tries)
    result = replace(sample.completed(PLAN), history=(record,))
    shown, done = told(*begun(), StepEnded(PLAN, record), TaskEnded(PLAN, result, sample.START), steps=True)
    assert shown.attempts == 2
    assert (done.attempts, done.failures) == (2, 1)


def test_a_fallback_selector() -> None:
    events = told(*begun(1), tried(0, ABSENT, 1), chosen(Substitute("#b"), ABSENT, 1), tried(2, None, 1))
    assert events == [
        FellBack(CLICK, "#a", "#b", "nothing matches #a"),
        Recovered(CLICK, 2.0, 2, "element_not_found"),
    ]


def test_what_is_given_up_is_told_once() -> None:
    result = sample.failed(PLAN, REFUSED, index=0)
    ended = TaskEnded(PLAN, result, sample.START)
    events = told(*begun(), tried(0, REFUSED), chosen(Retry()), tried(1, REFUSED), chosen(GiveUp()), ended)
    assert events[1:] == [
        GaveUp(OPEN, "connection refused", True, "network", **origin(REFUSED)),
        TaskDone("failed", 32.5, 0, 1, 1, **origin(REFUSED)),
    ]
    (alone, _) = told(TaskStarted(PLAN, sample.START), TaskEnded(PLAN, sample.failed(PLAN, REFUSED, -1), sample.START))
    assert alone == GaveUp("task B1-2025-001", "connection refused", False, "network", **origin(REFUSED))


def test_a_rewind_is_a_retry_and_the_step_recovers_when_it_is_done_again() -> None:
    slow = Failure("STEP_TIMEOUT", "too slow")
    plan = sample.plan(rulebook=Rulebook.model_validate({"on_timeout": "retry_from_checkpoint"}))
    events = told(*begun(), tried(0, slow), RemedyChosen(plan, 0, slow, Rewind(1.5), 1), *begun()[1:], tried(9.0))
    assert events == [
        Retrying(OPEN, 1, 1, 0.0, "too slow", "timeout_step", **origin(slow)),
        Recovered(OPEN, 9.0, 2, "timeout_step"),
    ]


def test_other_remedies() -> None:
    differ = Failure("STATE_INCONSISTENT", "they differ")
    unmet = Failure("PRECONDITION_NOT_MET", "no cart")
    assert told(chosen(Trust("environment"), differ)) == [FellBack("step 0", "memory", "environment", "they differ")]
    assert told(chosen(RepairPrecondition(), unmet)) == [
        Retrying("step 0", 1, 1, 0.0, "no cart", "precondition_not_met", **origin(unmet))
    ]
    skipped = StepRecord(0, PLAN.steps[0], (sample.attempt(PLAN.steps[0], 0, 1, ABSENT),), skipped=True)
    events = told(*begun(), chosen(Skip("step"), ABSENT), StepEnded(PLAN, skipped))
    assert events == [Degraded(OPEN, "the task goes on without it: nothing matches #a")]


def test_proposals_that_are_no_step() -> None:
    plan = sample.plan(agent="monkey")
    invalid = Failure("AGENT_INVALID_STEP", "no step")
    events = told(*(tried(n, invalid, plan=plan) for n in range(PROPOSALS)))
    assert PROPOSALS == INVALID_IN_A_ROW
    name = "proposal of monkey"
    assert events == [
        Retrying(name, 1, 2, 0.0, "no step", "validation", **origin(invalid)),
        Retrying(name, 2, 2, 0.0, "no step", "validation", **origin(invalid)),
        GaveUp(name, "no step", True, "validation", **origin(invalid)),
    ]


def test_tasks_that_end() -> None:
    passed = sample.completed(PLAN)
    relaxed = replace(passed, warnings=(Warning_("criteria_relaxed", "only the total"),))
    other = replace(sample.failed(PLAN, REFUSED, -1), alternative=replace(passed, task_id="T-2"))
    interrupted = sample.failed(PLAN, Failure("INTERRUPTED", "Ctrl-C"), -1)

    def ended(result: TaskResult) -> list[Any]:
        return told(TaskStarted(PLAN, sample.START), TaskEnded(PLAN, result, sample.START))

    assert ended(passed) == [TaskDone("completed", 3.2, 6, 6, 0)]
    assert ended(relaxed)[0] == Degraded("task B1-2025-001", "only the total")
    assert ended(other)[1] == FellBack("task B1-2025-001", "B1-2025-001", "T-2", "connection refused")
    assert [type(event) for event in ended(interrupted)] == [TaskDone]
    left_out = ended(replace(interrupted, skipped="not here"))[0]
    assert (left_out.final_state, left_out.reason) == ("skipped", "not here")
    taken_over = Warning_("alternative_task_used", "w", details={"error_message": "refused"})
    made_up = replace(passed, alternative=replace(passed, task_id="T-2"), warnings=(taken_over,))
    assert ended(made_up)[0] == FellBack("task B1-2025-001", "B1-2025-001", "T-2", "refused")


def test_steps_are_told_when_asked_for() -> None:
    record = StepRecord(0, PLAN.steps[0], (sample.attempt(PLAN.steps[0], 0, 0.25),))
    assert told(*begun(), StepEnded(PLAN, record)) == []
    assert told(*begun(), StepEnded(PLAN, record), steps=True) == [StepDone(OPEN, True, 1, 0.25)]


def test_a_real_run_of_the_engine() -> None:
    from tests.unit.fakes import Theatre

    theatre = Theatre()
    theatre.session.script = [REFUSED, REFUSED]
    result = asyncio.run(theatre.play())
    events = told(*theatre.events)
    assert [event.type for event in events] == ["retry", "retry", "recovered", "task"]
    assert events[2].after == theatre.clock.time
    assert (events[3].attempts, events[3].failures) == (3, 2)
    assert result.ok
