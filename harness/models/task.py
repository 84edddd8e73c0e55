"""The models as the agents of one task ask them: the port's client, the ledger, the events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx2
from msgspec import Struct

from harness.model.events import MODEL, Event, ModelAnswered, ModelAsked, emit_of_call
from harness.model.inference import CallOutcome, ModelAnswer, ModelCall, Prompt, Usage
from harness.model.model_settings import ModelSettings, fallbacks_of
from harness.model.plan import Plan
from harness.models.exchange import ANSWER_TOKENS, AsksModel, Exchange, WireAnswer, cost_of, is_priced, tokens_of
from harness.models.provider import ModelLane, Surroundings, around, in_time, smaller_once
from harness.models.verdicts import ModelError, failure_of, leads_to_fallback
from harness.recovery.failure import Failed, Failure, budget_exceeded
from harness.resilience import Clock
from harness.resilience.breaker import Call, CircuitOpen, Policy
from harness.resilience.events import Emit, ResilienceEvent
from harness.resilience.fallback import Secondary, fallback
from harness.resilience.pace import FloorTooHigh
from harness.spec.names import how_many
from harness.spec.problems import did_you_mean, join_or
from harness.spec.task import Budget
from harness.values import replace

_MakeWire = Callable[[str], Coroutine[Any, Any, AsksModel]]
"""The name of a model -> its wire. It may raise Failed and ModelError."""


class Sender(Struct, frozen=True):
    """What sends a request to a provider as it is."""

    transport: httpx2.AsyncBaseTransport
    key: str


_MakeSender = Callable[[str], Sender]
"""The name of a model -> what sends requests to it. Raises ModelError without its key."""


class TaskModels:
    """All models for one task. Use it on the harness's loop; `client` is for an agent's proposal."""

    def __init__(
        self,
        plan: Plan,
        models: Mapping[str, ModelSettings],
        lane: Callable[[str], ModelLane],
        wire: _MakeWire,
        around_it: Surroundings,
        emit: Callable[[Event], None],
        sender: _MakeSender | None = None,
    ) -> None:
        """`lane` returns what the calls of a model share, by the name of the model.

        `sender` makes what sends requests that a process makes itself.
        """
        self.sender = sender
        self.plan = plan
        self.models = models
        self.emit = emit
        self._lane = lane
        self.make_wire = wire
        self.surroundings = around_it
        self._wires: dict[str, asyncio.Task[AsksModel]] = {}
        self.ledger = Ledger(plan.spec.budget, models)

    def client(self, agent: str, step: int) -> AgentModels:
        """The models for the proposal of this agent for the step with this index."""
        return AgentModels(self, agent, step)

    def policies(self, model: str, emit: Emit, *, repeats: bool = True) -> Policy[Any]:
        """The policies around each request to a model; `emit` is told what they do. `repeats`: as of `around`."""
        around_it = replace(self.surroundings, emit=emit)
        return around(model, self.models[model], self._lane(model), around_it, repeats=repeats)

    @property
    def clock(self) -> Clock:
        return self.surroundings.clock

    async def wire(self, model: str) -> AsksModel:
        """The wire of a model, made when it is first used. Raises Failed, ModelError."""
        making = self._wires.get(model)
        if making is None or (making.done() and making.exception() is not None):
            making = self._wires[model] = asyncio.create_task(self.make_wire(model))
        return await asyncio.shield(making)

    async def close(self) -> None:
        """Close what the task has opened; it never raises."""
        for made in self._wires.values():
            if made.done() and not made.cancelled() and made.exception() is None:
                await made.result().close()
            else:
                made.cancel()


class AgentModels:
    """The port's client (`inference.ModelClient`) for one proposal."""

    def __init__(self, task: TaskModels, agent: str, step: int) -> None:
        self._task = task
        self._agent = agent
        self._step = step

    async def ask(self, model: str, prompt: Prompt) -> ModelAnswer:
        """Ask a model, with all its policies and fallbacks; on the harness's loop. Raises Failed."""
        task, models = self._task, self._task.models
        if model not in models:
            known = did_you_mean(model, models) or (f"known: {join_or(models)}" if models else "there is none")
            message = f"There is no model `{model}` in [tool.harness.models] ({known})"
            raise Failed(Failure("MODEL_NOT_FOUND", message, details={"model": model}))
        question = _Question(task, self._agent, self._step, prompt)
        others = fallbacks_of(models, model) if task.surroundings.enabled else ()
        secondaries = (Secondary(other, question.to(other), leads_to_fallback) for other in others)
        policy = fallback(*secondaries, primary=model, name=f"{MODEL}{model}", emit=question.tell)
        try:
            answer = await policy(question.to(model))()
        except (ModelError, CircuitOpen, FloorTooHigh) as error:
            raise question.refused or failure_of(error, model) from error
        return ModelAnswer(answer.text, answer.calls, question.answered)


class _Question:
    def __init__(self, task: TaskModels, agent: str, step: int, prompt: Prompt) -> None:
        self._task = task
        self._agent = agent
        self._step = step
        self._prompt = prompt
        self._attempts: Counter[str] = Counter()
        self.refused: Failed | None = None
        """The refusal of the task's budget, which comes before the failure of any model."""
        self._answered: ModelCall | None = None

    @property
    def answered(self) -> ModelCall:
        """The entry of the request that was answered."""
        assert self._answered is not None
        return self._answered

    def tell(self, event: ResilienceEvent) -> None:
        """Emit what the policies do about a request, as an event of the task."""
        emit_of_call(self._task.emit, self._task.plan, self._step, event)

    def to(self, model: str) -> Call[WireAnswer]:
        """The question to one model, with this model's policies."""

        async def asked() -> WireAnswer:
            await self._task.wire(model)  # imports take seconds, which are not the provider's
            policy: Policy[WireAnswer] = self._task.policies(model, self.tell)
            return await smaller_once(self._prompt, lambda prompt: policy(partial(self._once, model, prompt)))()

        return asked

    async def _once(self, model: str, prompt: Prompt) -> WireAnswer:
        """One request. Its entry is in the ledger when it leaves."""
        task, settings = self._task, self._task.models[model]
        try:
            task.ledger.permit(model, prompt)
        except Failed as failed:
            self.refused = failed
            raise
        wire = await task.wire(model)
        self._attempts[model] += 1
        booking = Booking(task, self._agent, model, self._step, self._attempts[model], tokens_of(prompt))
        try:
            with booking.under_way():
                answer: WireAnswer = await in_time(model, settings)(partial(wire.ask, prompt, booking.exchange))()
                return answer
        finally:
            self._answered = booking.entry


class Booking:
    """One request in the ledger, from the moment at which it leaves."""

    def __init__(self, task: TaskModels, agent: str, model: str, step: int, attempt: int, tokens: int) -> None:
        """`tokens`: those of the question, estimated."""
        self._task = task
        self.exchange = Exchange(agent, model, task.clock.now, task.clock.now(), tokens, step=step)
        self.entry = self._first_entry(attempt)
        self._place = task.ledger.enter(self.entry)
        task.emit(ModelAsked(task.plan, agent, model, step, self.entry.at))

    def _first_entry(self, attempt: int) -> ModelCall:
        """The entry of a request that leaves: if nothing corrects it, it was cancelled, and costs its estimate."""
        exchange, settings = self.exchange, self._task.models[self.exchange.model]
        call = ModelCall(
            agent=exchange.agent,
            model=exchange.model,
            provider=settings.provider,
            identifier=settings.model,
            step=exchange.step,
            attempt=attempt,
            at=self._task.clock.wall(),
            seconds=0.0,
            first_token=None,
            usage=Usage(),
            cost=None,
            outcome="cancelled",
        )
        return _charged(call, exchange.estimate(), settings)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Make its exchange the present one for what is called within, and correct the entry at the end."""
        outcome: CallOutcome = "cancelled"
        code = ""
        try:
            with self.exchange.under_way():
                yield
            outcome = "answered"
        except ModelError as error:
            outcome, code = "failed", error.code
            self.exchange.usage = self.exchange.usage if error.billed else Usage()
            raise
        finally:
            self._settle(outcome, code)

    def _settle(self, outcome: CallOutcome, code: str) -> None:
        task, exchange = self._task, self.exchange
        ended = replace(
            self.entry,
            seconds=round(task.clock.now() - exchange.began, 3),
            first_token=None if exchange.first is None else round(exchange.first, 3),
            outcome=outcome,
            code=code,
            replayed=exchange.replayed,
            recording=exchange.recording,
        )
        usage = exchange.estimate() if exchange.usage is None else exchange.usage
        self.entry = _charged(ended, usage, task.models[exchange.model])
        task.ledger.correct(self._place, self.entry)
        task.emit(ModelAnswered(task.plan, self.entry))


# The ledger of a task's calls: each request has an entry when it leaves, and the budget is asked first.


class Ledger:
    """The calls of one task, in the order in which they left."""

    def __init__(self, budget: Budget, models: Mapping[str, ModelSettings]) -> None:
        self._budget = budget
        self._models = models
        self._calls: list[ModelCall] = []

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        return tuple(self._calls)

    def permit(self, model: str, prompt: Prompt) -> None:
        """Ask the budget before a request. Raises Failed: BUDGET_EXCEEDED, MODEL_UNPRICED."""
        settings, budget = self._models[model], self._budget
        if budget.max_cost is not None and not is_priced(settings):
            raise Failed(_unpriced(model, settings))
        need = Usage(input=tokens_of(prompt), output=ANSWER_TOKENS)
        if budget.max_model_calls is not None and len(self._calls) >= budget.max_model_calls:
            allowed = how_many(budget.max_model_calls, "request")
            raise self._exceeded("max_model_calls", f"{allowed} to models, and {len(self._calls)} were sent", model)
        used = sum(call.usage.total for call in self._calls)
        if budget.max_tokens is not None and used + need.total > budget.max_tokens:
            says = f"{budget.max_tokens} tokens: {used} were used, and the next request needs about {need.total}"
            raise self._exceeded("max_tokens", says, model)
        if budget.max_cost is not None:
            spent, cost = sum(call.cost or 0.0 for call in self._calls), cost_of(need, settings) or 0.0
            if spent + cost > budget.max_cost:
                says = f"${budget.max_cost:g}: ${spent:.4f} were spent, and the next request costs about ${cost:.4f}"
                raise self._exceeded("max_cost", says, model)

    def _exceeded(self, limit: str, words: str, model: str) -> Failed:
        details = {"model": model, "model_calls": len(self._calls)}
        return Failed(budget_exceeded(limit, f"{words}, so model `{model}` was not asked", details))

    def enter(self, call: ModelCall) -> int:
        """Enter a request that leaves, with its estimate; return its place."""
        self._calls.append(call)
        return len(self._calls) - 1

    def correct(self, place: int, call: ModelCall) -> None:
        """Put the entry right at the end of the request."""
        self._calls[place] = call


def _unpriced(model: str, settings: ModelSettings) -> Failure:
    """The failure of a task with `max_cost` whose model has no known price."""
    message = (
        f"The budget has `max_cost`, but the price of model `{model}` ({settings.model}) is not known: set "
        f"[tool.harness.models.{model}.price], or use `max_tokens`"
    )
    return Failure("MODEL_UNPRICED", message, details={"model": model})


def _charged(call: ModelCall, usage: Usage, settings: ModelSettings) -> ModelCall:
    """The entry with this usage, and its cost; a recording costs nothing."""
    return replace(call, usage=usage, cost=0.0 if call.replayed else cost_of(usage, settings))
