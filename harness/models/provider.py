"""One model as a whole run asks it: its circuit, its pace, and the policies around each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from harness.model.events import MODEL
from harness.model.inference import Prompt
from harness.model.model_settings import ModelSettings
from harness.models.exchange import WireAnswer
from harness.models.verdicts import ModelError, asked_to_wait, is_the_providers, slows_down
from harness.resilience import Backoff, Clock
from harness.resilience.breaker import Breaker, Call, Policy, compose, guard
from harness.resilience.events import Emit
from harness.resilience.limit import LimitExceeded, limit
from harness.resilience.pace import ProviderPace, pace
from harness.resilience.retry import retry

ADDRESSES: Final = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""The addresses of the providers' APIs."""


class ModelLane(Struct, frozen=True):
    """What all calls of one model share: a task whose faults were ordered has lanes of its own."""

    breaker: Callable[[], Breaker | None]
    pace: ProviderPace


class Surroundings(Struct, frozen=True):
    """What the policies need of the run."""

    clock: Clock
    random: Callable[[], float]
    emit: Emit
    enabled: bool
    """Whether calls are retried, guarded and replaced; otherwise each is one request (RESILIENCE_ENABLED=false)."""


def around(
    name: str, settings: ModelSettings, lane: ModelLane, around_it: Surroundings, *, repeats: bool = True
) -> Policy[Any]:
    """The policies around each request to one model: retry, pace, guard. `in_time` is inside them, around the wire.

    Without `repeats` there is no retry: those of a request that a process makes itself are its own.
    """
    if not around_it.enabled:
        return lambda call: call
    policies: list[Policy[Any]] = [_again(name, settings, around_it)] if repeats else []
    policies.append(_in_turn(name, settings, lane, around_it))
    if (breaker := lane.breaker()) is not None:
        policies.append(guard(breaker, counts=is_the_providers, describe=_describe_generally))
    return compose(*policies)


def in_time(name: str, settings: ModelSettings) -> Policy[Any]:
    """The limits of one request; all of them become MODEL_TIMEOUT."""
    bounded: Policy[Any] = limit(settings.limits.total, f"the answer of model `{name}`")

    def policy(call: Call[Any]) -> Call[Any]:
        async def timed() -> Any:
            try:
                return await bounded(call)()
            except LimitExceeded as error:
                text = str(error)
                raise ModelError("MODEL_TIMEOUT", text[:1].upper() + text[1:], billed=True) from error

        return timed

    return policy


def smaller_once(prompt: Prompt, ask: Callable[[Prompt], Call[WireAnswer]]) -> Call[WireAnswer]:
    """Ask; if the context window is too small, ask once more with less context."""

    async def asked() -> WireAnswer:
        try:
            return await ask(prompt)()
        except ModelError as error:
            if error.code != "MODEL_CONTEXT_OVERFLOW" or prompt.smaller is None:
                raise
        return await ask(prompt.smaller())()

    return asked


def _again(name: str, settings: ModelSettings, around_it: Surroundings) -> Policy[WireAnswer]:
    wanted = settings.retry
    waits = Backoff(retries=wanted.retries, initial=wanted.initial, cap=wanted.cap, jitter=wanted.jitter)
    return retry(
        waits,
        clock=around_it.clock,
        random=around_it.random,
        emit=around_it.emit,
        name=f"{MODEL}{name}",
        max_suggested=wanted.max_suggested,
    )


def _in_turn(name: str, settings: ModelSettings, lane: ModelLane, around_it: Surroundings) -> Policy[WireAnswer]:
    return pace(
        lane.pace,
        slows=slows_down,
        asked=asked_to_wait,
        longest=settings.retry.max_suggested,
        emit=around_it.emit,
        who=f"{MODEL}{name}",
    )


def _describe_generally(error: BaseException) -> str:
    """The error in general words: other tasks see it, and cannot know the secrets of this one."""
    if not isinstance(error, ModelError):
        return type(error).__name__
    return error.code if error.status is None else f"{error.code} ({error.status})"
