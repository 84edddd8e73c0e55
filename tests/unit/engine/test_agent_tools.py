"""The tools of servers in the hands of an agent: what it is offered, what it may call, and which effect counts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.engine.task import run_task
from harness.model.policy import AgentPolicy
from harness.model.ports import Stage
from harness.model.record import StepRecord, TaskResult
from harness.model.tools import OfferedTool, ToolAnswer, ToolDescription, ToolRequest
from harness.recovery.failure import Failed, Failure
from harness.spec.step_base import EffectClass
from harness.spec.steps import Tool
from harness.values import replace
from tests.unit.engine.test_agents import Told, codes, listed, play
from tests.unit.fakes import Theatre

READS, WRITES = ToolDescription("get_order"), ToolDescription("place_order")
GET = {"act": "tool", "server": "shop", "tool": "get_order", "arguments": {"id": "O-1"}}
PLACE = {"act": "tool", "server": "shop", "tool": "place_order", "arguments": {"sku": "WM-1"}}
SHOP = {"shop": ("get_*", "place_*")}
DONE = "json('env', 'shop.orders.O-1.status') == 'confirmed'"
STRICT = AgentPolicy(writes="declared", tools=SHOP)


@dataclass
class FakeToolBox:
    """A server `shop` with a tool that reads and one that writes, and one `mail` that is not offered to agents."""

    effects: dict[str, EffectClass | Failure] = field(default_factory=lambda: {"get_order": "read"})
    called: list[tuple[str, EffectClass]] = field(default_factory=list)
    learned: bool = False

    def offered(self) -> tuple[OfferedTool, ...]:
        assert self.learned
        return (OfferedTool("shop", READS, "read"), OfferedTool("shop", WRITES, "write"))

    async def learn(self, within: float) -> None:
        assert 0 < within <= 15
        self.learned = True

    async def effect_of(self, step: Tool, within: float) -> EffectClass:
        assert within > 0
        found = step.effect or self.effects.get(step.tool, "write")
        if isinstance(found, Failure):
            raise Failed(found)
        return found

    async def call(self, request: ToolRequest, within: float) -> ToolAnswer:
        self.called.append((f"{request.server}.{request.tool}", request.effect))
        return ToolAnswer('{"status": "confirmed"}')


def theatre_with(toolbox: FakeToolBox | None, policy: AgentPolicy) -> Theatre:
    theatre = Theatre(policy=policy)

    async def stage(plan: Any, folder: Path) -> Stage:
        return Stage(theatre.session, theatre.world, theatre.injector, toolbox)

    theatre.stage = stage
    return theatre


def played(agent: Told, policy: AgentPolicy, toolbox: FakeToolBox | None = None, **spec: Any) -> TaskResult:
    return play(agent, theatre_with(toolbox or FakeToolBox(), policy), **spec)


def calls(result: TaskResult) -> list[StepRecord]:
    """The records of calls, without those of refused proposals."""
    return [record for record in result.history if record.step.act == "tool"]


def effects(result: TaskResult) -> list[EffectClass]:
    return [record.step.effect_class for record in calls(result)]


def refusals(agent: Told) -> list[tuple[str, str]]:
    """Code and reason of each refused proposal that the agent was told of last."""
    said = [(each.step.act, each.failure) for each in agent.histories[-1]]
    return [(failure.code, failure.message.partition(": ")[2]) for act, failure in said if act == "invalid" and failure]


def test_an_agent_is_offered_what_its_policy_lets_it_call() -> None:
    def seen(policy: AgentPolicy, toolbox: FakeToolBox | None) -> list[str]:
        agent = listed(None)
        agent.looks = True
        play(agent, theatre_with(toolbox, policy))
        return [each.tool.name for each in agent.seen[0].tools]

    assert seen(AgentPolicy(tools=SHOP), FakeToolBox()) == ["get_order", "place_order"]
    assert seen(AgentPolicy(tools={"shop": ()}), FakeToolBox()) == ["get_order", "place_order"]
    assert seen(AgentPolicy(tools={"shop": ("get_*",)}), FakeToolBox()) == ["get_order"]
    assert seen(AgentPolicy(tools=SHOP, acts=("open", "tool")), FakeToolBox()) == ["get_order", "place_order"]
    assert seen(AgentPolicy(tools=SHOP, acts=("open",)), FakeToolBox()) == []
    assert seen(AgentPolicy(tools=SHOP, only=("*.place_*",)), FakeToolBox()) == ["place_order"]
    assert seen(AgentPolicy(tools=SHOP, only=()), FakeToolBox()) == []
    assert seen(AgentPolicy(), FakeToolBox()) == []
    assert seen(AgentPolicy(tools=SHOP), None) == []


def test_a_call_is_a_step_with_the_effect_that_the_toolbox_says() -> None:
    result = played(listed(GET, PLACE, None), AgentPolicy(tools=SHOP))
    assert result.ok
    assert [record.step.describe() for record in result.history] == ["tool shop.get_order", "tool shop.place_order"]
    assert effects(result) == ["read", "write"]


@pytest.mark.parametrize(
    ("tool", "own", "counts"),
    [
        ("place_order", "read", "write"),
        ("place_order", "idempotent", "write"),
        ("get_order", "read", "read"),
        ("get_order", "idempotent", "idempotent"),
        ("get_order", "write", "write"),
    ],
)
def test_an_agents_own_effect_only_raises_that_of_a_tool(tool: str, own: str, counts: str) -> None:
    result = played(listed({**GET, "tool": tool, "effect": own}, None), AgentPolicy(tools=SHOP))
    assert effects(result) == [counts]


def test_a_tool_whose_effect_cannot_be_learned_counts_as_one_that_writes() -> None:
    toolbox = FakeToolBox({"get_order": Failure("TOOL_UNAVAILABLE", "gone")})
    assert effects(played(listed(GET, None), AgentPolicy(tools=SHOP), toolbox)) == ["write"]
    agent = listed(GET, None)
    assert calls(played(agent, STRICT, toolbox)) == []
    assert [code for code, _ in refusals(agent)] == ["POLICY_WRITE"]


@pytest.mark.parametrize(
    ("proposal", "policy", "why"),
    [
        ({**GET, "server": "mail"}, AgentPolicy(tools=SHOP),
         "the tools of the server `mail` are not offered to agents: those of shop are"),
        (GET, AgentPolicy(tools=SHOP, only=("shop.place_*",)),
         "the tool shop.get_order is not offered to this agent: only shop.place_*"),
        (GET, AgentPolicy(), "the tools of the server `shop` are not offered to agents: none are"),
        ({**GET, "tool": "drop_all"}, AgentPolicy(tools=SHOP),
         "the tool `drop_all` of the server `shop` is not offered: only get_*, place_*"),
        ({**GET, "tool": "get_${memory.x}"}, AgentPolicy(tools=SHOP),
         "server and tool must be named in full: a reference in them is not filled in"),
        (GET, AgentPolicy(tools=SHOP, acts=("open",)), "the act `tool` is not allowed: the agent may only open"),
    ],
)  # fmt: skip
def test_an_agent_cannot_call_what_it_is_not_offered(proposal: Any, policy: AgentPolicy, why: str) -> None:
    agent, toolbox = listed(proposal, None), FakeToolBox()
    result = played(agent, policy, toolbox, memory_keys=["x"])
    assert (calls(result), toolbox.called) == ([], [])
    assert refusals(agent) == [("POLICY_ACT", why)]


def test_a_write_that_the_task_does_not_declare_is_not_called() -> None:
    agent, toolbox = listed(PLACE, GET, None), FakeToolBox()
    result = played(agent, STRICT, toolbox)
    assert effects(result) == ["read"]
    assert "shop.place_order" not in [name for name, _ in toolbox.called]
    told = [record for history in agent.histories for record in history if record.step.act == "invalid"]
    assert [record.failure and record.failure.code for record in told] == ["POLICY_WRITE"]
    assert told[0].failure is not None
    assert told[0].failure.message == (
        "Agent `told` proposed something that it may not do: the tool shop.place_order writes, and the task does not "
        "declare that it may be called, so it was not called"
    )


@pytest.mark.parametrize(
    ("spec", "proposal"),
    [
        ({"allowed_writes": ["tool shop.place_order"]}, PLACE),
        ({"allowed_writes": ["POST http://shop.local/*", {"tool": "shop.place_*"}]}, PLACE),
        ({"success_criteria": [DONE]}, {**PLACE, "effect": "write", "done_when": DONE}),
    ],
)
def test_a_write_that_the_task_declares_is_called(spec: dict[str, Any], proposal: Any) -> None:
    result = played(listed(proposal, None), STRICT, **spec)
    assert (codes(result)[0], effects(result)) == (None, ["write"])


def test_the_declaration_of_a_write_has_the_evidence_for_a_call_without_one() -> None:
    allowed = [{"tool": "shop.place_*", "done_when": DONE}]
    own = {**PLACE, "done_when": "json('env', 'x') == 1"}
    result = played(listed(GET, PLACE, own, None), STRICT, allowed_writes=allowed)
    assert [record.step.done_when for record in calls(result)] == [None, DONE, own["done_when"]]


@pytest.mark.parametrize("allowed", ["tool shop.cancel_*", "tool mail.place_order", "POST http://shop.local/*"])
def test_another_declaration_does_not_allow_it(allowed: str) -> None:
    assert calls(played(listed(PLACE, None), STRICT, allowed_writes=[allowed])) == []


@pytest.mark.parametrize(("more", "times"), [({}, 1), ({"effect": "write"}, 1), ({"effect": "read"}, 0)])
def test_a_step_of_the_file_with_the_same_tool_declares_it(more: dict[str, Any], times: int) -> None:
    theatre = theatre_with(FakeToolBox(), STRICT)
    theatre.agent = listed(PLACE, None)
    steps = [Tool.model_validate({**PLACE, "arguments": {}, **more})]
    result = asyncio.run(run_task(replace(theatre.plan(steps=steps), agent="told"), theatre.ports()))
    assert len(calls(result)) == times


@pytest.mark.parametrize(("answer", "times"), [("allow", 2), ("refuse", 0), (None, 0)])
def test_a_person_may_allow_a_tool_for_the_rest_of_the_task(answer: str | None, times: int) -> None:
    questions: list[str] = []

    async def ask(question: str, choices: tuple[str, ...]) -> str | None:
        questions.append(question)
        return answer

    theatre = theatre_with(FakeToolBox(), AgentPolicy(writes="ask", tools=SHOP))
    theatre.ask = ask
    result = play(listed(PLACE, PLACE, None), theatre)
    assert len(calls(result)) == times
    assert set(questions) == {'T-1: agent told would call shop.place_order with {"sku": "WM-1"}. May it?'}
    assert len(questions) == (1 if times else 2)


def test_without_limits_and_without_a_person_writes_are_called() -> None:
    assert effects(played(listed(PLACE, None), AgentPolicy(writes="allow", tools=SHOP))) == ["write"]
    assert calls(played(listed(PLACE, None), AgentPolicy(writes="ask", tools=SHOP))) == []
