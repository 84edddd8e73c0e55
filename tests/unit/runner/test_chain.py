"""Which agent begins, and which ones follow: the command line over the file, the file over the settings."""

from __future__ import annotations

from typing import Any

from harness.model.plan import AgentChain
from harness.model.settings import Settings
from harness.runner.chain import agent_chain, first_agent
from harness.spec.task import TaskSpec

AGENTS = {
    "builder": {"python": "a:B", "fallback": ["simple", "scripted", "manual"], "fallback_if_unmet": True},
    "simple": {"python": "a:C", "takeover": "restart", "fallback": ["builder"]},
}
SETTINGS = Settings(agents=AGENTS, agent="builder")
STEPS = [{"act": "open", "url": "http://shop.local/"}]


def chosen(named: str | None = None, settings: Settings = SETTINGS, **spec: Any) -> tuple[str | None, Any]:
    task = TaskSpec.model_validate({"task_id": "T", **spec})
    return first_agent(task, settings, named), agent_chain(task, settings, named)


def test_the_settings_give_a_task_without_steps_its_agent_and_those_that_follow() -> None:
    first, chain = chosen()
    assert (first, chain) == ("builder", AgentChain(("simple", "manual"), frozenset({"simple", "scripted"}), True))
    assert chosen(steps=STEPS) == (None, None)


def test_the_file_overrides_the_settings() -> None:
    first, chain = chosen(agent="simple", agent_fallback=["scripted"], steps=STEPS)
    assert (first, chain.names, chain.if_unmet) == ("simple", ("scripted",), False)
    assert chosen(agent="builder", steps=STEPS)[1].names == ("simple", "scripted", "manual")
    assert chosen(agent="builder", agent_fallback=[]) == ("builder", None)
    first, chain = chosen(agent_fallback=["builder"], steps=STEPS)
    assert (first, chain.names) == (None, ("builder",))


def test_the_command_line_overrides_both() -> None:
    first, chain = chosen("simple", agent="builder", agent_fallback=["manual"])
    assert (first, chain.names) == ("simple", ("builder",))
    assert chosen("scripted", agent="builder", agent_fallback=["manual"], steps=STEPS) == (None, None)
