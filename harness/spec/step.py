"""What the steps of a task have in common (DESIGN 4.2)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

EffectClass = Literal["read", "idempotent", "write"]


class StepBase(BaseModel):
    """What every act may carry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    usual_effect: ClassVar[EffectClass] = "idempotent"

    act: str
    note: str | None = Field(None, description="For the reader; shown in reports.")
    t: float | None = Field(
        None, description="When it was done in the run that it was taken from; shown only, in seconds."
    )
    timeout: float | None = Field(
        None, gt=0, le=3600, description="For one attempt, instead of `step_timeout`, in seconds."
    )
    optional: bool = Field(False, description="When it fails, the task goes on; it ends `partial_success`.")
    screenshot_id: str | None = Field(
        None, max_length=100, description="Keep a screenshot after the step, by this name."
    )
    remember: dict[str, str] = Field(
        default_factory=dict, description="Memory key -> value expression, e.g. `text('#order-id')`."
    )
    effect: EffectClass | None = Field(
        None,
        description="`write`: never done twice. Without it `submit` and an unsafe `api` are `write`, no other act is.",
    )
    done_when: str | None = Field(None, description="Criterion that tells whether the step already took effect.")
    safe_statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = Field(
        (),
        max_length=50,
        description="HTTP statuses of answers which say that a `write` did nothing, so that it may be done again, e.g."
        " `[503, 429]`.",
    )

    @model_validator(mode="after")
    def _statuses_of_a_write(self) -> Self:
        if self.safe_statuses and not self.may_write:
            raise ValueError("`safe_statuses` is for a step that writes: say `effect: write` with it")
        return self

    @property
    def may_write(self) -> bool:
        """Whether it is a `write`, or is one as soon as it is seen to send an unsafe request."""
        return self.effect_class == "write" or (self.effect is None and self.effect_class != "read")

    @property
    def effect_class(self) -> EffectClass:
        """`write` for `submit` and `api` with an unsafe method, `read` for looking, else `idempotent`."""
        return self.effect or self.usual_effect

    @property
    def target(self) -> str | None:
        """The selector that rules and reports speak of."""
        return getattr(self, "selector", None)

    @property
    def looks_only(self) -> bool:
        """Whether several matches are fine: the first is taken (DESIGN 4.2)."""
        return False

    @property
    def may_change(self) -> bool:
        """Whether the system under test may be another one afterwards: then bound values are compared (DESIGN 4.4)."""
        return self.effect_class != "read"

    def describe(self) -> str:
        """One line for people: act and object."""
        return f"{self.act} {self.target}" if self.target else self.act


class ElementStep(StepBase):
    """An act on one element."""

    selector: str = Field(
        min_length=1, max_length=2000, description="The element: CSS, XPath or any Playwright engine."
    )
    frame: str | None = Field(
        None, max_length=2000, description="Selector of the iframe that it is in; `a >>> b`: of b in a."
    )


class ForcibleStep(ElementStep):
    """An act that the browser can be told to do without waiting for the element to be ready."""

    force: bool = Field(False, description="Act also when the element is covered or not ready.")
