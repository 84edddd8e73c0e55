"""What every fault says: where it strikes, how often, and what the task is to make of it."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

LONGEST = 3600
"""Seconds that anything in a fault may last."""


class FaultPart(BaseModel):
    """A part of a fault: frozen, and no key but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FaultExpect(FaultPart):
    """What a task is to make of a fault (`harness chaos` compares)."""

    code: str | None = Field(
        None, max_length=100, description="The code that the failure it causes must get; null: it causes none."
    )
    recovered: bool | None = Field(None, description="Whether the task must reach its end all the same.")


class FaultBase(FaultPart):
    """What every fault carries. Faults are armed in the order of the file."""

    kind: str
    id: str = Field("", max_length=100, description="Its name in reports; without it, `<kind>-<number>`.")
    step: int = Field(0, ge=0, description="It is armed just before this step, as a step number.")
    nth: int = Field(
        1, ge=1, le=10_000, description="The first that it strikes, counted from 1, as a number of occasions."
    )
    times: int | None = Field(None, ge=1, le=10_000, description="How many it strikes, as a number of occasions.")
    probability: float = Field(
        1, gt=0, le=1, description="Chance that it strikes an occasion, drawn from the seed, as a share."
    )
    after: float = Field(
        0, ge=0, le=LONGEST, description="How long after the start of the task it strikes at the earliest, in seconds."
    )
    until: float | None = Field(
        None, gt=0, le=LONGEST, description="How long after the start of the task it strikes at the latest, in seconds."
    )
    expect: FaultExpect = Field(FaultExpect(), description="What the task is to make of it: `code`, `recovered`.")

    _source: str = PrivateAttr("")

    @property
    def source(self) -> str:
        """The file and line that it is declared in, as shown to people; empty for one that was made in Python."""
        return self._source

    def placed(self, source: str) -> Self:
        """A copy of it that knows where it is declared."""
        copy = self.model_copy()
        copy._source = source  # noqa: SLF001 - its own
        return copy

    @property
    def title(self) -> str:
        """What people call it: its id; without one, its kind."""
        return self.id or self.kind

    @property
    def target(self) -> str:
        """What it strikes."""
        return self.kind

    @property
    def most(self) -> int | None:
        """How many occasions it strikes at most; None: all."""
        return self.times

    @property
    def transient(self) -> bool:
        """Whether it ends by itself, so that a task can outlast it."""
        return True

    @property
    def lasts(self) -> float | None:
        """Seconds after a strike at which it heals; None: at the end of the task, or there is nothing to heal."""
        seconds: float | None = getattr(self, "seconds", None)
        return seconds

    def describe(self) -> str:
        """One line for people: what it is, what it strikes, and when."""
        how = self.model_dump(exclude_none=True, exclude_defaults=True, exclude=set(_TOLD))
        what = self.kind if self.target == self.kind else f"{self.kind} {self.target}"
        return ", ".join([f"{what} {self._when()}", *(f"{name} {_short(value)}" for name, value in how.items())])

    def _when(self) -> str:
        """`at step 2`, `from step 2 on`."""
        if act := getattr(self, "act", None):
            return f"at {act} steps from step {self.step} on"
        ends_at_once = isinstance(self, StepFault) and "seconds" not in type(self).model_fields
        once = ends_at_once and (self.most, self.nth, self.probability, self.after) == (1, 1, 1, 0)
        return f"at step {self.step}" if once else f"from step {self.step} on"

    @model_validator(mode="after")
    def _has_a_window(self) -> FaultBase:
        if self.until is not None and self.until <= self.after:
            raise ValueError("`until` must be later than `after`: else there is no time in which it strikes")
        return self


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value[:40]}…" if isinstance(value, str) and len(value) > 40 else value


_TOLD = frozenset(
    {"kind", "id", "step", "act", "expect", "host", "url", "path", "channel", "selector", "key", "service"}
)
"""Keys that `describe` says otherwise, or not at all."""


class StepFault(FaultBase):
    """Its occasions are the steps that begin, those done again included; without `times`, it strikes one."""

    act: str | None = Field(None, max_length=30, description="Only steps of this act are occasions.")
    delay: float = Field(
        0,
        ge=0,
        le=LONGEST,
        description="How long after the beginning of the step it strikes; 0: before it begins, in seconds.",
    )

    @property
    def most(self) -> int | None:
        return self.times or 1


class RequestFault(FaultBase):
    """Its occasions are the requests whose URL matches; without `times`, it strikes all."""

    url: str = Field(
        min_length=1,
        max_length=2000,
        description="Pattern of whole URLs; `*` is anything; one of `http://` takes https requests too.",
    )

    @property
    def target(self) -> str:
        return self.url

    @property
    def transient(self) -> bool:
        return self.times is not None or self.until is not None
