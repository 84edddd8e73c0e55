"""Agents by name, and what is said of one that cannot be had."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from harness.agents import Agents, ScriptedAgent
from harness.agents.monkey import Monkey
from harness.model.agent_settings import AgentSettings
from harness.model.policy import UNLIMITED
from harness.model.settings import Settings
from harness.model.tool_settings import offered_to_agents
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker, BreakerSettings
from tests.unit.fakes import FakeClock

MODULE = """
class Nobody:
    pass

class Mine:
    def __init__(self, word="hello", *, times=1):
        self.said = word * times
        if times < 0:
            raise RuntimeError("no negative times")

    def propose(self, plan, history, observe):
        return {"act": "open", "url": self.said}

class Closing(Mine):
    def close(self):
        closed.append(self.said)

class Narrow:
    def propose(self, plan):
        return None

class Outer:
    Inner = Mine

def made():
    return Mine("by a function")

def choosing(plan, history, observe):
    return None

closed = []
nothing = 3
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A project with agents; what was imported of it is forgotten afterwards."""
    (tmp_path / "registry_case.py").write_text(MODULE, "utf-8")
    (tmp_path / "broken_case.py").write_text("1 / 0\n", "utf-8")
    (tmp_path / "lacking_case.py").write_text("import not_there_at_all\n", "utf-8")
    yield tmp_path
    sys.path[:] = [each for each in sys.path if each != str(tmp_path)]
    for name in ("registry_case", "broken_case", "lacking_case"):
        sys.modules.pop(name, None)


def agents(root: Path, python: str | None = "registry_case:Mine", **more: Any) -> Agents:
    return Agents({"mine": AgentSettings(python=python, **more)}, root)


def plan(agent: str | None, key: str = "T", **more: Any) -> Any:
    return SimpleNamespace(agent=agent, key=key, **more)


def first(registry: Agents, name: str = "mine") -> Any:
    """What the agent proposes for the first step."""

    async def main() -> Any:
        agent = registry.agent(name)
        try:
            return await agent.propose(plan(name), (), cast("Any", None))
        finally:
            await agent.close()

    return asyncio.run(main())


def refused(registry: Agents, name: str = "mine") -> Failure:
    with pytest.raises(Failed) as caught:
        first(registry, name)
    assert caught.value.failure.code == "AGENT_UNAVAILABLE"
    return caught.value.failure


@pytest.mark.parametrize(
    ("python", "options", "said"),
    [
        ("registry_case:Mine", {}, "hello"),
        ("registry_case:Mine", {"word": "na", "times": 2}, "nana"),
        ("registry_case:made", {}, "by a function"),
        ("registry_case:Outer.Inner", {"word": "inner"}, "inner"),
    ],
)
def test_an_agent_of_the_settings_is_made_with_its_options(
    root: Path, python: str, options: dict[str, Any], said: str
) -> None:
    assert first(agents(root, python, options=options))["url"] == said


@pytest.mark.parametrize(
    ("python", "options", "why"),
    [
        ("not_there:Mine", {}, "there is no module `not_there`, neither in "),
        ("lacking_case:Mine", {}, "cannot be imported: ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("broken_case:Mine", {}, "cannot be imported: ZeroDivisionError"),
        ("registry_case:Mime", {}, "`registry_case` has no `Mime`; did you mean `Mine`?"),
        ("registry_case:nothing", {}, "is a value of type int, not a class or function"),
        ("registry_case:Nobody", {}, "which has no method `propose(plan, history, observe)`"),
        ("registry_case:Narrow", {}, "cannot be called as `propose(plan, history, observe)`"),
        ("registry_case:Mine", {"wrod": "x"}, "unexpected keyword argument 'wrod'; it takes word or times"),
        ("registry_case:made", {"x": 1}, "it takes none"),
        ("registry_case:choosing", {}, "chooses a step itself: name a class with `propose(plan, history, "),
        ("registry_case:Mine", {"times": -1}, "failed while it was created: RuntimeError: no negative times"),
    ],
)
def test_an_agent_that_cannot_be_made_says_why(root: Path, python: str, options: dict[str, Any], why: str) -> None:
    failure = refused(agents(root, python, options=options))
    assert failure.message.startswith(f"Agent `mine` ({python}): ")
    assert why in failure.message
    assert failure.details == {"agent": "mine", "python": python}


def test_an_unknown_name_is_refused_before_anything_runs(root: Path) -> None:
    registry = agents(root)
    assert {"mine", "monkey", "scripted"} <= set(registry.names)
    with pytest.raises(Failed) as caught:
        registry.agent("monky")
    assert caught.value.failure.code == "AGENT_UNAVAILABLE"
    assert "There is no agent `monky`: there is " in str(caught.value)
    assert "did you mean `monkey`?" in str(caught.value)


async def unseen(*, screenshot: bool = False) -> Any:
    raise LookupError("the page is asked for")


def test_settings_without_python_are_for_the_installed_agent(root: Path) -> None:
    registry = Agents({"monkey": AgentSettings(options={"steps": 7}, timeout=5)}, root)
    source = registry.source("monkey")
    assert (source.python, source.timeout) == ("harness.agents.monkey:Monkey", 5)
    made = source.make()
    assert isinstance(made, Monkey)
    done = cast("Any", SimpleNamespace(failure=None))
    assert asyncio.run(made.propose(plan(None), (done,) * 7, unseen)) is None
    with pytest.raises(LookupError):
        asyncio.run(made.propose(plan(None), (done,) * 6, unseen))


def test_settings_come_before_installed_agents_and_may_name_none_that_is_not_there(root: Path) -> None:
    registry = Agents({"monkey": AgentSettings(python="registry_case:Mine"), "ghost": AgentSettings()}, root)
    assert registry.source("monkey").python == "registry_case:Mine"
    with pytest.raises(Failed, match=r"write `python` into \[tool.harness.agents.ghost\]"):
        registry.agent("ghost")


def test_the_installed_scripted_agent_is_the_one_of_the_house(root: Path) -> None:
    assert isinstance(Agents({}, root).source("scripted").make(), ScriptedAgent)


@pytest.mark.parametrize("python", ["mine", "mine:", ":Mine", "a b:C", "a.b", "a:b:c", ""])
def test_a_place_that_is_none_is_refused_in_the_settings(python: str) -> None:
    with pytest.raises(ValidationError, match=r"`python` must be written `package.module:name`"):
        AgentSettings(python=python)


def test_every_task_of_a_run_has_an_agent_of_its_own_or_its_own_steps(root: Path) -> None:
    async def main() -> list[Any]:
        agent = agents(root, "registry_case:Closing").agent("mine")
        observe = cast("Any", None)
        outer = await agent.propose(plan("mine", "A"), (), observe)
        inner = await agent.propose(plan(None, "B", steps=("its own",)), (), observe)
        other = await agent.propose(plan("mine", "C"), (), observe)
        again = await agent.propose(plan("mine", "A"), (), observe)
        await agent.close()
        return [outer["url"], inner, other["url"], again["url"]]

    assert asyncio.run(main()) == ["hello", "its own", "hello", "hello"]
    assert sys.modules["registry_case"].closed == ["hello", "hello"]


FAILING = """
class Agent:
    asked = 0

    def propose(self, plan, history, observe):
        Agent.asked += 1
        raise RuntimeError("no idea")
"""


def test_an_agent_that_fails_five_times_in_a_row_is_not_asked_for_a_while(root: Path) -> None:
    (root / "registry_case.py").write_text(FAILING, "utf-8")
    clock = FakeClock()
    breaker = Breaker("agent:mine", now=clock.now)
    registry = Agents({"mine": AgentSettings(python="registry_case:Agent")}, root, lambda _: breaker)
    codes = [asyncio.run(_proposal_of(registry)).code for _ in range(7)]
    assert codes == ["AGENT_FAILED"] * 5 + ["AGENT_UNAVAILABLE"] * 2
    assert sys.modules["registry_case"].Agent.asked == 10  # each time once more, with a new object
    refused = asyncio.run(_proposal_of(registry))
    assert "Agent `mine` was not asked: circuit agent:mine is open after 5 failures in a row" in refused.message
    assert refused.hint.startswith("The agent failed several times in a row, so it is not asked for a while")
    assert refused.details["last_error"] == "AGENT_FAILED"
    clock.time = 30
    assert asyncio.run(_proposal_of(registry)).code == "AGENT_FAILED"  # the probe


async def _proposal_of(registry: Agents) -> Failure:
    agent = registry.agent("mine")
    plan = cast("Any", SimpleNamespace(key="T", agent="mine"))
    try:
        await agent.propose(plan, (), cast("Any", None))
    except Failed as failed:
        return failed.failure
    finally:
        await agent.close()
    raise AssertionError("it proposed a step")


ALIASES = {
    "mine": AgentSettings(python="registry_case:Mine", options={"word": "a", "times": 2}, timeout=9),
    "other": AgentSettings(agent="mine", options={"times": 3}, retry=2),
    "third": AgentSettings(agent="other", timeout=4),
}


def test_an_alias_has_the_code_of_the_other_and_its_own_options_over_those(root: Path) -> None:
    registry = Agents(ALIASES, root)
    other, third = registry.source("other"), registry.source("third")
    assert (other.name, other.python, other.options) == ("other", "registry_case:Mine", {"word": "a", "times": 3})
    assert (other.timeout, other.retry, third.timeout, third.retry) == (9, 2, 4, 1)
    assert third.make().said == "aaa"


@pytest.mark.parametrize("key", ["agent", "fallback"])
def test_a_name_in_the_settings_that_no_agent_has_is_told_with_its_table(root: Path, key: str) -> None:
    value: Any = "mnie" if key == "agent" else ("manual", "scripted", "mnie")
    registry = Agents({**ALIASES, "bad": AgentSettings(**{key: value})}, root)
    with pytest.raises(Failed, match=rf"\[tool.harness.agents.bad\] {key}: There is no agent `mnie`.*`mine`"):
        registry.check(None)
    Agents(ALIASES, root).check("manual")


CRASHING = """
class Agent:
    made = 0
    closed = []

    def __init__(self):
        Agent.made += 1
        self.number = Agent.made

    def propose(self, plan, history, observe):
        if self.number < 3:
            raise RuntimeError("boom")
        return {"act": "open", "url": str(self.number)}

    def close(self):
        Agent.closed.append(self.number)
"""


@pytest.mark.parametrize(("retry", "retries"), [(2, True), (1, True), (2, False)])
def test_a_crashed_agent_is_made_anew_and_asked_again(root: Path, retry: int, retries: bool) -> None:
    (root / "registry_case.py").write_text(CRASHING, "utf-8")
    told: list[Any] = []
    settings = {"mine": AgentSettings(python="registry_case:Agent", retry=retry)}
    registry = Agents(settings, root, emit=told.append, retries=retries)
    allowed = retry if retries else 0
    if allowed == 2:
        assert first(registry)["url"] == "3"
        assert [type(each).__name__ for each in told] == ["Retrying", "Retrying", "Recovered"]
        assert (told[0].name, told[0].attempt, told[0].category) == ("agent mine", 1, "agent_crash")
        assert sys.modules["registry_case"].Agent.closed == [1, 2, 3]
    else:
        assert asyncio.run(_proposal_of(registry)).code == "AGENT_FAILED"
        assert sys.modules["registry_case"].Agent.made == allowed + 1
        assert len(told) == allowed


REFUSED = """
from harness.model.policy import UNLIMITED
from harness.model.settings import Settings
from harness.model.tool_settings import offered_to_agents
from harness.recovery.failure import Failed, Failure

class Agent:
    def propose(self, plan, history, observe):
        raise Failed(Failure(CODE, "no"))
"""


@pytest.mark.parametrize(("code", "counts"), [("AGENT_FAILED", True), ("MODEL_UNAVAILABLE", False), ("NET_DNS", False)])
def test_only_its_own_failures_count_for_the_circuit_of_an_agent(root: Path, code: str, counts: bool) -> None:
    (root / "registry_case.py").write_text(REFUSED.replace("CODE", repr(code)), "utf-8")
    breaker = Breaker("agent:mine", BreakerSettings(failure_threshold=1), now=FakeClock().now)
    registry = Agents({"mine": AgentSettings(python="registry_case:Agent")}, root, lambda _: breaker)
    assert asyncio.run(_proposal_of(registry)).code == code
    assert (breaker.rests_for() > 0) == counts


LOADED = """
import sys
from pathlib import Path
import harness.runner.harness
from harness.agents.registry import Agents
from harness.model.settings import load_settings

settings = load_settings(Path())
assert settings.models
Agents(settings.agents, Path())
print(*sys.modules)
"""
OF_AGENTS = {
    "tenacity", "harness.resilience.retry",
    "harness.models", "harness.agents.llm", "pydantic_ai", "openai", "anthropic", "genai_prices",
}  # fmt: skip


def test_a_run_without_agents_loads_nothing_of_them_though_the_settings_have_some(tmp_path: Path) -> None:
    settings = (
        '[tool.harness.models.claude]\nprovider = "anthropic"\nmodel = "claude-haiku-4-5"\nkey = "${env:CLAUDE_KEY}"\n'
        '[tool.harness.agents.builder]\nagent = "llm"\noptions = { model = "claude" }\n'
    )
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert OF_AGENTS & set(done.stdout.split()) == set()


def test_agents_are_offered_the_servers_of_the_settings_as_their_policy_says(root: Path) -> None:
    tools = {
        "shop": {"url": "http://shop.local/mcp", "agents": True, "allow": ["get_*"]},
        "mail": {"url": "http://mail.local/mcp"},
    }
    agents = {"a": {"agent": "llm"}, "b": {"agent": "a", "policy": {"tools": ["shop.get_order"]}}, "c": {"agent": "b"}}
    settings = Settings.model_validate({"tools": tools, "agents": agents})
    registry = Agents(settings.agents, root, tools=offered_to_agents(settings.tools))
    offers = {name: [registry.source(name).policy.offers(*each) for each in CALLS] for name in "abc"}
    assert offers == {
        "a": [True, True, False, False],
        "b": [True, False, False, False],
        "c": [True, False, False, False],
    }
    assert registry.source("c").policy.writes == "declared"
    assert registry.agent("manual").policy(plan("manual")) is UNLIMITED


CALLS = [("shop", "get_order"), ("shop", "get_state"), ("shop", "place_order"), ("mail", "get_code")]


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (["shp.*"], "there is no tool server `shp` in [tool.harness.tools]: did you mean `shop`"),
        (
            ["mail.get"],
            "the server `mail` are not offered to agents: write `agents = true` into its table",
        ),
        (["shop"], "a tool must be written `server.tool`, not 'shop'"),
        (["shop."], "a tool must be written `server.tool`, not 'shop.'"),
    ],
)
def test_a_policy_cannot_name_tools_that_no_agent_is_offered(patterns: list[str], said: str) -> None:
    tools = {"shop": {"url": "http://shop.local/mcp", "agents": True}, "mail": {"url": "http://mail.local/mcp"}}
    with pytest.raises(ValueError, match=re.escape(said)):
        Settings.model_validate({"tools": tools, "agents": {"a": {"agent": "llm", "policy": {"tools": patterns}}}})
    Settings.model_validate({"tools": tools, "agents": {"a": {"agent": "llm", "policy": {"tools": ["*.get", "s*.x"]}}}})
