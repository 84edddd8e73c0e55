"""What every fault says: where it strikes, how often, and what the task is to make of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from harness.recovery.declaration import Declaration, SourcedDeclaration
from harness.spec.url_patterns import OF_URL

LONGEST = 3600
"""The longest duration in a fault, in seconds."""
Lasts = Annotated[
    float | None,
    Field(gt=0, le=LONGEST, description="How long the fault lasts. Default: to the end of the task, in seconds."),
]
"""The type of `seconds`, where a fault without them ends with the task."""


class FaultExpect(Declaration):
    """What a task is to make of a fault (`harness chaos` compares)."""

    code: str | None = Field(
        None,
        max_length=100,
        description="The code of the failure that the fault must cause; null if it must cause none.",
    )
    recovered: bool | None = Field(None, description="Whether the task must still reach its end.")


class FaultBase(SourcedDeclaration):
    """What every fault carries. Faults are armed in the order of the file."""

    kind: str
    id: str = Field("", max_length=100, description="Name of the fault in reports. Default: `<kind>-<number>`.")
    step: int = Field(0, ge=0, description="The fault is armed just before this step, as a step number.")
    nth: int = Field(
        1, ge=1, le=10_000, description="The first occasion that it strikes, counted from 1, as a number of occasions."
    )
    times: int | None = Field(
        None, ge=1, le=10_000, description="How many occasions it strikes, as a number of occasions."
    )
    probability: float = Field(
        1, gt=0, le=1, description="Chance that it strikes an occasion, drawn from the seed, as a share."
    )
    after: float = Field(0, ge=0, le=LONGEST, description="Earliest strike after the start of the task, in seconds.")
    until: float | None = Field(
        None, gt=0, le=LONGEST, description="Latest strike after the start of the task, in seconds."
    )
    expect: FaultExpect = Field(FaultExpect(), description="What the fault must cause: `code`, `recovered`.")

    @property
    def title(self) -> str:
        """The name for people: the id, or else the kind."""
        return self.id or self.kind

    @property
    def target(self) -> str:
        """The target that the fault strikes."""
        return self.kind

    @property
    def most(self) -> int | None:
        """The largest number of occasions that it strikes; None: all."""
        return self.times

    @property
    def transient(self) -> bool:
        """Whether it ends by itself, so that a task can outlast it."""
        return True

    @property
    def lasts(self) -> float | None:
        """Seconds after a strike at which it ends; None: it ends with the task, or there is nothing to end."""
        seconds: float | None = getattr(self, "seconds", None)
        return seconds

    def describe(self) -> str:
        """One line for people: kind, target, and occasions."""
        how = self.model_dump(exclude_none=True, exclude_defaults=True, exclude=set(_TOLD))
        what = self.kind if self.target == self.kind else f"{self.kind} {self.target}"
        return ", ".join(
            [f"{what} {self._describe_trigger()}", *(f"{name} {_short(value)}" for name, value in how.items())]
        )

    def _describe_trigger(self) -> str:
        """`at step 2`, `from step 2 on`."""
        if act := getattr(self, "act", None):
            return f"at {act} steps from step {self.step} on"
        ends_at_once = isinstance(self, StepFault) and "seconds" not in type(self).model_fields
        once = ends_at_once and (self.most, self.nth, self.probability, self.after) == (1, 1, 1, 0)
        return f"at step {self.step}" if once else f"from step {self.step} on"

    @model_validator(mode="after")
    def _has_a_window(self) -> FaultBase:
        if self.until is not None and self.until <= self.after:
            raise ValueError("`until` must be later than `after`, or the fault could never strike")
        return self


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value[:40]}…" if isinstance(value, str) and len(value) > 40 else value


_TOLD = frozenset(
    {"kind", "id", "step", "act", "expect", "host", "url", "path", "channel", "selector", "key", "service"}
    | {"server", "tool"}
)
"""Keys that `describe` shows in another form, or not at all."""


class StepFault(FaultBase):
    """Its occasions are the steps that begin, those done again included; without `times`, it strikes one."""

    act: str | None = Field(None, max_length=30, description="Only steps of this act are occasions.")
    delay: float = Field(
        0,
        ge=0,
        le=LONGEST,
        description="Delay from the beginning of the step to the strike; 0 strikes before the step begins, in seconds.",
    )

    @property
    def most(self) -> int | None:
        return self.times or 1


class LastingFault(StepFault):
    """One that ends by itself only if it has `seconds`, which are `Lasts`."""

    @property
    def transient(self) -> bool:
        return getattr(self, "seconds", None) is not None


class CallFault(FaultBase):
    """Its occasions are requests or calls; without `times`, it strikes all."""

    @property
    def transient(self) -> bool:
        return self.times is not None or self.until is not None


class RequestFault(CallFault):
    """Its occasions are the requests whose URL matches; without `times`, it strikes all."""

    url: str = Field(min_length=1, max_length=2000, description=OF_URL)

    @property
    def target(self) -> str:
        return self.url
