"""What happens around the requests of a task: retries, circuits, pace, fallbacks, limits, ledger, budgets."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from harness.model.inference import Prompt, Usage
from harness.models.run import RunModels
from harness.models.transport import Way
from harness.models.verdicts import SAID_WRONG, ModelError
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.resilience.breaker import CircuitState
from harness.resilience.events import CircuitChanged, FellBack, GaveUp, Recovered, Retrying, Waiting
from harness.runner.circuits import thresholds_of
from tests.unit.models.scripted import DONE, PROMPT, ScriptedRun, failing, model, plan
from tests.unit.resilience.virtual import now, play

pytestmark = pytest.mark.fake_clock

DOWN = failing(503)


async def code_of(task: Any, name: str = "claude", prompt: Prompt = PROMPT) -> str:
    with pytest.raises(Failed) as caught:
        await task.client("builder", 7).ask(name, prompt)
    return caught.value.failure.code


async def test_a_transient_failure_is_retried_after_1_2_and_4_seconds() -> None:
    run = ScriptedRun({"claude": [DOWN, DOWN, DOWN, DONE]})
    answer = await run.task().client("builder", 7).ask("claude", PROMPT)

    assert answer.calls == DONE.calls
    assert answer.call.attempt == 4
    assert run.wires["claude"].at == [0, 1, 3, 7]
    retries = run.told(Retrying)
    assert [(each.attempt, each.retries, each.delay) for each in retries] == [(1, 3, 1), (2, 3, 2), (3, 3, 4)]
    assert [(each.seconds, each.attempts) for each in run.told(Recovered)] == [(7, 4)]


def test_after_three_retries_the_failure_has_its_code() -> None:
    run = ScriptedRun({"claude": [DOWN]})

    assert play(code_of(run.task())) == "MODEL_UNAVAILABLE"
    assert len(run.wires["claude"].at) == 4
    assert [each.exhausted for each in run.told(GaveUp)] == [True]


async def test_the_wait_that_the_provider_asks_for_replaces_the_schedule() -> None:
    run = ScriptedRun({"claude": [failing(429, retry_after=5), DONE]})
    await run.task().client("builder", 0).ask("claude", PROMPT)
    assert run.wires["claude"].at == [0, 5]


async def test_a_wait_above_the_longest_is_given_up_and_binds_the_next_question() -> None:
    run = ScriptedRun({"claude": [failing(429, retry_after=90)]})
    task = run.task()
    assert await code_of(task) == "MODEL_RATE_LIMITED"
    assert await code_of(task) == "MODEL_RATE_LIMITED"
    assert run.wires["claude"].at == [0], "the second question was not sent"
    assert len(task.ledger.calls) == 1


async def test_a_floor_binds_all_tasks() -> None:
    run = ScriptedRun({"claude": [failing(429, retry_after=2), DONE]})
    run.wires["claude"].seconds = 0.1
    tasks = [run.task(task_id=f"T-{number}") for number in range(20)]
    await tasks[0].client("builder", 0).ask("claude", PROMPT)  # its own 429 and retry
    run.wires["claude"].script = [failing(429, retry_after=2), DONE]
    since = now()
    await asyncio.gather(*(task.client("builder", 0).ask("claude", PROMPT) for task in tasks))
    left = [at - since for at in run.wires["claude"].at if at >= since]
    early = [at for at in left if at < 2]
    assert len(early) <= 4, "no more than the requests that were under way together"
    assert all(at <= 0.1 for at in early), "and none after the 429 was read"
    assert len(left) == 21
    waits = run.told(Waiting)
    assert waits
    assert all(each.reason == "provider:claude has asked to wait" for each in waits)


async def test_five_failures_open_the_circuit_and_the_sixth_question_sends_nothing() -> None:
    run = ScriptedRun({"claude": [DOWN], "gpt": [DONE]}, claude=model(fallback=["gpt"], retry={"retries": 0}))
    task = run.task()
    for _ in range(5):
        await task.client("builder", 0).ask("claude", PROMPT)
    assert run.breaker("claude").state is CircuitState.OPEN

    answer = await task.client("builder", 0).ask("claude", PROMPT)

    assert answer.call.model == "gpt"
    assert len(run.wires["claude"].at) == 5
    assert len(run.wires["gpt"].at) == 6
    assert [(each.before, each.after) for each in run.told(FellBack)] == [("claude", "gpt")] * 6
    assert "circuit provider:claude is open" in run.told(FellBack)[-1].error


async def test_after_30_seconds_one_of_50_callers_is_the_probe() -> None:
    run = ScriptedRun({"claude": [DOWN], "gpt": [DONE]}, claude=model(fallback=["gpt"], retry={"retries": 0}))
    task = run.task()
    for _ in range(5):
        await task.client("builder", 0).ask("claude", PROMPT)
    await asyncio.sleep(30)
    run.wires["claude"].script, run.wires["claude"].seconds = [DONE], 1.0
    assert run.breaker("claude").state is CircuitState.HALF_OPEN

    answers = await asyncio.gather(*(run.task().client("builder", 0).ask("claude", PROMPT) for _ in range(50)))

    assert sum(each.call.model == "claude" for each in answers) >= 1
    assert len([at for at in run.wires["claude"].at if at < 31]) == 6, "one probe until it has ended"
    assert run.breaker("claude").state is CircuitState.CLOSED
    states = [(each.before, each.after) for each in run.told(CircuitChanged)]
    assert states == [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]


@pytest.mark.parametrize("code", ["MODEL_AUTH", "MODEL_QUOTA", "MODEL_REJECTED", "MODEL_REFUSED", "MODEL_NOT_FOUND"])
async def test_what_a_retry_cannot_cure_goes_to_the_fallback_at_once_and_counts_nowhere(code: str) -> None:
    run = ScriptedRun({"claude": [ModelError(code, "no")], "gpt": [DONE]}, claude=model(fallback=["gpt"]))
    answer = await run.task().client("builder", 0).ask("claude", PROMPT)
    assert answer.call.model == "gpt"
    assert (run.wires["claude"].at, run.wires["gpt"].at) == ([0], [0])
    assert run.breaker("claude").failures == 0


def test_a_garbled_answer_is_asked_for_once_more_and_then_told() -> None:
    said = ModelError("MODEL_GARBLED", "no JSON", rule=SAID_WRONG)
    run = ScriptedRun({"claude": [said], "gpt": [DONE]}, claude=model(fallback=["gpt"]))

    assert play(code_of(run.task())) == "MODEL_GARBLED"
    assert len(run.wires["claude"].at) == 2
    assert run.wires["gpt"].at == []
    assert run.breaker("claude").failures == 0


async def test_an_unreadable_answer_is_the_providers_failure() -> None:
    run = ScriptedRun(
        {"claude": [ModelError("MODEL_GARBLED", "<html>")], "gpt": [DONE]}, claude=model(fallback=["gpt"])
    )
    answer = await run.task().client("builder", 7).ask("claude", PROMPT)
    assert answer.call.model == "gpt"
    assert (len(run.wires["claude"].at), len(run.wires["gpt"].at)) == (4, 1), "retried as others are, then replaced"
    assert run.breaker("claude").failures == 4


def test_no_other_model_is_ever_asked_than_the_declared_ones() -> None:
    run = ScriptedRun({"claude": [DOWN], "gpt": [DONE]})

    assert play(code_of(run.task())) == "MODEL_UNAVAILABLE"
    assert run.wires["gpt"].at == []


async def test_when_all_fail_the_first_failure_is_told_with_the_others() -> None:
    run = ScriptedRun(
        {"claude": [DOWN], "gpt": [failing(401)], "local": [failing(529)]},
        claude=model(fallback=["gpt"], retry={"retries": 0}),
        gpt=model(fallback=["local"], retry={"retries": 0}),
        local=model(retry={"retries": 0}),
    )
    with pytest.raises(Failed) as caught:
        await run.task().client("builder", 0).ask("claude", PROMPT)
    failure = caught.value.failure
    assert failure.code == "MODEL_UNAVAILABLE"
    assert "gpt failed too" in failure.message
    assert "local failed too" in failure.message


async def test_a_prompt_that_is_too_long_is_shortened_once() -> None:
    overflow = ModelError("MODEL_CONTEXT_OVERFLOW", "too long")
    short = Prompt("Rules.", ("short",), smaller=lambda: Prompt("", ()))
    run = ScriptedRun({"claude": [overflow, DONE]})
    await run.task().client("builder", 0).ask("claude", Prompt("Rules.", ("long",), smaller=lambda: short))
    assert [prompt.parts for prompt in run.wires["claude"].prompts] == [("long",), ("short",)]


def test_a_prompt_that_stays_too_long_goes_to_the_fallback_and_then_has_its_code() -> None:
    overflow = ModelError("MODEL_CONTEXT_OVERFLOW", "too long")
    run = ScriptedRun({"claude": [overflow], "gpt": [overflow]}, claude=model(fallback=["gpt"]))
    prompt = Prompt("", ("long",), smaller=lambda: PROMPT)

    assert play(code_of(run.task(), prompt=prompt)) == "MODEL_CONTEXT_OVERFLOW"
    assert [len(run.wires[name].at) for name in ("claude", "gpt")] == [2, 2]


async def test_without_resilience_there_is_one_request() -> None:
    run = ScriptedRun(
        {"claude": [failing(503, retry_after=1)], "gpt": [DONE]}, enabled=False, claude=model(fallback=["gpt"])
    )
    for _ in range(6):
        assert await code_of(run.task()) == "MODEL_UNAVAILABLE"
    assert run.wires["claude"].at == [0] * 6
    assert run.wires["gpt"].at == []
    assert run.breaker("claude").state is CircuitState.CLOSED


async def test_the_failures_of_a_task_with_faults_open_no_circuit_of_others() -> None:
    run = ScriptedRun({"claude": [failing(429, retry_after=3)]}, claude=model(retry={"retries": 0}))
    faults = [{"kind": "page_crash", "step": 0}]
    task = run.task(faults=faults)
    for _ in range(5):
        assert await code_of(task) == "MODEL_RATE_LIMITED"
    run.wires["claude"].script = [DONE]
    at = now()
    await run.task().client("builder", 0).ask("claude", PROMPT)
    assert run.wires["claude"].at[-1] == at
    assert run.breaker("claude").failures == 0


# The ledger and the budget.


def test_each_request_is_in_the_ledger_and_has_two_events() -> None:
    run = ScriptedRun({"claude": [DOWN, DONE]}, claude=model(price={"input": 1, "output": 5}))
    task = run.task()

    play(task.client("builder", 7).ask("claude", PROMPT))

    first, second = task.ledger.calls
    assert (first.outcome, first.code, first.attempt, first.usage, first.cost) == (
        "failed", "MODEL_UNAVAILABLE", 1, Usage(), 0,
    )  # fmt: skip
    assert (second.outcome, second.attempt, second.usage.input, second.step) == ("answered", 2, 100, 7)
    assert second.cost == pytest.approx((100 * 1 + 10 * 5) / 1e6)
    assert [each.call for each in run.answered] == [first, second]
    assert [(each.agent, each.model, each.step) for each in run.asked] == [("builder", "claude", 7)] * 2


async def test_a_cancelled_request_is_never_free() -> None:
    run = ScriptedRun({"claude": [30.0]}, claude=model(price={"input": 1, "output": 5}))
    task = run.task()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await task.client("builder", 0).ask("claude", PROMPT)
    (call,) = task.ledger.calls
    assert (call.outcome, call.seconds, call.usage.estimated) == ("cancelled", 3, True)
    assert call.usage.input == 100
    assert call.cost == pytest.approx(100 / 1e6)


def test_an_answer_that_takes_too_long_is_charged_too() -> None:
    run = ScriptedRun({"claude": [90.0]}, claude=model(retry={"retries": 0}))
    task = run.task()

    assert play(code_of(task)) == "MODEL_TIMEOUT"
    (call,) = task.ledger.calls
    assert (call.outcome, call.code, call.seconds) == ("failed", "MODEL_TIMEOUT", 60)
    assert call.usage == Usage(input=100, estimated=True)
    assert call.cost is None, "its price is unknown, which is not nothing"


@pytest.mark.parametrize(
    ("budget", "words", "requests"),
    [
        ({"max_model_calls": 2}, "`max_model_calls` allows 2 requests to models, and 2 were sent, so model", 2),
        ({"max_tokens": 500}, "allows 500 tokens: 220 were used, and the next request needs about 300, so model", 2),
        ({"max_cost": 0.0045}, "$0.0045: $0.0022 were spent, and the next request costs about $0.0030, so model", 2),
    ],
)
async def test_a_budget_is_asked_before_each_request(budget: Any, words: str, requests: int) -> None:
    run = ScriptedRun(
        {"claude": [DONE], "gpt": [DONE]}, claude=model(fallback=["gpt"], price={"input": 10, "output": 10})
    )
    task = run.task(budget=budget)
    for _ in range(requests):
        await task.client("builder", 0).ask("claude", PROMPT)
    with pytest.raises(Failed) as caught:
        await task.client("builder", 0).ask("claude", PROMPT)
    assert caught.value.failure.code == "BUDGET_EXCEEDED"
    assert words in caught.value.failure.message
    assert f"Raise `{next(iter(budget))}` in `budget`" in caught.value.failure.hint
    assert len(run.wires["claude"].at) == requests
    assert run.wires["gpt"].at == []


def test_the_budget_ends_retries_and_fallbacks_too() -> None:
    run = ScriptedRun({"claude": [DOWN], "gpt": [DONE]}, claude=model(fallback=["gpt"]))
    task = run.task(budget={"max_model_calls": 2})

    assert play(code_of(task)) == "BUDGET_EXCEEDED"
    assert len(task.ledger.calls) == 2


def test_max_cost_with_an_unknown_price_is_refused() -> None:
    run = ScriptedRun({"claude": [DONE]})

    assert play(code_of(run.task(budget={"max_cost": 1}))) == "MODEL_UNPRICED"
    assert run.wires["claude"].at == []


async def test_an_unknown_model_is_named_with_what_was_meant() -> None:
    run = ScriptedRun({"claude": [DONE]})
    with pytest.raises(Failed) as caught:
        await run.task().client("builder", 0).ask("cloude", PROMPT)
    assert caught.value.failure.code == "MODEL_NOT_FOUND"
    assert "did you mean `claude`?" in caught.value.failure.message


async def test_a_task_closes_its_wires() -> None:
    run = ScriptedRun({"claude": [DONE]})
    task = run.task()
    await task.client("builder", 3).ask("claude", PROMPT)
    await task.close()
    assert run.wires["claude"].closed


# What a run gives its tasks.


def run_of(**environ: str) -> RunModels:
    claude = model(provider="anthropic", model="claude-haiku-4-5", key="${env:PLANTED_KEY}")
    return RunModels(
        {"claude": claude},
        clock=SystemClock(),
        environ=environ,
        breaker=lambda _: None,
        thresholds=thresholds_of,
    )


async def refused(run: RunModels) -> Failed:
    task = run.of(plan(), dict, lambda _: None, lambda: 0.5, lambda _: Way())
    with pytest.raises(Failed) as caught:
        await task.client("builder", 0).ask("claude", PROMPT)
    assert task.ledger.calls == (), "nothing was sent"
    await task.close()
    await run.close()
    return caught.value


def test_without_its_key_a_model_is_not_asked() -> None:
    failure = asyncio.run(refused(run_of())).failure
    assert failure.code == "MODEL_AUTH"
    assert failure.message == "Model `claude` was not asked: the variable PLANTED_KEY of its key is not set"


def test_a_key_that_is_set_and_empty_is_not_called_unset() -> None:
    failure = asyncio.run(refused(run_of(PLANTED_KEY=""))).failure
    assert failure.message == "Model `claude` was not asked: the variable PLANTED_KEY of its key is set, but empty"


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    monkeypatch.delitem(sys.modules, "harness.models.wire", raising=False)
    failure = asyncio.run(refused(run_of(PLANTED_KEY="sk-planted"))).failure
    assert failure.code == "AGENT_UNAVAILABLE"
    assert "pip install 'pytest-taskspec[agents]'" in failure.message
    assert "sk-planted" not in failure.message
