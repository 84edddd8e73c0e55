"""What the engine makes of an agent's proposals, good and bad."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.model.events import StepEnded
from harness.model.ports import Observation
from harness.model.record import History, TaskResult
from harness.model.settings import Settings
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Passed
from harness.spec.steps import Click, Open
from tests.unit.fakes import Theatre

OPEN = {"act": "open", "url": "http://shop.local/"}
GONE = Failure("ELEMENT_NOT_FOUND", "no #gone", "#gone")


class Told:
    """An agent that proposes what a function says; it keeps what it was shown."""

    def __init__(self, say: Callable[[History], Any]) -> None:
        self.say = say
        self.histories: list[History] = []
        self.seen: list[Observation] = []
        self.looks = False

    async def propose(self, plan: Any, history: History, observe: Any) -> Any:
        self.histories.append(history)
        if self.looks:
            self.seen.append(await observe())
        return self.say(history)


def listed(*proposals: Any) -> Told:
    """Proposes these in turn, whatever happens."""
    rest = list(proposals)
    return Told(lambda _: rest.pop(0) if rest else None)


def play(agent: Any, theatre: Theatre | None = None, **spec: Any) -> TaskResult:
    theatre = theatre or Theatre()
    theatre.agent = agent
    theatre.settings = Settings(agent="told")
    return asyncio.run(theatre.play(**{"steps": [], **spec}))


def codes(result: TaskResult) -> list[str | None]:
    return [record.failure.code if record.failure else None for record in result.history]


def failure(result: TaskResult) -> Failure:
    assert result.failure is not None
    return result.failure


def test_mappings_and_models_are_done_until_there_is_no_more() -> None:
    theatre = Theatre()
    agent = listed(OPEN, Click(selector="#a"), None)
    result = play(agent, theatre)
    assert [step.act for _, step, *_ in theatre.session.acts] == ["open", "click"]
    assert (result.final_state, result.steps_total, result.steps_completed) == ("completed", 2, 2)
    assert [len(history) for history in agent.histories] == [0, 1, 2]


def test_a_scripted_task_asks_without_looking_or_checking() -> None:
    theatre = Theatre()
    theatre.agent = listed("no step at all would be refused")
    theatre.agent.say = lambda history: None if history else Open(url="http://shop.local/")
    assert asyncio.run(theatre.play()).ok
    assert theatre.agent.seen == []


def test_references_to_inputs_and_memory_are_filled_in() -> None:
    theatre = Theatre()
    theatre.world.entries_["name"] = "Ada"
    step = {"act": "type", "selector": "#${inputs.field}", "value": "${memory.name} $${x}", "timeout": 3}
    result = play(listed(step), theatre, inputs={"field": "who"})
    assert result.ok
    done = theatre.session.acts[0][1]
    assert (done.selector, done.value) == ("#who", "Ada ${x}")


def test_timeout_scale_holds_for_a_steps_own_timeout() -> None:
    theatre = Theatre()
    theatre.agent = listed({**OPEN, "timeout": 3})
    theatre.settings = Settings(agent="told", timeout_scale=2)
    asyncio.run(theatre.play(steps=[]))
    assert theatre.session.acts[0][2] == 6


BAD: list[tuple[Any, str]] = [
    ({"act": "clik", "selector": "#a"}, "act: not a known act"),
    ({"act": "clik", "selector": "#a"}, "did you mean `click`?"),
    ({"selector": "#a"}, "the key `act` is missing"),
    ({"act": "click"}, "the key `selector` is missing"),
    ({"act": "click", "selector": 3}, "selector: wrong type (expected text, found a whole number 3"),
    ({"act": "click", "selektor": "#a", "selector": "#a"}, "unknown key `selektor`"),
    ({"act": "open", "url": "file:///etc/passwd"}, "scheme `file:`"),
    ({"act": "open", "url": "${inputs.where}"}, "scheme `javascript:`"),
    ({"act": "upload", "selector": "#f", "value": "../secret"}, "leaves the task's folder"),
    (
        {"act": "type", "selector": "#f", "value": "${env:HOME}"},
        "the task does not use the variable HOME, so its agents may not either",
    ),
    ({"act": "type", "selector": "#f", "value": "${inputs.wher}"}, "did you mean `where`?"),
    ({"act": "type", "selector": "#f", "value": "${x"}, "no closing brace"),
    ({"act": "assert", "expr": "exists("}, "expr:"),
    ({"act": "type", "selector": "#f", "value": {1, 2}}, "that JSON cannot"),
    (Click.model_construct(selector=7), "selector: wrong type"),
    ("click #a", "it is a str, not a step"),
    ([OPEN], "it is a list, not a step"),
    (False, "it is a bool, not a step"),
]


@pytest.mark.parametrize(("proposal", "why"), BAD, ids=lambda value: str(value)[:40])
def test_what_is_no_step_is_refused_with_the_reason(proposal: Any, why: str) -> None:
    theatre = Theatre()
    result = play(listed(proposal, OPEN), theatre, inputs={"where": "javascript:1"})
    assert codes(result) == ["AGENT_INVALID_STEP", None]
    told = result.history[0].failure
    assert told is not None
    assert why in told.message
    assert [step.act for _, step, *_ in theatre.session.acts] == ["open"], "nothing was done of it"
    assert result.final_state == "completed"


def test_a_variable_that_the_file_uses_may_be_referred_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "geheim")
    theatre = Theatre()
    step = {"act": "type", "selector": "#f", "value": "${env:SHOP_PASSWORD}"}
    assert play(listed(step), theatre, inputs={"password": "${env:SHOP_PASSWORD}"}).ok
    assert theatre.session.acts[0][1].value == "geheim"


def test_the_agent_is_told_of_two_invalid_steps_and_the_third_ends_the_task() -> None:
    theatre = Theatre()
    agent = listed(OPEN, "one", "two", "three", OPEN)
    result = play(agent, theatre)
    assert [len(history) for history in agent.histories] == [0, 1, 2, 3]
    record = agent.histories[-1][-1]
    assert (record.step.act, record.step.describe(), record.index) == ("invalid", "invalid 'two'", 1)
    assert (failure(result).code, result.failed_index, result.final_state) == ("AGENT_INVALID_STEP", 1, "failed")
    assert "it is a str, not a step" in failure(result).message
    ended = [event.record.index for event in theatre.events if isinstance(event, StepEnded)]
    assert ended == [0, 1, 1, 1]
    assert result.steps_completed == 1


def test_a_step_between_invalid_ones_starts_the_count_again() -> None:
    agent = listed("one", "two", OPEN, "three", "four", OPEN)
    result = play(agent)
    assert result.ok
    assert [len(history) for history in agent.histories] == [0, 1, 2, 1, 2, 3, 2], "mended, so forgotten"


def test_an_error_of_the_agent_is_not_the_sites() -> None:
    def broken(_: History) -> Any:
        raise KeyError("model")

    result = play(Told(broken))
    assert (failure(result).code, failure(result).type, result.final_state) == ("AGENT_FAILED", "unknown", "failed")
    assert failure(result).message == "Agent `told` failed: KeyError: 'model'"
    assert result.error is not None
    assert "raise KeyError" in (result.error.stack_trace or "")


def test_what_an_agent_fails_with_at_the_page_keeps_its_code() -> None:
    theatre = Theatre()

    async def hung(within: float, *, screenshot: bool) -> Observation:
        raise Failed(Failure("PAGE_UNRESPONSIVE", "the page hangs"))

    theatre.session.observe = hung  # type: ignore[method-assign]
    agent = listed(OPEN)
    agent.looks = True
    result = play(agent, theatre)
    assert failure(result).code == "PAGE_UNRESPONSIVE"
    assert failure(result).message.startswith("the page hangs; page or browser was lost 3 times")


def test_a_browser_lost_while_the_agent_looks_is_got_over_as_any_other() -> None:
    theatre = Theatre()
    looks: list[int] = []

    async def look(within: float, *, screenshot: bool) -> Observation:
        looks.append(1)
        if len(looks) == 2:
            raise Failed(Failure("BROWSER_CRASHED", "gone", tainted=True))
        return Observation(url="", title="", aria="")

    theatre.session.observe = look  # type: ignore[method-assign]
    agent = Told(lambda history: OPEN if len(history) < 2 else None)
    agent.looks = True
    result = play(agent, theatre, error_recovery={"on_browser_crash": "restart_task"})
    assert result.ok
    assert [warning.type for warning in result.warnings] == ["browser_restarted", "checkpoint_restored"]
    assert [record.step.act for record in result.history] == ["open", "observe", "open", "open"]


def test_a_browser_lost_while_the_agent_looks_ends_a_task_without_a_checkpoint() -> None:
    theatre = Theatre()

    async def gone(within: float, *, screenshot: bool) -> Observation:
        raise Failed(Failure("BROWSER_CRASHED", "gone", tainted=True))

    agent = listed(OPEN, OPEN)
    result_of_first = agent.say

    def say(history: History) -> Any:
        theatre.session.observe = gone  # type: ignore[method-assign]
        return result_of_first(history)

    agent.say, agent.looks = say, True
    result = play(agent, theatre)
    assert (failure(result).code, result.failed_index) == ("BROWSER_CRASHED", 1)


def test_an_agent_may_get_over_a_page_that_cannot_be_looked_at() -> None:
    class Patient:
        async def propose(self, plan: Any, history: History, observe: Any) -> Any:
            try:
                await observe()
            except Failed:
                return None if history else OPEN

    theatre = Theatre()

    async def gone(within: float, *, screenshot: bool) -> Observation:
        raise Failed(Failure("PAGE_CRASHED", "gone"))

    theatre.session.observe = gone  # type: ignore[method-assign]
    assert play(Patient(), theatre).ok


def test_a_look_is_bounded_like_a_step_and_by_the_task() -> None:
    theatre = Theatre()
    bounds: list[float] = []

    async def slow(within: float, *, screenshot: bool) -> Observation:
        bounds.append(within)
        theatre.clock.time += within
        raise Failed(Failure("PAGE_UNRESPONSIVE", "the page hangs"))

    theatre.session.observe = slow  # type: ignore[method-assign]

    class Stubborn:
        async def propose(self, plan: Any, history: History, observe: Any) -> Any:
            for _ in range(2):
                with pytest.raises(Failed):
                    await observe()
            await observe()

    result = play(Stubborn(), theatre, timeout=10, step_timeout=4)
    assert bounds == [4, 4, 2]
    assert (failure(result).code, failure(result).details["last_code"]) == ("TASK_TIMEOUT", "PAGE_UNRESPONSIVE")


def test_the_outcome_of_the_last_step_can_be_seen() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), GONE]
    agent = listed(OPEN, {"act": "click", "selector": "#gone"}, "no step", None)
    agent.looks = True
    rules = {"on_element_not_found": {"strategy": "abort"}}
    assert play(agent, theatre, error_recovery=rules).ok
    first, second, third, fourth = (seen.last for seen in agent.seen)
    assert first is None
    assert isinstance(second, Passed)
    assert isinstance(third, Failure)
    assert isinstance(fourth, Failure)
    assert (third.code, fourth.code) == ("ELEMENT_NOT_FOUND", "AGENT_INVALID_STEP")


def test_an_agent_that_thinks_past_the_tasks_end_is_out_of_time() -> None:
    class Slow:
        async def propose(self, plan: Any, history: History, observe: Any) -> Any:
            await asyncio.sleep(60)

    theatre = Theatre()
    agent = Slow()

    async def late(plan: Any, folder: Any) -> Any:
        theatre.clock.time += 9.9
        theatre.stage = None
        return await theatre.open_stage(plan, folder)

    theatre.stage = late
    result = play(agent, theatre, timeout=10)
    assert failure(result).code == "TASK_TIMEOUT"
    assert failure(result).details["last_code"] == "AGENT_TIMEOUT"
    assert result.final_state == "failed"


def test_a_timeout_error_of_the_agents_own_is_its_failure() -> None:
    def broken(_: History) -> Any:
        raise TimeoutError("the model did not answer")

    assert failure(play(Told(broken))).code == "AGENT_FAILED"


def test_an_interruption_passes_through_the_agent() -> None:
    class Endless:
        async def propose(self, plan: Any, history: History, observe: Any) -> Any:
            waiting.set()
            await asyncio.Event().wait()

    waiting = asyncio.Event()
    theatre = Theatre(agent=Endless(), settings=Settings(agent="told"))

    async def main() -> TaskResult:
        task = asyncio.ensure_future(theatre.play(steps=[]))
        await waiting.wait()
        task.cancel()
        return await task

    result = asyncio.run(main())
    assert (failure(result).code, result.final_state) == ("INTERRUPTED", "aborted")


def test_the_same_failing_step_three_times_ends_the_task() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), *[GONE] * 20]
    rules = {"on_element_not_found": {"strategy": "abort"}}
    agent = Told(lambda history: {"act": "click", "selector": "#gone"} if history else OPEN)
    result = play(agent, theatre, error_recovery=rules)
    assert (failure(result).code, result.failed_index) == ("AGENT_STUCK", 3)
    assert "no #gone" in failure(result).message


def test_another_step_after_a_failed_one_goes_on() -> None:
    theatre = Theatre()
    theatre.session.script = [GONE, GONE, Passed()]
    rules = {"on_element_not_found": {"strategy": "abort"}}
    wrong = {"act": "click", "selector": "#gone"}
    result = play(listed(wrong, wrong, {"act": "click", "selector": "#there"}), theatre, error_recovery=rules)
    assert (result.final_state, codes(result)) == ("completed", ["ELEMENT_NOT_FOUND", "ELEMENT_NOT_FOUND", None])


def test_thirty_steps_are_the_usual_budget() -> None:
    theatre = Theatre()
    agent = Told(lambda history: {"act": "click", "selector": f"#b{len(history)}"})
    result = play(agent, theatre)
    assert (failure(result).code, result.final_state) == ("BUDGET_EXCEEDED", "aborted")
    assert len(theatre.session.acts) == 30
    assert "`max_steps` allows 30 steps, the usual number for agents" in failure(result).message


def test_a_task_may_allow_more_or_fewer_steps() -> None:
    theatre = Theatre()
    agent = Told(lambda history: {"act": "click", "selector": f"#b{len(history)}"} if len(history) < 40 else None)
    assert play(agent, theatre, budget={"max_steps": 40}).ok
    assert len(theatre.session.acts) == 40


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("code", ["STEP_TIMEOUT", "NET_CONNECTION_RESET"])
def test_a_write_of_the_agent_whose_outcome_is_unknown_ends_the_task(code: str, optional: bool) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure(code, "no answer", effect=Effect.POSSIBLE)]
    pay = {"act": "submit", "selector": "#pay", "optional": optional}
    result = play(listed(pay, OPEN), theatre)
    assert (failure(result).code, result.failed_index) == ("OUTCOME_UNKNOWN", 0)
    assert failure(result).details["last_code"] == code
    assert len(theatre.session.acts) == 1


def test_a_write_that_done_when_clears_may_be_proposed_again() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("STEP_TIMEOUT", "no answer", effect=Effect.POSSIBLE)]
    theatre.session.page = {"exists #done": False}
    pay = {"act": "submit", "selector": "#pay", "done_when": "exists('#done')"}
    assert play(listed(pay, pay), theatre).ok
    assert len(theatre.session.acts) == 2


@pytest.mark.parametrize(("paid", "ends"), [(True, None), (False, None), (None, "OUTCOME_UNKNOWN")])
def test_a_write_that_was_done_is_not_proposed_again_because_what_follows_it_failed(
    paid: bool | None, ends: str | None
) -> None:
    theatre = Theatre()
    theatre.world.environment = {"paid": paid}
    unanswered = Failure("REQUEST_EXPECTED", "no answer", effect=Effect.DONE, act_done=True)
    theatre.session.script = [unanswered, *[Passed()] * 2]
    pay = {"act": "click", "selector": "#pay", "effect": "write"}
    if paid is not None:
        pay["done_when"] = "json('env', 'paid') == true"
    result = play(listed(pay, OPEN, pay), theatre)
    assert (result.failure.code if result.failure else None) == ends
    clicks = [step.act for _, step, *_ in theatre.session.acts].count("click")
    assert clicks == (2 if paid is False else 1)
