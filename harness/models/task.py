"""The models as the agents of one task ask them: the port's client, the ledger, the events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from harness.model.events import Event, ModelAnswered, ModelAsked, Resilience, ResilienceActed
from harness.model.inference import CallOutcome, ModelAnswer, ModelCall, Prompt, Usage
from harness.model.model_settings import ModelSettings, fallbacks_of
from harness.model.plan import Plan
from harness.models.exchange import AsksModel, Exchange, WireAnswer
from harness.models.ledger import Ledger, charged
from harness.models.prices import tokens_of
from harness.models.provider import ModelLane, Surroundings, around, in_time, smaller_once, with_fallbacks
from harness.models.verdicts import ModelError, failure_of
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Call, CircuitOpen, Policy
from harness.resilience.events import Emit, ResilienceEvent
from harness.resilience.pace import FloorTooHigh
from harness.spec.problems import did_you_mean, join_or
from harness.values import replace

MakeWire = Callable[[str], Coroutine[Any, Any, AsksModel]]
"""The name of a model -> its wire. It may raise Failed and ModelError."""


class TaskModels:
    """All models for one task. Use it on the harness's loop; `client` is for an agent's proposal."""

    def __init__(
        self,
        plan: Plan,
        models: Mapping[str, ModelSettings],
        lane: Callable[[str], ModelLane],
        wire: MakeWire,
        around_it: Surroundings,
        emit: Callable[[Event], None],
    ) -> None:
        """`lane` returns what the calls of a model share, by the name of the model."""
        self.plan = plan
        self.models = models
        self.emit = emit
        self._lane = lane
        self.make_wire = wire
        self._around = around_it
        self._wires: dict[str, asyncio.Task[AsksModel]] = {}
        self.ledger = Ledger(plan.spec.budget, models)

    def client(self, agent: str, step: int) -> AgentModels:
        """The models for the proposal of this agent for the step with this index."""
        return AgentModels(self, agent, step)

    async def ask(self, agent: str, step: int, model: str, prompt: Prompt) -> ModelAnswer:
        """Ask a model, with all its policies and fallbacks. Raises Failed."""
        if model not in self.models:
            raise Failed(self._unknown(model))
        question = _Question(self, agent, step, prompt)
        others = fallbacks_of(self.models, model) if self._around.enabled else ()
        policy = with_fallbacks(model, {other: question.to(other) for other in others}, question.tell)
        try:
            answer = await policy(question.to(model))()
        except (ModelError, CircuitOpen, FloorTooHigh) as error:
            raise question.refused or failure_of(error, model) from error
        return ModelAnswer(answer.text, answer.calls, question.answered)

    def policies(self, model: str, emit: Emit) -> Policy[WireAnswer]:
        """The policies around each request to a model; `emit` is told what they do."""
        return around(model, self.models[model], self._lane(model), replace(self._around, emit=emit))

    def now(self) -> float:
        return self._around.clock.now()

    def wall(self) -> datetime:
        return self._around.clock.wall()

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

    def _unknown(self, model: str) -> Failure:
        known = did_you_mean(model, self.models) or (
            f"known: {join_or(self.models)}" if self.models else "there is none"
        )
        message = f"There is no model `{model}` in [tool.harness.models] ({known})"
        return Failure("MODEL_NOT_FOUND", message, details={"model": model})


class AgentModels:
    """The port's client (`inference.ModelClient`) for one proposal."""

    def __init__(self, models: TaskModels, agent: str, step: int) -> None:
        self._models = models
        self._agent = agent
        self._step = step

    async def ask(self, model: str, prompt: Prompt) -> ModelAnswer:
        """Ask a model (`inference.ModelClient.ask`); on the harness's loop."""
        return await self._models.ask(self._agent, self._step, model, prompt)


class _Question:
    """One question of an agent, with the requests that it needs."""

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
        if isinstance(event, Resilience):
            self._task.emit(ResilienceActed(self._task.plan, self._step, event))

    def to(self, model: str) -> Call[WireAnswer]:
        """The question to one model, with this model's policies."""

        async def asked() -> WireAnswer:
            await self._task.wire(model)  # imports take seconds, which are not the provider's
            policy = self._task.policies(model, self.tell)
            return await smaller_once(self._prompt, lambda prompt: policy(partial(self._once, model, prompt)))()

        return asked

    async def _once(self, model: str, prompt: Prompt) -> WireAnswer:
        """One request. Its entry is in the ledger when it leaves."""
        task, settings = self._task, self._task.models[model]
        self._permit(model, prompt)
        wire = await task.wire(model)
        self._attempts[model] += 1
        exchange = Exchange(self._agent, model, task.now, task.now(), tokens_of(prompt), step=self._step)
        entry = self._entry(exchange, settings, self._attempts[model])
        place = task.ledger.enter(entry)
        task.emit(ModelAsked(task.plan, self._agent, model, self._step, entry.at))
        outcome: CallOutcome = "cancelled"
        code = ""
        try:
            with exchange.under_way():
                answer = await in_time(model, settings)(partial(wire.ask, prompt, exchange))()
            outcome = "answered"
        except ModelError as error:
            outcome, code = "failed", error.code
            exchange.usage = exchange.usage if error.billed else Usage()
            raise
        finally:
            self._answered = self._settle(place, entry, exchange, outcome, code)
        return answer

    def _permit(self, model: str, prompt: Prompt) -> None:
        try:
            self._task.ledger.permit(model, prompt)
        except Failed as failed:
            self.refused = failed
            raise

    def _entry(self, exchange: Exchange, settings: ModelSettings, attempt: int) -> ModelCall:
        """The entry of a request that leaves: if nothing corrects it, it was cancelled, and costs its estimate."""
        call = ModelCall(
            agent=self._agent,
            model=exchange.model,
            provider=settings.provider,
            identifier=settings.model,
            step=self._step,
            attempt=attempt,
            at=self._task.wall(),
            seconds=0.0,
            first_token=None,
            usage=Usage(),
            cost=None,
            outcome="cancelled",
        )
        return charged(call, exchange.estimate(), settings)

    def _settle(self, place: int, entry: ModelCall, exchange: Exchange, outcome: CallOutcome, code: str) -> ModelCall:
        task = self._task
        ended = replace(
            entry,
            seconds=round(task.now() - exchange.began, 3),
            first_token=None if exchange.first is None else round(exchange.first, 3),
            outcome=outcome,
            code=code,
            replayed=exchange.replayed,
            recording=exchange.recording,
        )
        usage = exchange.estimate() if exchange.usage is None else exchange.usage
        ended = charged(ended, usage, task.models[entry.model])
        task.ledger.correct(place, ended)
        task.emit(ModelAnswered(task.plan, ended))
        return ended
