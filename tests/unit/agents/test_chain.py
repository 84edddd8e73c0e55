"""Who goes on after a failure, and the agent that is a person."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.agents import Agents
from harness.agents.registry import successor
from harness.model.plan import AgentChain
from harness.model.ports import Observation
from harness.recovery.failure import Failed, Failure


def plan(agent: str | None, chain: AgentChain | None, *, heal: bool = True) -> Any:
    return SimpleNamespace(agent=agent, chain=chain, heal=heal, key="T", task_id="T", spec=SimpleNamespace(goal="Buy"))


CHAIN = AgentChain(("b", "scripted", "c"))


@pytest.mark.parametrize(("agent", "following"), [("a", "b"), ("b", "scripted"), (None, "c"), ("c", None)])
def test_each_is_followed_by_the_next(agent: str | None, following: str | None) -> None:
    assert successor(plan(agent, CHAIN), Failure("AGENT_FAILED", "boom")) == following


def test_without_a_chain_nobody_follows() -> None:
    assert successor(plan("a", None), Failure("AGENT_FAILED", "boom")) is None


BREAKS = [
    "ELEMENT_NOT_FOUND",
    "FRAME_NOT_FOUND",
    "SELECTOR_AMBIGUOUS",
    "ELEMENT_COVERED",
    "STEP_TIMEOUT",
    "INVALID_INPUT",
]
STANDS = ["ASSERTION_FAILED", "TASK_TIMEOUT", "NET_DNS", "PAGE_CRASHED", "BUDGET_EXCEEDED", "CRITERIA_UNMET"]


@pytest.mark.parametrize("code", [*BREAKS, *STANDS])
def test_a_script_is_followed_where_another_step_may_help(code: str) -> None:
    failure = Failure(code, "no")
    assert (successor(plan(None, AgentChain(("a",))), failure) == "a") == (code in BREAKS)
    assert successor(plan(None, AgentChain(("a",)), heal=False), failure) is None
    assert successor(plan("z", AgentChain(("a",))), failure) is None


def test_unmet_criteria_are_followed_only_if_that_is_declared() -> None:
    declared, failure = AgentChain(("a",), if_unmet=True), Failure("CRITERIA_UNMET", "no")
    assert successor(plan("z", declared), failure) == "a"
    assert successor(plan(None, declared), failure) == "a"
    assert successor(plan(None, declared, heal=False), failure) is None


def answered(answer: str | None, asked: list[Any]) -> Any:
    async def ask(question: str, choices: tuple[str, ...]) -> str | None:
        asked.append((question, choices))
        return answer

    async def observe(*, screenshot: bool = False) -> Observation:
        return Observation(url="http://shop.local/cart", title="", aria="")

    agent = Agents({}, Path()).agent("manual", ask=ask)
    return asyncio.run(agent.propose(plan("manual", None), (), observe))


def test_a_person_finishes_the_task() -> None:
    asked: list[Any] = []
    assert answered("done", asked) is None
    ((question, choices),) = asked
    assert choices == ("done", "abort")
    assert "the page is http://shop.local/cart" in question
    assert "Goal: Buy." in question


@pytest.mark.parametrize(("answer", "code"), [("abort", "AGENT_GAVE_UP"), (None, "AGENT_UNAVAILABLE")])
def test_a_person_who_gives_up_or_is_not_there(answer: str | None, code: str) -> None:
    with pytest.raises(Failed) as caught:
        answered(answer, [])
    assert caught.value.failure.code == code
