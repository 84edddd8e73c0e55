"""What calls of models have used: the one place where calls, tokens and costs are counted.

Terminal, JUnit, Allure, dashboard, history, metrics.json, error_report.json and events.jsonl all show what is counted
here, from the ledger of a task (`TaskResult.model_calls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from harness.model.inference import CallOutcome, ModelCall
from harness.recovery.declaration import Document


class ModelFigures(BaseModel):
    """What calls of models have used; the figures of several can be added."""

    model_config = ConfigDict(frozen=True, defer_build=True, allow_inf_nan=False)

    calls: int = Field(0, description="Number of requests, each attempt by itself.")
    failed_calls: int = Field(0, description="Number of requests that failed or were cancelled.")
    replayed_calls: int = Field(0, description="Number of requests that a recording has answered.")
    input_tokens: int = Field(0, description="Tokens sent, as a number, those from the cache included.")
    cached_tokens: int = Field(0, description="Tokens read from the provider's cache, as a number.")
    output_tokens: int = Field(0, description="Tokens of the answers, as a number.")
    cost_usd: float = Field(0, description="US dollars, of the calls whose price is known.")
    unpriced_calls: int = Field(0, description="Number of requests that used tokens and whose price is not known.")
    seconds: float = Field(0, description="Seconds of all requests, without the waits between them.")

    @classmethod
    def of(cls, calls: Iterable[ModelCall]) -> ModelFigures:
        """Sum up entries of the ledger."""
        return sum(
            (
                cls(
                    calls=1,
                    failed_calls=each.outcome != "answered",
                    replayed_calls=each.replayed,
                    input_tokens=each.usage.input,
                    cached_tokens=each.usage.cache_read,
                    output_tokens=each.usage.output,
                    cost_usd=each.cost or 0.0,
                    unpriced_calls=is_unpriced(each),
                    seconds=each.seconds,
                )
                for each in calls
            ),
            cls(),
        )

    def __add__(self, other: ModelFigures) -> ModelFigures:
        mine, its = self.model_dump(), other.model_dump()
        return ModelFigures(**{name: round(value + its[name], 9) for name, value in mine.items()})

    @property
    def cached(self) -> float:
        """The share of the tokens in that came from the provider's cache, 0 to 1."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0

    def describe(self) -> str:
        """One line for people: `41 calls, 182k in (71 % cached), 4.1k out, $0.62, 2 unpriced`."""
        cached = f" ({100 * self.cached:.0f} % cached)" if self.cached_tokens else ""
        parts = [
            f"{self.calls} {'call' if self.calls == 1 else 'calls'}",
            f"{self.failed_calls} failed" if self.failed_calls else "",
            f"{self.replayed_calls} replayed" if self.replayed_calls else "",
            f"{tokens_text(self.input_tokens)} in{cached}",
            f"{tokens_text(self.output_tokens)} out",
            money_text(self.cost_usd) if self.unpriced_calls < self.calls else "",
            f"{self.unpriced_calls} unpriced" if self.unpriced_calls else "",
        ]
        return ", ".join(filter(None, parts))


def is_unpriced(call: ModelCall) -> bool:
    """Return whether nobody knows what the call has cost; without tokens it has cost nothing."""
    return call.cost is None and call.usage.total > 0


def by_model(calls: Iterable[ModelCall]) -> dict[str, ModelFigures]:
    """Name of a model -> the figures of its calls, in the order of the first calls."""
    found: dict[str, list[ModelCall]] = {}
    for each in calls:
        found.setdefault(each.model, []).append(each)
    return {name: ModelFigures.of(those) for name, those in found.items()}


def added_up(parts: Iterable[Mapping[str, ModelFigures]]) -> dict[str, ModelFigures]:
    """The figures of several tasks, by model."""
    found: dict[str, ModelFigures] = {}
    for part in parts:
        for name, used in part.items():
            found[name] = found.get(name, ModelFigures()) + used
    return found


def tokens_text(count: float) -> str:
    """A number of tokens for people: `180`, `4.1k`, `182k`, `1.2M`."""
    if count < 1000:
        return f"{count:g}"
    value, unit = (count / 1000, "k") if count < 999_500 else (count / 1_000_000, "M")
    return f"{value:.0f}{unit}" if value >= 100 else f"{value:.1f}{unit}".replace(f".0{unit}", unit)


def money_text(dollars: float) -> str:
    """US dollars for people: `$0.62`; less than ten cents with four digits: `$0.0021`."""
    return f"${dollars:.2f}" if dollars >= 0.1 or not dollars else f"${dollars:.4f}"


_MOST_CALLS = 200
"""The number of calls that are kept of a task; the sums count all of them."""


class ModelCallLine(Document):
    """One request to a model."""

    t: float = Field(description="Seconds since the start of the task.")
    seconds: float = Field(description="Seconds that it took.")
    step: int = Field(description="The step that the agent was choosing, counted from 0.")
    agent: str
    model: str = Field(description="Name in the settings.")
    attempt: int = Field(1, description="1 for the first request of a question to this model.")
    outcome: CallOutcome
    code: str = Field("", description="Code of its failure, if it has failed.")
    input_tokens: int = Field(0, description="Tokens sent, as a number.")
    output_tokens: int = Field(0, description="Tokens of the answer, as a number.")
    cost_usd: float | None = Field(None, description="US dollars; null: the price is not known.")


def call_lines(calls: Sequence[ModelCall], started: datetime) -> tuple[ModelCallLine, ...]:
    """A line for each of the first calls. `started`: when the task began."""
    return tuple(
        ModelCallLine(
            t=max(0.0, round((each.at - started).total_seconds(), 3)),
            seconds=each.seconds,
            step=each.step,
            agent=each.agent,
            model=each.model,
            attempt=each.attempt,
            outcome=each.outcome,
            code=each.code,
            input_tokens=each.usage.input,
            output_tokens=each.usage.output,
            cost_usd=None if is_unpriced(each) else each.cost or 0.0,
        )
        for each in calls[:_MOST_CALLS]
    )
