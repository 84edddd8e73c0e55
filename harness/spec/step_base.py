"""What the acts of a task have in common: the keys of every step, of acts that cause requests, and of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, create_model, model_validator
from pydantic.json_schema import SkipJsonSchema

from harness.recovery.declaration import Declaration
from harness.recovery.locators import Selector
from harness.spec.step_keys import AnswerKeys, ExpectedRequest

EffectClass = Literal["read", "idempotent", "write"]


_GUARD = r"^[1-9]\d{0,3}( for_each_\d+ \d+ \d+)?$"


_OF_USER = "Name of the user of the task who does it. Default: the first of its `users`."


class _OfUser(Declaration):
    """What a user of the task does."""

    @property
    def user(self) -> str | None:
        """The user who does it (`as`); None: nobody is named."""
        found: str | None = getattr(self, "as")
        return found


if TYPE_CHECKING:

    class ActedBy(_OfUser):
        """The same, with the field `as`."""

else:  # no class statement can declare a field with the name of a keyword
    ActedBy = create_model("ActedBy", __base__=_OfUser, **{"as": (str | None, Field(None, description=_OF_USER))})


class StepBase(ActedBy):
    """What every act may carry."""

    usual_effect: ClassVar[EffectClass] = "idempotent"
    looks_only: ClassVar[bool] = False
    """Whether several matches are allowed and the first is taken."""

    act: str
    note: str | None = Field(None, description="Comment for the reader, shown in reports.")
    t: float | None = Field(
        None, description="Time of the step in the run that it was recorded from. Only shown, in seconds."
    )
    timeout: float | None = Field(
        None, gt=0, le=3600, description="Limit for one attempt of this step, instead of `step_timeout`, in seconds."
    )
    optional: bool = Field(
        False, description="Whether the task goes on when the step fails. It then ends `partial_success`."
    )
    when: str | None = Field(
        None,
        max_length=10_000,
        description="Criterion without which the step is skipped, and the task goes on as if it were not there. It is "
        "asked once, when the step is reached.",
    )
    guards: SkipJsonSchema[dict[Annotated[str, Field(pattern=_GUARD)], str]] = Field(
        default_factory=dict, description="What is asked before a group."
    )
    """Guards of groups of which this is the first step (`rounds.Guard`) -> their expressions, the outermost first."""
    screenshot_id: str | None = Field(
        None, max_length=100, description="Keep a screenshot after the step under this name."
    )
    remember: dict[str, str] = Field(
        default_factory=dict, description="Memory key -> value expression, e.g. `text('#order-id')`."
    )
    effect: EffectClass | None = Field(
        None,
        description="Effect on the site; a `write` is never done twice. Default: `write` for `submit` and for `api` "
        "with an unsafe method.",
    )
    done_when: str | None = Field(None, description="Criterion that tells whether the step already took effect.")
    safe_statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = Field(
        (),
        max_length=50,
        description="HTTP statuses by which the site says that a `write` did nothing, so that it may be repeated, "
        "e.g. `[503, 429]`.",
    )

    @model_validator(mode="after")
    def _statuses_of_a_write(self) -> Self:
        if self.safe_statuses and not self.may_write:
            raise ValueError("`safe_statuses` is only for a step that writes: add `effect: write`")
        return self

    @property
    def may_write(self) -> bool:
        """Whether it is a `write`, or becomes one when it is seen to send an unsafe request."""
        return self.effect_class == "write" or (self.effect is None and self.effect_class != "read")

    @property
    def repeatable(self) -> bool:
        """Whether its file says that it may be done twice, whatever it is seen to send."""
        return self.effect in ("read", "idempotent")

    @property
    def effect_class(self) -> EffectClass:
        """`write` for `submit` and `api` with an unsafe method, `read` for looking, else `idempotent`."""
        return self.effect or self.usual_effect

    @property
    def target(self) -> str | None:
        """The selector that rules and reports refer to."""
        return getattr(self, "selector", None)

    @property
    def may_change(self) -> bool:
        """Whether the system under test may differ afterwards: then bound values are compared."""
        return self.effect_class != "read"

    def describe(self) -> str:
        """One line for people: act, target and the user."""
        return self._what() + (f" as {self.user}" if self.user is not None else "")

    def _what(self) -> str:
        """Act and target."""
        return f"{self.act} {self.target}" if self.target else self.act


OF_FRAME = "Selector of the iframe that contains the element. `a >>> b` is the frame b inside the frame a."


class RequestingStep(AnswerKeys, StepBase):
    """An act by which a page may send requests."""

    expect_request: ExpectedRequest | None = Field(
        None, description="A request that a page must send during the act or soon after it."
    )

    @property
    def wanted_request(self) -> ExpectedRequest | None:
        """The request that must be sent."""
        return self.expect_request


class RepeatedStep(StepBase):
    """An act that can be repeated until it took effect."""

    until: str | None = Field(
        None,
        max_length=10_000,
        description="Criterion until which the act is repeated, with pauses. It is done at least once; a `write` is "
        "never repeated.",
    )
    at_most: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="How often the act is done at most. Default: until the time of the step is over, as a plain "
        "number.",
    )

    @model_validator(mode="after")
    def _repeats_no_write(self) -> Self:
        if self.at_most is not None and self.until is None:
            raise ValueError("`at_most` goes with `until`, the criterion that ends the repetition")
        if self.until is not None and self.effect_class == "write":
            raise ValueError(
                "a step that writes is never repeated: leave `until` out, and wait in a step of its own, as "
                '`{act: assert, expr: "EVENTUALLY(...)"}`'
            )
        return self


class ElementStep(RepeatedStep, RequestingStep):
    """An act on one element."""

    selector: Selector = Field(
        description="The element: a selector, or a mapping such as `{role: button, name: Save}`."
    )
    frame: Selector | None = Field(None, description=OF_FRAME)


class ForcibleStep(ElementStep):
    """An act that the browser can be told to do without waiting for the element to be ready."""

    force: bool = Field(False, description="Act also when the element is covered or not ready.")
