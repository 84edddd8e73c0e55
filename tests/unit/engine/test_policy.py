"""What an agent may do: its acts, and the writes that the task declares."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.engine.task import run_task
from harness.model.inference import ModelCall, Usage
from harness.model.policy import AgentPolicy, WritePermission
from harness.model.record import TaskResult
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Api, Click
from harness.values import replace
from tests.unit.engine.test_agents import OPEN, Told, codes, failure, listed, play
from tests.unit.fakes import Theatre

CLICK = {"act": "click", "selector": "#buy"}
DONE = "json('env', 'shop.orders.O-1.status') == 'confirmed'"
HELD = Failure("POLICY_WRITE", "held back", details={"method": "POST", "url": "http://shop.local/pay"})


def played(policy: AgentPolicy, agent: Any, script: list[Any] | None = None, **spec: Any) -> tuple[Theatre, TaskResult]:
    theatre = Theatre(policy=policy)
    theatre.session.script = script or []
    return theatre, play(agent, theatre, **spec)


def permissions(policy: AgentPolicy, proposal: Any, **spec: Any) -> WritePermission | None:
    """What may be sent during the only step of the agent."""
    theatre = played(policy, listed(proposal, None), **spec)[0]
    found: WritePermission | None = theatre.session.permissions[0]
    return found


def test_an_act_that_the_policy_lacks_is_told_and_counted() -> None:
    agent = Told(lambda history: CLICK if len(history) < 2 else None)
    theatre, result = played(AgentPolicy(acts=("open", "type")), agent)
    assert result.ok
    assert theatre.session.acts == []
    told = agent.histories[1][-1]
    assert (told.step.act, told.failure and told.failure.code) == ("invalid", "POLICY_ACT")
    assert told.failure is not None
    assert told.failure.message == (
        "Agent `told` proposed something that it may not do: the act `click` is not allowed: "
        "the agent may only open, type"
    )
    _, result = played(AgentPolicy(acts=("open",)), listed(CLICK, CLICK, CLICK))
    assert failure(result).code == "POLICY_ACT"


def test_an_agent_may_say_itself_that_its_model_proposed_no_step() -> None:
    def say(history: Any) -> Any:
        if not history:
            raise Failed(Failure("AGENT_INVALID_STEP", "there is no tool `fly`", details={"proposal": "fly {}"}))
        return None

    agent = Told(say)
    assert played(AgentPolicy(), agent)[1].ok
    record = agent.histories[1][0]
    assert record.step.describe() == "invalid fly {}"
    assert record.failure is not None
    assert record.failure.message.endswith("is not a step: there is no tool `fly`")


def test_without_limits_nothing_is_held_back() -> None:
    assert permissions(AgentPolicy(), CLICK, allowed_writes=["http://shop.local/*"]) is None


def test_what_the_task_allows_is_permitted() -> None:
    allowed = [
        "POST http://shop.local/cart*",
        {"selector": "#buy", "frame": "#f"},
        {"url": "**/pay", "selector": "#pay"},
    ]
    found = permissions(AgentPolicy(writes="declared"), CLICK, allowed_writes=allowed)
    assert found is not None
    assert [each.matches("POST", "http://shop.local/cart/items") for each in found.requests] == [True]
    assert [(each.selector, each.frame, each.request is None) for each in found.elements] == [
        ("#buy", "#f", True),
        ("#pay", None, False),
    ]
    assert not found.everything


def test_the_writes_of_the_tasks_own_steps_are_permitted() -> None:
    steps = [
        Click(selector="#buy", effect="write"),
        Click(selector="#look"),
        Api(url="http://shop.local/api/orders", method="POST"),
    ]
    theatre = Theatre(policy=AgentPolicy(writes="declared"))
    theatre.agent = listed(CLICK, None)
    asyncio.run(run_task(replace(theatre.plan(steps=steps), agent="told"), theatre.ports()))
    found = theatre.session.permissions[0]
    assert found is not None
    assert [each.selector for each in found.elements] == ["#buy"]
    assert [each.methods for each in found.requests] == [("POST",)]


@pytest.mark.parametrize(
    ("more", "permitted"),
    [
        ({"effect": "write", "done_when": DONE}, True),
        ({"effect": "write", "done_when": "json('env', 'x') == 1"}, False),
        ({"effect": "write", "done_when": "text('#id') == 'O-1'"}, False),
        ({"effect": "write"}, False),
        ({"done_when": DONE}, False),
    ],
)
def test_a_step_declares_itself_a_write_only_by_a_criterion_of_the_file(more: Any, permitted: bool) -> None:
    criteria = [DONE, "text('#id') == 'O-1'"]
    theatre = Theatre(policy=AgentPolicy(writes="declared"))
    theatre.world.environment = {"env": {"shop": {"orders": {"O-1": {"status": "confirmed"}}}}}
    theatre.session.page = {"text #id": "O-1"}
    play(listed({**CLICK, **more}, None), theatre, success_criteria=criteria)
    found = theatre.session.permissions[0]
    assert found is not None
    assert found.everything is permitted


def test_the_agent_is_told_what_was_held_back_and_goes_on() -> None:
    agent = listed(CLICK, OPEN, None)
    _, result = played(AgentPolicy(writes="declared"), agent, [HELD])
    assert result.ok
    assert codes(result) == ["POLICY_WRITE", None]


@pytest.mark.parametrize(("answer", "code"), [("allow", None), ("refuse", "POLICY_WRITE"), (None, "POLICY_WRITE")])
def test_a_person_may_allow_a_request(answer: str | None, code: str | None) -> None:
    questions: list[str] = []

    async def ask(question: str, choices: tuple[str, ...]) -> str | None:
        questions.append(question)
        return answer

    theatre = Theatre(policy=AgentPolicy(writes="ask"))
    theatre.ask, theatre.session.script = ask, [HELD]
    result = play(listed(CLICK, None), theatre)
    assert codes(result) == [code]
    assert questions == ["T-1: agent told would send POST http://shop.local/pay. May it?"]
    asked_again = [len(each.requests) for each in theatre.session.permissions[:2]]
    assert asked_again == ([0, 1] if code is None else [0])


def test_without_a_person_nothing_more_is_allowed() -> None:
    assert codes(played(AgentPolicy(writes="ask"), listed(CLICK, None), [HELD])[1]) == ["POLICY_WRITE"]


def test_an_agent_is_told_what_is_left() -> None:
    agent = Told(lambda history: None if history else OPEN)
    agent.looks = True
    play(agent, budget={"max_steps": 7}, timeout=100)
    assert [each.left for each in agent.seen] == [{"steps": 7, "seconds": 100}, {"steps": 6, "seconds": 100}]


def test_an_agent_is_told_what_the_budget_for_models_leaves() -> None:
    agent = Told(lambda history: None if history else OPEN)
    agent.looks = True
    theatre = Theatre()
    used = ModelCall(
        agent="told", model="claude", provider="anthropic", identifier="haiku", step=0, attempt=1,
        at=theatre.clock.wall(), seconds=1.0, first_token=None, usage=Usage(900, 100), cost=0.25, outcome="answered",
    )  # fmt: skip
    theatre.model_calls = (used, replace(used, cost=None))
    play(agent, theatre, budget={"max_tokens": 5000, "max_cost": 1.0, "max_model_calls": 3}, timeout=100)
    told = {name: left for name, left in agent.seen[0].left.items() if name not in ("steps", "seconds")}
    assert told == {"model calls": 1, "tokens": 3000, "US dollars": 0.75}
