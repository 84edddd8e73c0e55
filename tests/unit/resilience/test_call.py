"""Policies together: their scenarios, what holds in any order, and the example of the page."""

from __future__ import annotations

import asyncio
import math
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience import Backoff
from harness.resilience.breaker import Breaker, BreakerSettings, Call, CircuitOpen, Policy, compose, guard
from harness.resilience.escalate import escalate
from harness.resilience.events import CircuitChanged, Escalated, FellBack, GaveUp, Recovered, Retrying
from harness.resilience.fallback import Secondary, fallback
from harness.resilience.limit import LimitExceeded, limit
from harness.resilience.retry import SCHEDULES, retry
from harness.resilience.verdict import classify
from tests.unit.resilience.virtual import LoopClock, Scripted, Story, now, play

pytestmark = pytest.mark.fake_clock

PLAIN = Backoff(3, 1, 2)
DOWN = ConnectionRefusedError("down")


def circuit(story: Story, name: str = "provider:claude", **settings: Any) -> Policy[Any]:
    breaker = Breaker(name, BreakerSettings(**settings), now=LoopClock().now, emit=story)
    return guard(breaker, counts=lambda error: classify(error).retryable)


def retrying(story: Story, delays: Backoff = PLAIN, name: str = "call") -> Policy[Any]:
    return retry(delays, clock=LoopClock(), random=lambda: 0.5, emit=story, name=name)


def test_the_outermost_comes_first() -> None:
    order: list[str] = []

    def noting(name: str) -> Policy[Any]:
        def around(call: Call[Any]) -> Call[Any]:
            async def noted() -> Any:
                order.append(name)
                return await call()

            return noted

        return around

    assert play(compose(noting("a"), noting("b"), compose(noting("c")))(Scripted([1]))()) == 1
    assert order == ["a", "b", "c"]
    call = Scripted([1])
    assert compose()(call) is call


def test_each_retry_has_a_limit_of_its_own() -> None:
    async def main() -> float:
        call = Scripted([60.0, 60.0, 2.0])
        assert await compose(retrying(Story()), limit(5))(call)() == 2.0
        return now()

    assert play(main()) == 5 + 1 + 5 + 2 + 2


def test_a_limit_around_the_retries_is_for_all_of_them() -> None:
    async def main() -> float:
        with pytest.raises(LimitExceeded):
            await compose(limit(8), retrying(Story()), limit(5))(Scripted([60.0]))()
        return now()

    assert play(main()) == 8


def test_circuit_breaker_se_abre() -> None:
    """After five errors in a row the call fails at once, and the fallback is tried."""

    async def main() -> None:
        for _ in range(5):
            assert await ask() == "answer of openai"
        assert claude.calls == 5
        before = now()
        assert await ask() == "answer of openai"
        assert (claude.calls, now()) == (5, before)

    story, claude, openai = Story(), Scripted([DOWN]), Scripted(["answer of openai"])
    ask = compose(
        fallback(Secondary("openai", openai), primary="claude", emit=story),
        retrying(story, Backoff(0)),
        circuit(story),
    )(claude)
    play(main())
    assert [event.reason for event in story.of(CircuitChanged)] == ["consecutive_failures_5"]
    assert "CircuitOpen" in story.of(FellBack)[-1].error


def test_circuit_breaker_se_recupera() -> None:
    """After 30 seconds the circuit is half-open; the next call is a probe, and closes it."""

    async def main() -> None:
        with pytest.raises(CircuitOpen):
            await ask()
        await asyncio.sleep(30)
        assert await ask() == "well again"

    story, call = Story(), Scripted([DOWN] * 5 + ["well again"])
    ask = compose(retrying(story, Backoff(9, 0)), circuit(story, success_threshold=1))(call)
    play(main())
    assert [(event.before, event.after) for event in story.of(CircuitChanged)] == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ]


CHAIN = {"builder": ("builder-simple", "manual-mode")}
"""Who stands in for whom; the same shape for reviewer and planner."""


def agent(story: Story, calls: dict[str, Call[Any]], notify: Any = None, seconds: float = 120) -> Call[Any]:
    secondaries = [Secondary(name, calls[name]) for name in CHAIN["builder"]]
    return compose(
        fallback(*secondaries, primary="builder", notify=notify, emit=story, name="builder"),
        retrying(story, name="builder"),
        circuit(story, "agent:builder"),
        limit(seconds, "builder"),
    )(calls["builder"])


def test_fallback_a_agente_mas_simple() -> None:
    """The builder fails, its retries run out, the simple builder is tried; when it fails too, the user is told."""
    story, told = Story(), list[Exception]()
    calls = {
        "builder": Scripted([1000.0]),
        "builder-simple": Scripted(["a simple house"]),
        "manual-mode": Scripted([0]),
    }

    async def main() -> float:
        assert await agent(story, calls)() == "a simple house"
        return now()

    assert play(main()) == 4 * 120 + 1 + 2 + 4
    assert (calls["builder"].calls, calls["manual-mode"].calls) == (4, 0)
    assert [type(event) for event in story.events] == [Retrying] * 3 + [GaveUp, FellBack]
    assert (story.of(FellBack)[0].before, story.of(FellBack)[0].after) == ("builder", "builder-simple")

    calls = {name: Scripted([RuntimeError(name)]) for name in calls}
    with pytest.raises(RuntimeError, match="builder") as caught:
        play(agent(story, calls, told.append)())
    assert told == [caught.value] == calls["builder"].script
    assert caught.value.__notes__ == [
        "builder-simple failed too: RuntimeError: builder-simple",
        "manual-mode failed too: RuntimeError: manual-mode",
    ]


async def test_an_agent_whose_circuit_is_open_is_replaced_at_once() -> None:
    """With an open circuit the fallback is tried at once."""
    story = Story()
    calls = {"builder": Scripted([DOWN]), "builder-simple": Scripted(["simple"]), "manual-mode": Scripted([0])}
    ask = agent(story, calls)
    assert [await ask(), await ask()] == ["simple", "simple"]
    assert calls["builder"].calls == 5, "the fifth failure opened it, in the midst of the second call's retries"
    before = now()
    assert await ask() == "simple"
    assert (now(), calls["builder"].calls) == (before, 5)


def test_a_rate_limit_is_waited_out_as_the_server_says() -> None:
    """After an answer 429 the delay is what the server suggests."""
    error = RuntimeError("429")
    error.response = SimpleNamespace(status_code=429, headers={"Retry-After": "12"})  # type: ignore[attr-defined]
    story, call = Story(), Scripted([error, "answer"])
    assert play(compose(retrying(story), circuit(story), limit(60, "llm-call"))(call)()) == "answer"
    assert (call.at, story.of(Recovered)[0].seconds) == ([0, 12], 12)


ERRORS = [DOWN, TimeoutError("slow"), socket.gaierror(-2, "no such name"), MemoryError(), KeyError("a defect")]
AMPLE = 1e6
"""Seconds: longer than anything in these tests takes."""

layer = st.one_of(
    st.tuples(st.just("retry"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["limit", "escalate", "fallback", "guard"]), st.just(0)),
)
layers = st.lists(layer, max_size=6)


def built(
    stack: list[tuple[str, int]], story: Story, seconds: float, stages: tuple[float, ...], secondary: Call[Any]
) -> Policy[Any]:
    def one(kind: str, number: int) -> Policy[Any]:
        match kind:
            case "retry":
                return retrying(story, Backoff(number, 1, 2))
            case "limit":
                return limit(seconds)
            case "escalate":
                return escalate(stages, emit=story)
            case "fallback":
                return fallback(Secondary("other", secondary), max_age=10, clock=LoopClock(), emit=story)
            case _:
                return circuit(story)

    return compose(*(one(kind, number) for kind, number in stack))


@given(layers, st.lists(st.sampled_from([*ERRORS, "answer"]), min_size=1, max_size=30))
def test_in_any_order_never_more_calls_than_the_budgets_and_no_wait_that_was_not_told(
    stack: list[tuple[str, int]], script: list[Any]
) -> None:
    story, call = Story(), Scripted(script)

    async def main() -> tuple[Any, float]:
        policy = built(stack, story, AMPLE, (2, 5, AMPLE), Scripted([DOWN]))
        try:
            answer = await policy(call)()
        except Exception as error:
            answer = error
        return answer, now()

    answer, waited = play(main())
    assert 1 <= call.calls <= math.prod(1 + number for kind, number in stack if kind == "retry")
    assert waited == pytest.approx(sum(event.delay for event in story.of(Retrying)))
    assert answer in script or isinstance(answer, CircuitOpen)


@given(
    layers,
    st.lists(st.one_of(st.sampled_from(ERRORS), st.floats(0.1, 50)), min_size=1, max_size=12),
    st.sampled_from([0.5, 3.0, 20.0]),
    st.floats(0, 60),
)
def test_in_any_order_a_cancellation_ends_it_at_once_and_nothing_is_called_any_more(
    stack: list[tuple[str, int]], script: list[Any], seconds: float, after: float
) -> None:
    story, call = Story(), Scripted(script)

    async def main() -> None:
        policy = built(stack, story, seconds, (2, 5, 30), Scripted([20.0]))
        task = asyncio.ensure_future(policy(call)())
        await asyncio.wait({task}, timeout=after)
        if task.done():
            task.exception()
            return
        assert task.cancel("enough")
        await asyncio.wait({task})
        assert task.cancelled()
        assert now() == pytest.approx(after, abs=1e-6)
        if not any(event.limit is None for event in story.of(Escalated)):
            made = call.calls
            await asyncio.sleep(1000)
            assert call.calls == made

    play(main())


PAGE = Path(__file__).parents[3] / "docs" / "resilience.md"


def test_the_example_of_the_page_runs_alone_and_prints_what_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    example, printed = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", page, re.DOTALL).groups()  # type: ignore[union-attr]
    script = tmp_path / "example.py"
    script.write_text(example, "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == (printed, "")


def test_the_tables_of_the_page_say_what_the_code_does() -> None:
    page = PAGE.read_text("utf-8")
    delays = {name: ", ".join(f"{value:g}" for value in values) for name, values in SCHEDULES.items()}
    rows = [f'| `schedule("{name}")` | {row} |' for name, row in delays.items()]
    policies = [f"| `{policy.__name__}` |" for policy in (fallback, retry, guard, limit, escalate)]
    assert [said for said in (*rows, *policies) if said not in page.replace("\n", " ")] == []
