"""Handlers: what may be in the way at any step, such as a cookie banner, and the steps that remove it."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.steps import Step


class Handler(Declaration):
    """Steps that are done whenever something is in the way."""

    when: str = Field(
        max_length=10_000,
        description="Criterion that holds while something is in the way, such as `visible('#cookie-banner')`. It is "
        "asked before each step, and when an act fails because its element is covered.",
    )
    steps: tuple[Step, ...] = Field(min_length=1, description="Steps that remove it. They must not write.")
    times: int = Field(10, ge=1, le=1000, description="How often they are done at most, as a plain number.")

    @model_validator(mode="after")
    def _writes_nothing(self) -> Self:
        for number, step in enumerate(self.steps):
            if step.effect_class == "write":
                raise ValueError(
                    f"step {number} of the handler writes, and a handler may be done several times: leave it out, or "
                    "declare `effect: idempotent` if twice does no harm"
                )
        return self
