"""Foreign code at arm's length: its thread, its time, its looks at the page."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.agents.python import AgentClient, AgentSource, PythonAgent
from harness.model.inference import Prompt
from harness.model.ports import Observation
from harness.recovery.failure import Failed, Failure

PLAN: Any = SimpleNamespace(key="T", agent="told")
SEEN = Observation(url="http://shop.local/", title="Shop", aria="")


def plugged(agent: Any, timeout: float = 10.0) -> PythonAgent:
    """As if `agent` had been made from the settings."""

    class Given(AgentSource):
        def make(self, models: Any = None) -> Any:
            return agent

    return PythonAgent(Given("told", "m", "A", Path(), timeout))


async def observe(*, screenshot: bool = False) -> Observation:
    await asyncio.sleep(0)
    return SEEN


def ask(agent: Any, timeout: float = 10.0, look: Any = observe) -> Any:
    async def main() -> Any:
        made = plugged(agent, timeout)
        try:
            return await made.propose(PLAN, (), look)
        finally:
            await made.close()

    return asyncio.run(main())


def told(propose: Callable[..., Any]) -> Any:
    return SimpleNamespace(propose=propose)


def test_a_sync_agent_looks_from_a_thread_of_its_own() -> None:
    threads: list[str] = []

    def propose(plan: Any, history: Any, observe: Any) -> Any:
        threads.append(threading.current_thread().name)
        return observe(screenshot=True).title

    assert ask(told(propose)) == "Shop"
    assert threads == ["agent told"]


def test_an_async_agent_awaits_its_looks_and_keeps_its_loop() -> None:
    loops: list[Any] = []

    async def propose(plan: Any, history: Any, observe: Any) -> Any:
        loops.append(asyncio.get_running_loop())
        one, two = await asyncio.gather(observe(), observe(screenshot=True))
        return one.title + two.title

    async def main() -> list[Any]:
        agent = plugged(told(propose))
        answers = [await agent.propose(PLAN, (), observe) for _ in range(2)]
        await agent.close()
        assert asyncio.get_running_loop() not in loops
        return answers

    assert asyncio.run(main()) == ["ShopShop", "ShopShop"]
    assert loops[0] is loops[1]


def test_a_function_that_returns_something_to_await_is_awaited() -> None:
    async def later() -> str:
        return "later"

    assert ask(told(lambda plan, history, observe: later())) == "later"


def test_an_agent_that_blocks_holds_nobody_up() -> None:
    release = threading.Event()

    async def main() -> int:
        agent = plugged(told(lambda *_: release.wait(60)), timeout=0.2)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        counting = asyncio.ensure_future(count())
        with pytest.raises(Failed, match=r"Agent `told` did not propose a step within 0.2s") as caught:
            await agent.propose(PLAN, (), observe)
        counting.cancel()
        assert caught.value.failure.code == "AGENT_TIMEOUT"
        async with asyncio.timeout(2):
            await agent.close()
        return turns

    assert asyncio.run(main()) > 3
    release.set()


def test_an_async_agent_that_is_late_is_cancelled() -> None:
    cancelled = threading.Event()

    async def propose(plan: Any, history: Any, observe: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(Failed) as caught:
        ask(told(propose), timeout=0.1)
    assert caught.value.failure.code == "AGENT_TIMEOUT"
    assert cancelled.wait(10)


def test_the_time_of_a_look_is_not_the_agents() -> None:
    async def slow(*, screenshot: bool = False) -> Observation:
        await asyncio.sleep(0.8)
        return SEEN

    assert ask(told(lambda plan, history, observe: observe().title), timeout=0.5, look=slow) == "Shop"


def test_a_look_that_fails_raises_in_the_agent_and_keeps_its_failure() -> None:
    async def hung(*, screenshot: bool = False) -> Observation:
        raise Failed(Failure("PAGE_UNRESPONSIVE", "the page hangs"))

    def careful(plan: Any, history: Any, observe: Any) -> str:
        with pytest.raises(Failed):
            observe()
        return "went on"

    assert ask(told(careful), look=hung) == "went on"
    with pytest.raises(Failed) as caught:
        ask(told(lambda plan, history, observe: observe()), look=hung)
    assert caught.value.failure.code == "PAGE_UNRESPONSIVE"


async def test_a_look_after_the_proposal_is_refused() -> None:
    kept: list[Any] = []
    agent = plugged(told(lambda plan, history, observe: kept.append(observe)))
    await agent.propose(PLAN, (), observe)
    with pytest.raises(RuntimeError, match="only while propose"):
        kept[0]()
    await agent.close()


def test_an_interruption_stops_a_look_that_is_under_way() -> None:
    looking, stopped = asyncio.Event(), threading.Event()

    async def endless(*, screenshot: bool = False) -> Observation:
        looking.set()
        await asyncio.Event().wait()
        return SEEN

    def propose(plan: Any, history: Any, observe: Any) -> None:
        try:
            observe()
        finally:
            stopped.set()

    async def main() -> None:
        agent = plugged(told(propose))
        asking = asyncio.ensure_future(agent.propose(PLAN, (), endless))
        await looking.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(stopped.wait, 10)
        await agent.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no"), "no"),
        (StopIteration("no"), "StopIteration"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (asyncio.CancelledError(), "CancelledError: "),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_whatever_an_agent_raises_ends_neither_the_loop_nor_the_run(
    error: BaseException, message: str, later: bool
) -> None:
    def now(plan: Any, history: Any, observe: Any) -> Any:
        raise error

    async def soon(plan: Any, history: Any, observe: Any) -> Any:
        raise error

    with pytest.raises(Failed) as caught:
        ask(told(soon if later else now))
    assert caught.value.failure.code == "AGENT_FAILED"
    assert message in str(caught.value)
    assert isinstance(caught.value.failure.cause, ValueError | RuntimeError)


def test_close_is_called_once_and_may_be_async() -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    agent = told(lambda *_: None)
    agent.close = close
    assert ask(agent) is None
    assert closed == ["closed"]


def test_a_close_that_fails_is_said_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    agent = told(lambda *_: "step")
    agent.close = lambda: 1 / 0
    with caplog.at_level(logging.WARNING):
        assert ask(agent) == "step"
    assert "Agent `told`: close() failed" in caplog.text


async def test_making_an_agent_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_make.py").write_text(
        "import threading\nrelease = threading.Event()\n\ndef make():\n    release.wait(60)\n", "utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    agent = PythonAgent(AgentSource("told", "slow_to_make", "make", tmp_path, 0.2))
    with pytest.raises(Failed, match="was not created within") as caught:
        await agent.propose(PLAN, (), observe)
    assert caught.value.failure.code == "AGENT_TIMEOUT"
    await agent.close()
    sys.modules.pop("slow_to_make").release.set()


# Models, which an agent asks on its own thread and which answer on the loop of the harness.


class Slow:
    """A model that takes its time, and notes which loop it answers on."""

    def __init__(self) -> None:
        self.loops: list[Any] = []

    async def ask(self, model: str, prompt: Any) -> Any:
        self.loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.4)
        return f"{model} says {prompt}"


def test_an_agent_with_a_parameter_for_models_asks_them_and_their_time_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "asking_agent.py").write_text(
        "import asyncio\n"
        "class Asks:\n"
        "    def __init__(self, models, name='claude'):\n"
        "        self.models, self.name = models, name\n"
        "    async def propose(self, plan, history, observe):\n"
        "        return await self.models.ask(self.name, 'hello')\n"
        "class Blocks(Asks):\n"
        "    def propose(self, plan, history, observe):\n"
        "        return asyncio.run(self.models.ask(self.name, 'hello'))\n",
        "utf-8",
    )
    slow, wanted = Slow(), list[Any]()
    history: Any = [SimpleNamespace(step=SimpleNamespace(act=act)) for act in ("open", "invalid", "invalid")]

    def models(plan: Any, agent: str, step: int) -> Any:
        wanted.append((plan.key, agent, step))
        return slow

    async def main(name: str) -> Any:
        source = AgentSource("told", "asking_agent", name, tmp_path, 0.2, {"name": "gpt"})
        agent = PythonAgent(source, models)
        try:
            answer = await agent.propose(PLAN, history, observe)
            assert slow.loops[-1] is asyncio.get_running_loop()
            return answer
        finally:
            await agent.close()

    assert [asyncio.run(main(name)) for name in ("Asks", "Blocks")] == ["gpt says hello"] * 2
    assert wanted == [("T", "told", 1)] * 2, "a refused proposal is no step"


async def test_models_can_be_used_only_while_a_step_is_chosen() -> None:
    with pytest.raises(RuntimeError, match="only while propose"):
        await AgentClient().ask("claude", Prompt("", ()))


QUICK = 0.005
"""Seconds that a proposal may cost beside the agent's own time, its models and its looks at the page."""


def test_a_proposal_costs_less_than_5_ms() -> None:
    """Of 50 the quickest: the others may have waited for a busy machine."""

    async def main() -> float:
        made = plugged(told(lambda plan, history, observe: {"act": "click", "selector": "#a"}))
        took = []
        for _ in range(50):
            began = time.perf_counter()
            await made.propose(PLAN, (), observe)
            took.append(time.perf_counter() - began)
        await made.close()
        return min(took)

    assert asyncio.run(main()) < QUICK
