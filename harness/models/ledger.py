"""The ledger of a task's calls: each request has an entry when it leaves, and the budget is asked first."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.inference import ModelCall, Prompt, Usage
from harness.model.model_settings import ModelSettings
from harness.models.prices import ANSWER_TOKENS, cost_of, is_priced, tokens_of
from harness.recovery.failure import Failed, Failure, budget_exceeded
from harness.spec.names import how_many
from harness.spec.task import Budget
from harness.values import replace


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
            raise Failed(unpriced(model, settings))
        need = Usage(input=tokens_of(prompt), output=ANSWER_TOKENS)
        if budget.max_model_calls is not None and len(self._calls) >= budget.max_model_calls:
            allowed = how_many(budget.max_model_calls, "request")
            raise self._exceeded("max_model_calls", f"{allowed} to models, and {len(self._calls)} were sent", model)
        used = sum(call.usage.total for call in self._calls)
        if budget.max_tokens is not None and used + need.total > budget.max_tokens:
            says = f"{budget.max_tokens} tokens: {used} were used, and the next request needs about {need.total}"
            raise self._exceeded("max_tokens", says, model)
        if budget.max_cost is not None:
            self._permit_cost(budget.max_cost, cost_of(need, settings) or 0.0, model)

    def _permit_cost(self, most: float, next_one: float, model: str) -> None:
        spent = sum(call.cost or 0.0 for call in self._calls)
        if spent + next_one > most:
            says = f"${most:g}: ${spent:.4f} were spent, and the next request costs about ${next_one:.4f}"
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


def unpriced(model: str, settings: ModelSettings) -> Failure:
    """The failure of a task with `max_cost` whose model has no known price."""
    message = (
        f"The budget has `max_cost`, but the price of model `{model}` ({settings.model}) is not known: set "
        f"[tool.harness.models.{model}.price], or use `max_tokens`"
    )
    return Failure("MODEL_UNPRICED", message, details={"model": model})


def charged(call: ModelCall, usage: Usage, settings: ModelSettings) -> ModelCall:
    """The entry with this usage, and its cost; a recording costs nothing."""
    return replace(call, usage=usage, cost=0.0 if call.replayed else cost_of(usage, settings))
