"""Which agent goes on when one fails, where it begins, and what is never done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.agents.registry import successor
from harness.engine.task import LEAST_SECONDS
from harness.model.events import ResilienceActed
from harness.model.record import History, TaskResult
from harness.model.settings import Settings
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Passed
from harness.resilience.events import FellBack
from tests.unit.fakes import Theatre

OPEN = {"act": "open", "url": "http://shop.local/"}
BUY = {"act": "submit", "selector": "#order"}
CLICK = {"act": "click", "selector": "#a"}
GONE = Failure("ELEMENT_NOT_FOUND", "no #a", "#a")
CRASH = Failure("AGENT_FAILED", "Agent failed: boom")
LOST = Failure("BROWSER_CRASHED", "gone", tainted=True)
NAMES = ("builder", "simple", "third")


class Crew:
    """Agents by name: each is a function from the history to a proposal, or a failure that it raises."""

    def __init__(self, **agents: Callable[[History], Any] | Failure) -> None:
        self.agents = agents
        self.asked: list[tuple[str, int]] = []
        self.histories: list[History] = []

    async def propose(self, plan: Any, history: History, observe: Any) -> Any:
        name = plan.agent or "scripted"
        self.asked.append((name, len(history)))
        self.histories.append(history)
        if name == "scripted":
            return plan.steps[len(history)] if len(history) < len(plan.steps) else None
        agent = self.agents[name]
        if isinstance(agent, Failure):
            raise Failed(agent)
        return agent(history)

    async def relieve(self, plan: Any, failure: Failure) -> str | None:
        return successor(plan, failure)


def then(*proposals: Any) -> Callable[[History], Any]:
    """Proposes these in turn; a Failure is raised."""
    rest = list(proposals)

    def say(_: History) -> Any:
        proposal = rest.pop(0) if rest else None
        if isinstance(proposal, Failure):
            raise Failed(proposal)
        return proposal

    return say


def play(crew: Crew, theatre: Theatre | None = None, settings: Any = None, **spec: Any) -> TaskResult:
    theatre = theatre or Theatre()
    theatre.agent = crew
    agents = {name: {"python": "a:B", **(settings or {}).get(name, {})} for name in NAMES}
    theatre.settings = Settings(agents=agents, **(settings or {}).get("run", {}))
    chosen = {"steps": [], "agent": "builder", "agent_fallback": ["simple", "third"], **spec}
    return asyncio.run(theatre.play(**chosen))


def kinds(result: TaskResult) -> list[str]:
    return [each.type for each in result.warnings if each.type in ("agent_fallback_used", "restart_refused")]


def failure(result: TaskResult) -> Failure:
    assert result.failure is not None
    return result.failure


def test_the_next_agent_goes_on_with_the_whole_history_and_nothing_is_done_twice() -> None:
    theatre = Theatre()
    crew = Crew(builder=then(OPEN, BUY, CRASH), simple=then(CLICK, None))
    result = play(crew, theatre)
    assert (result.final_state, result.steps_total) == ("completed", 3)
    assert [step.act for _, step, *_ in theatre.session.acts] == ["open", "submit", "click"]
    assert crew.asked[3:] == [("simple", 2), ("simple", 3)]
    assert [record.agent for record in crew.histories[-1]] == ["builder", "builder", "simple"]
    (warning,) = result.warnings
    assert warning.as_json() == {
        "type": "agent_fallback_used", "step_index": 2, "from": "builder", "to": "simple", "code": "AGENT_FAILED",
        "message": "`simple` went on in place of `builder`: Agent failed: boom",
    }  # fmt: skip
    told = [each.event for each in theatre.events if isinstance(each, ResilienceActed)]
    assert told == [FellBack("agent", "builder", "simple", "Agent failed: boom")]


OWN = ["AGENT_UNAVAILABLE", "AGENT_FAILED", "AGENT_TIMEOUT", "AGENT_GAVE_UP", "AGENT_LOST", "MODEL_UNAVAILABLE"]


@pytest.mark.parametrize("code", OWN)
def test_failures_of_an_agent_relieve_it(code: str) -> None:
    result = play(Crew(builder=Failure(code, "no"), simple=then(OPEN)))
    assert (result.final_state, kinds(result)) == ("completed", ["agent_fallback_used"])


OTHERS = ["NET_DNS", "HTTP_UNAVAILABLE", "TASK_TIMEOUT", "BUDGET_EXCEEDED", "POLICY_DOMAIN", "OUTCOME_UNKNOWN"]


@pytest.mark.parametrize("code", OTHERS)
def test_other_failures_end_the_task(code: str) -> None:
    result = play(Crew(builder=Failure(code, "no"), simple=then(OPEN)))
    assert (failure(result).code, kinds(result)) == (code, [])


def test_counters_of_stuck_and_invalid_proposals_begin_anew() -> None:
    theatre = Theatre()
    theatre.session.script = [GONE] * 3
    rules = {"on_element_not_found": "abort"}
    crew = Crew(builder=then(CLICK, CLICK, CLICK), simple=then({}, {}, OPEN))
    result = play(crew, theatre, error_recovery=rules)
    assert (result.final_state, kinds(result)) == ("completed", ["agent_fallback_used"])
    assert result.warnings[0].details["code"] == "AGENT_STUCK"
    invalid = play(Crew(builder=then({}, {}, {}), simple=then({}, {}, {}), third=then(OPEN)))
    assert [each.details["code"] for each in invalid.warnings] == ["AGENT_INVALID_STEP"] * 2


def test_when_all_have_failed_each_is_named() -> None:
    crew = Crew(builder=then(OPEN, CRASH), simple=Failure("AGENT_TIMEOUT", "late"), third=CRASH)
    result = play(crew)
    found = failure(result)
    assert (found.code, result.failed_index) == ("AGENTS_EXHAUSTED", 1)
    assert found.details["tried"] == [
        {"agent": "builder", "code": "AGENT_FAILED", "message": "Agent failed: boom", "step_index": 1},
        {"agent": "simple", "code": "AGENT_TIMEOUT", "message": "late", "step_index": 1},
        {"agent": "third", "code": "AGENT_FAILED", "message": "Agent failed: boom", "step_index": 1},
    ]
    assert "`builder` at step 1 (AGENT_FAILED), `simple` at step 1 (AGENT_TIMEOUT), `third`" in found.message


def test_the_failure_of_an_only_agent_keeps_its_code() -> None:
    result = play(Crew(builder=CRASH), agent_fallback=[])
    assert failure(result).code == "AGENT_FAILED"


def test_a_write_whose_effect_is_unknown_ends_the_task() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("STEP_TIMEOUT", "no answer", effect=Effect.POSSIBLE)]
    result = play(Crew(simple=then(BUY)), theatre, agent="scripted", steps=[BUY], agent_fallback=["simple"])
    assert (failure(result).code, kinds(result)) == ("OUTCOME_UNKNOWN", [])
    assert len(theatre.session.acts) == 1


def test_the_next_agent_is_not_begun_shortly_before_the_end() -> None:
    theatre = Theatre()

    def late(_: History) -> Any:
        theatre.clock.time += 60 - LEAST_SECONDS + 1
        raise Failed(CRASH)

    crew = Crew(builder=late, simple=then(OPEN))
    result = play(crew, theatre, timeout=60)
    assert failure(result).code == "AGENT_FAILED"
    assert failure(result).message.endswith("`simple` was not begun, since the task has only 9s left")
    assert [name for name, _ in crew.asked] == ["builder"]


def test_the_budget_of_steps_is_that_of_the_task() -> None:
    crew = Crew(builder=then(OPEN, OPEN, CRASH), simple=then(OPEN, OPEN))
    result = play(crew, budget={"max_steps": 3})
    assert (failure(result).code, kinds(result)) == ("BUDGET_EXCEEDED", ["agent_fallback_used"])


def test_the_agent_that_went_on_stays_after_going_back_to_a_checkpoint() -> None:
    theatre = Theatre()
    crew = Crew(builder=then(OPEN, CRASH), simple=then(CLICK, CLICK, CLICK, None))
    theatre.session.script = [Passed(), Failure("STEP_TIMEOUT", "slow"), Passed(), Passed(), Passed()]
    rules = {"on_timeout": {"strategy": "retry_from_checkpoint"}}
    result = play(crew, theatre, error_recovery=rules, checkpoints=[0])
    assert result.final_state == "completed"
    assert "checkpoint_restored" in [each.type for each in result.warnings]
    assert {name for name, _ in crew.asked[2:]} == {"simple"}


SCRIPT = {"agent": None, "steps": [OPEN, CLICK], "agent_fallback": ["simple"]}
ABORT = {"on_element_not_found": "abort", "on_network_error": "abort"}


def broken_script(**more: Any) -> tuple[Theatre, Crew, TaskResult]:
    theatre = Theatre()
    theatre.session.script = [Passed(), more.pop("failure", GONE)]
    crew = Crew(simple=then({**CLICK, "selector": "#b"}))
    result = play(crew, theatre, error_recovery=ABORT, **{**SCRIPT, **more})
    return theatre, crew, result


def test_an_agent_takes_over_where_a_script_broke() -> None:
    theatre, crew, result = broken_script()
    assert (result.final_state, result.steps_total) == ("completed", 3)
    assert [record.agent for record in crew.histories[-1]] == ["scripted", "scripted", "simple"]
    assert [step.selector for _, step, *_ in theatre.session.acts[1:]] == ["#a", "#b"]


def test_a_script_that_broke_in_a_check_or_by_the_site_is_not_healed() -> None:
    for code in ("ASSERTION_FAILED", "NET_DNS", "AUTHENTICATION_FAILED"):
        _, _, result = broken_script(failure=Failure(code, "no"))
        assert (failure(result).code, kinds(result)) == (code, [])


def test_no_heal_refuses_that_an_agent_takes_over_a_script() -> None:
    _, _, result = broken_script(settings={"run": {"heal": False}})
    assert (failure(result).code, kinds(result)) == ("ELEMENT_NOT_FOUND", [])


def test_the_default_budget_of_an_agent_begins_after_the_steps_of_the_file() -> None:
    theatre = Theatre()
    theatre.session.script = [*[Passed()] * 31, GONE]
    steps = [OPEN, *[CLICK] * 31]
    result = play(Crew(simple=then(OPEN)), theatre, **{**SCRIPT, "steps": steps}, error_recovery=ABORT)
    assert result.final_state == "completed"


RESTART = {"simple": {"takeover": "restart"}}


def test_an_agent_that_restarts_begins_at_the_start() -> None:
    theatre = Theatre()
    crew = Crew(builder=then(OPEN, CLICK, CRASH), simple=then(OPEN))
    result = play(crew, theatre, settings=RESTART)
    assert (result.final_state, kinds(result)) == ("completed", ["agent_fallback_used"])
    assert crew.asked[3:] == [("simple", 0), ("simple", 1)]
    assert len(theatre.session.restored) == 1
    (back,) = (each for each in result.warnings if each.type == "checkpoint_restored")
    assert back.message.endswith("Agent failed: boom")


def test_after_a_write_an_agent_that_restarts_goes_on_and_the_warning_says_why() -> None:
    theatre = Theatre()
    crew = Crew(builder=then(OPEN, BUY, CRASH), simple=then(CLICK))
    result = play(crew, theatre, settings=RESTART)
    assert (result.final_state, kinds(result)) == ("completed", ["restart_refused", "agent_fallback_used"])
    assert (crew.asked[3], theatre.session.restored) == (("simple", 2), [])
    assert "step 1 may have written" in result.warnings[0].message


def test_a_write_that_the_environment_takes_back_does_not_hinder_a_restart() -> None:
    theatre = Theatre()
    theatre.world.whole = True
    crew = Crew(builder=then(OPEN, BUY, CRASH), simple=then(OPEN))
    result = play(crew, theatre, settings=RESTART, checkpoints=[0])
    assert (result.final_state, crew.asked[3]) == ("completed", ("simple", 0))


def test_the_steps_of_the_file_begin_anew_after_an_agent() -> None:
    crew = Crew(builder=then(CLICK, CRASH))
    result = play(crew, steps=[OPEN, CLICK], agent_fallback=["scripted"])
    assert (result.final_state, result.steps_total, crew.asked[2:]) == (
        "completed", 2, [("scripted", 0), ("scripted", 1), ("scripted", 2)],
    )  # fmt: skip


def test_the_steps_of_the_file_are_passed_over_after_a_write() -> None:
    crew = Crew(builder=then(BUY, CRASH), simple=then(OPEN))
    result = play(crew, steps=[OPEN, CLICK], agent_fallback=["scripted", "simple"])
    assert (result.final_state, kinds(result)) == ("completed", ["restart_refused", "agent_fallback_used"])
    assert [name for name, _ in crew.asked] == ["builder", "builder", "simple", "simple"]
    alone = play(Crew(builder=then(BUY, CRASH)), steps=[OPEN], agent_fallback=["scripted"])
    assert [each["agent"] for each in failure(alone).details["tried"]] == ["builder", "scripted"]


UNMET = ["text('#done') == 'yes'"]


def test_unmet_criteria_relieve_an_agent_only_where_that_is_declared() -> None:
    theatre = Theatre()
    crew = Crew(builder=then(OPEN), simple=then(CLICK))
    ended = play(crew, theatre, success_criteria=UNMET)
    assert (failure(ended).code, kinds(ended)) == ("CRITERIA_UNMET", [])
    theatre = Theatre()
    theatre.session.page = {"text #done": lambda _: "yes" if len(theatre.session.acts) > 1 else "no"}
    crew = Crew(builder=then(OPEN), simple=then(CLICK))
    result = play(crew, theatre, success_criteria=UNMET, agent_fallback_if_unmet=True)
    assert (result.final_state, kinds(result)) == ("completed", ["agent_fallback_used"])
    shown = crew.histories[2][-1].failure
    assert shown is not None
    assert shown.code == "CRITERIA_UNMET"


def test_without_recovery_no_agent_goes_on() -> None:
    crew = Crew(builder=CRASH, simple=then(OPEN))
    result = play(crew, settings={"run": {"recovery": False}})
    assert (failure(result).code, kinds(result)) == ("AGENT_FAILED", [])


def test_no_other_agent_is_asked_after_a_write_that_the_task_has_gone_back_over() -> None:
    """It would not see the write, and might do it in another way."""
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed(), LOST]
    theatre.world.environment["bought"] = True
    buy = {**BUY, "done_when": "json('env', 'bought') == true"}
    crew = Crew(builder=then(OPEN, buy, CLICK, CRASH), simple=then(CLICK))
    result = play(crew, theatre, checkpoints=[0], error_recovery={})
    assert failure(result).message.endswith("which the task has gone back over, may have written")
    assert [step.act for _, step, *_ in theatre.session.acts] == ["open", "submit", "click"]
