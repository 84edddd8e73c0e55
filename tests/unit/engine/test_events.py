"""What the engine tells of failures: each retry, fallback, wait, recovery and end once, when it happens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.model.events import ResilienceActed, TaskEnded
from harness.model.ports import LeftOut, Observation
from harness.model.record import TaskResult
from harness.model.settings import Settings
from harness.recovery import Rewind
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failed, Failure, Outcome, Passed
from harness.resilience.events import Degraded, FellBack, GaveUp, Recovered, Retrying, Waiting
from harness.spec.loaded import Loaded
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from tests.unit.fakes import Theatre

REFUSED = Failure("NET_CONNECTION_REFUSED", "connection refused")
ABSENT = Failure("ELEMENT_NOT_FOUND", "nothing matches #a", "#a")
SLOW = Failure("STEP_TIMEOUT", "too slow")
BROKEN = Failure("INVALID_INPUT", "no such thing")
CLICK = {"act": "click", "selector": "#a"}
OPEN = "open http://shop.local/"
UNMET = "mem('address') == 'home'"


def played(*script: Any, theatre: Theatre | None = None, **spec: Any) -> list[Any]:
    """What a run of a task tells of failures; its acts end as the script says, and pass after it."""
    theatre = theatre or Theatre()
    theatre.session.script = list(script)
    asyncio.run(theatre.play(**spec))
    return [event.event for event in theatre.events if isinstance(event, ResilienceActed)]


def retry(number: int, most: int, delay: float, failure: Failure = REFUSED, name: str = OPEN) -> Retrying:
    return Retrying(name, number, most, delay, failure.message, failure.event_category, **failure.origin)


def end(name: str, failure: Failure, *, exhausted: bool = False) -> GaveUp:
    return GaveUp(name, failure.message, exhausted, failure.event_category, **failure.origin)


def test_retries_and_a_recovery() -> None:
    assert played(REFUSED, REFUSED) == [retry(1, 3, 1.0), retry(2, 3, 1.0), Recovered(OPEN, 2.0, 3, "network")]


def test_nothing_is_told_of_what_goes_well() -> None:
    assert played() == []


def test_the_number_of_retries_is_that_of_the_rule_for_the_failure() -> None:
    dns = Failure("NET_DNS", "no such host")
    rule = {"on_network_error": {"strategy": "retry", "max_retries": 7}}
    assert played(REFUSED, error_recovery=rule)[0].retries == 7
    assert [event.retries for event in played(dns, dns)[:2]] == [2, 2]


def test_a_retry_that_goes_back_instead_is_the_only_one_of_its_kind() -> None:
    """The rule plans no way back, so that the number of what may come is raised to that of what came."""
    theatre, late = Theatre(), Failure("NET_TIMEOUT", "no answer", effect=Effect.POSSIBLE)
    theatre.world.whole = True
    pay = {"act": "submit", "selector": "#pay"}
    events = played(Passed(), late, theatre=theatre, steps=[CLICK, pay], checkpoints=[1])
    assert events == [retry(1, 1, 0.0, late, "submit #pay"), Recovered("submit #pay", 0.0, 2, "timeout")]


def test_waiting_for_a_circuit_is_no_retry() -> None:
    details = {"circuit": {"name": "origin:http://shop.local"}}
    left_alone = Failure(
        "CIRCUIT_OPEN", "nothing was sent", details=details, retry_after=30.0, circumstances=Circumstances(waits=True)
    )
    waiting = Waiting(OPEN, 30.0, "circuit origin:http://shop.local is open")
    events = played(REFUSED, left_alone, left_alone, REFUSED, timeout=300)
    assert events == [retry(1, 3, 1.0), waiting, waiting, retry(2, 3, 1.0), Recovered(OPEN, 62.0, 3, "network")]
    events = played(left_alone, left_alone, timeout=40)
    assert events[0] == waiting
    assert (events[-1].category, events[-1].exhausted, len(events)) == ("unavailable", False, 2)


def test_a_circuit_without_a_name_says_why_it_waits() -> None:
    left_alone = Failure("CIRCUIT_OPEN", "nothing was sent", circumstances=Circumstances(waits=True))
    assert played(left_alone)[0].reason == "nothing was sent"


def test_a_fallback_selector() -> None:
    others = {"strategy": "try_fallback_selector", "fallback_selectors": {"#a": ["#b"]}}
    events = played(ABSENT, steps=[CLICK], error_recovery={"on_element_not_found": others})
    first, second = events
    assert first == FellBack("click #a", "#a", "#b", "nothing matches #a")
    assert (second.type, second.attempts, second.category) == ("recovered", 2, "element_not_found")


def test_what_is_given_up_is_told_once_with_whether_it_was_tried_again() -> None:
    assert played(*[REFUSED] * 4)[-2:] == [retry(3, 3, 1.0), end(OPEN, REFUSED, exhausted=True)]
    tls = Failure("NET_TLS", "bad certificate")
    assert played(tls) == [end(OPEN, tls)]


def test_a_task_that_fails_before_its_steps() -> None:
    theatre = Theatre()

    async def no_stage(_plan: Any, _folder: Path) -> Any:
        raise Failed(Failure("BROWSER_LAUNCH_FAILED", "no browser"))

    theatre.stage = no_stage
    assert played(theatre=theatre) == [end("task T-1", Failure("BROWSER_LAUNCH_FAILED", "no browser"))]
    (event,) = [event for event in theatre.events if isinstance(event, ResilienceActed)]
    assert (event.index, type(theatre.events[-1])) == (-1, TaskEnded)


def test_a_rewind_is_a_retry_and_the_step_recovers_when_it_is_done_again() -> None:
    theatre, rules = Theatre(), {"on_timeout": "retry_from_checkpoint"}
    steps = {"steps": [CLICK, CLICK], "checkpoints": [1], "error_recovery": rules}
    events = played(Passed(), SLOW, theatre=theatre, **steps)
    assert events == [retry(1, 1, 0.0, SLOW, "click #a"), Recovered("click #a", 0.0, 2, "timeout_step")]
    chosen = [event.remedy for event in theatre.events if isinstance(event, ResilienceActed)]
    assert [type(remedy) for remedy in chosen] == [Rewind, type(None)]


def test_the_retries_of_a_step_are_counted_on_when_the_task_goes_back() -> None:
    crash = Failure("BROWSER_CRASHED", "gone")
    events = played(Passed(), crash, crash, steps=[CLICK, CLICK], checkpoints=[1])
    assert [(event.attempt, event.retries) for event in events[:2]] == [(1, 1), (2, 2)]
    assert (events[2].type, events[2].attempts) == ("recovered", 3)


def test_the_side_that_is_trusted_is_a_fallback() -> None:
    theatre = Theatre()
    theatre.world.entries_["card"], theatre.world.environment["last4"] = "1234", "7777"
    events = played(theatre=theatre, steps=[CLICK], state_bindings={"card": "env.last4"}, memory={})
    first, second = events
    assert (first.type, first.before, first.after) == ("fallback", "memory", "environment")
    assert (second.type, second.name) == ("recovered", first.name)


def test_a_repair_is_a_retry_of_the_precondition_and_its_steps_have_names_of_their_own() -> None:
    both = [{"steps": [{"act": "click", "selector": "#repair"}], "memory": {"address": "home"}}]
    rules = {"on_precondition_fail": "attempt_repair"}
    events = played(REFUSED, preconditions=[UNMET], repairs=both, error_recovery=rules)
    assert [(event.type, event.name.partition(" ")[2][:7]) for event in events] == [
        ("retry", "mem('ad"), ("retry", "#repair"), ("recovered", "#repair"), ("recovered", "mem('ad"),
    ]  # fmt: skip
    assert [(event.attempt, event.retries) for event in events[:2]] == [(1, 1), (1, 3)]


def test_a_step_that_is_left_out_degrades_the_task() -> None:
    events = played(ABSENT, steps=[CLICK | {"optional": True}], error_recovery={"on_element_not_found": "abort"})
    without = Degraded("click #a", "the task goes on without it: nothing matches #a")
    assert events == [end("click #a", ABSENT), without]
    assert played(SLOW, steps=[CLICK, CLICK], error_recovery={"on_timeout": "skip_step"})[0].type == "degraded"


def test_a_step_whose_effect_is_found_to_be_there_has_recovered() -> None:
    theatre = Theatre()
    theatre.world.environment["paid"] = True
    pay = {"act": "submit", "selector": "#pay", "done_when": "json('env', 'paid') == true"}
    late = Failure("NET_TIMEOUT", "no answer", effect=Effect.POSSIBLE)
    assert played(late, theatre=theatre, steps=[pay]) == [Recovered("submit #pay", 0.0, 1, "timeout")]


class Saying:
    """An agent that proposes these in turn; it looks at the page where it is to."""

    def __init__(self, *proposals: Any, looks: bool = False) -> None:
        self.rest, self.looks = list(proposals), looks

    async def propose(self, plan: Any, history: Any, observe: Any) -> Any:
        if self.looks:
            await observe()
        return self.rest.pop(0) if self.rest else None


def asked(agent: Saying, **spec: Any) -> list[Any]:
    return played(theatre=Theatre(agent=agent, settings=Settings(agent="told")), steps=[], **spec)


def test_proposals_that_are_no_step() -> None:
    events = asked(Saying(1, 2, 3))
    assert [(event.type, event.name, event.category) for event in events] == [
        ("retry", "proposal of told", "validation"),
        ("retry", "proposal of told", "validation"),
        ("failed", "proposal of told", "validation"),
    ]
    assert [(event.attempt, event.retries) for event in events[:2]] == [(1, 2), (2, 2)]
    assert events[2].exhausted


def test_a_step_after_a_refused_proposal_has_recovered_at_its_first_attempt() -> None:
    events = asked(Saying(1, CLICK, 2, CLICK))
    recovered = Recovered("click #a", 0.0, 1, "validation")
    assert [event.type for event in events] == ["retry", "recovered"] * 2
    assert events[1::2] == [recovered, recovered]
    assert [event.attempt for event in events[::2]] == [1, 1]


def test_a_page_that_is_lost_as_the_agent_looks_counts_for_the_step_that_was_to_follow() -> None:
    theatre, looks = Theatre(agent=Saying(CLICK, looks=True), settings=Settings(agent="told")), list[int]()

    async def look(within: float, *, screenshot: bool) -> Observation:
        looks.append(1)
        if len(looks) == 1:
            raise Failed(Failure("PAGE_UNRESPONSIVE", "it hangs", tainted=True))
        return Observation(url="", title="", aria="")

    theatre.session.observe = look  # type: ignore[method-assign]
    first, second = played(theatre=theatre, steps=[])
    assert (first.type, first.name) == ("retry", "step 0")
    assert second == Recovered("click #a", 0.0, 1, "session")


def test_criteria_that_were_relaxed_degrade_the_task() -> None:
    theatre = Theatre()
    theatre.world.entries_["a"] = 1
    plan = {"enabled": True, "relaxed_success_criteria": ["mem('a') == 1"]}
    events = played(theatre=theatre, success_criteria=["title() == 'x'"], fallback_plan=plan)
    assert (events[-1].type, events[-1].name) == ("degraded", "task T-1")
    assert "Only the relaxed success criteria hold" in events[-1].reason


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (Passed(), "no such thing"),
        (BROKEN, "no such thing; the alternative task T-2 did not succeed either: no such thing"),
    ],
)
def test_the_alternative_task_is_a_fallback_whose_own_steps_nobody_is_told_of(other: Outcome, error: str) -> None:
    theatre, spec = Theatre(), TaskSpec.model_validate({"task_id": "T-2", "steps": [CLICK]})
    theatre.find = {"T-2": Loaded(spec, Path("T-2"), Origin("T-2"))}.get
    plan = {"enabled": True, "alternative_task_id": "T-2"}
    events = played(BROKEN, other, theatre=theatre, steps=[CLICK], fallback_plan=plan)
    assert events == [end("click #a", BROKEN), FellBack("task T-1", "T-1", "T-2", error)]


def test_nobody_gives_up_a_task_that_is_interrupted_or_left_out() -> None:
    def interrupted(_: Any) -> Any:
        raise asyncio.CancelledError

    assert played(interrupted) == []

    async def left_out(*_: Any) -> Any:
        raise LeftOut("not here")

    theatre = Theatre(repair=left_out)
    events = played(theatre=theatre, preconditions=[UNMET], error_recovery={"on_precondition_fail": "attempt_repair"})
    assert [event.type for event in events] == ["retry"]
    result = next(event.result for event in theatre.events if isinstance(event, TaskEnded))
    assert isinstance(result, TaskResult)
    assert result.skipped == "not here"
