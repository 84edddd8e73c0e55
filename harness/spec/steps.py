"""The steps of a task: one model per act (DESIGN 4.2)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

EffectClass = Literal["read", "idempotent", "write"]


class StepBase(BaseModel):
    """What every act may carry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    act: str
    note: str | None = Field(None, description="For the reader; shown in reports.")
    t: float | None = Field(
        None, description="Seconds since the start in the run this step was taken from; shown only."
    )
    timeout: float | None = Field(
        None, gt=0, le=3600, description="Seconds for one attempt, instead of `step_timeout`."
    )
    optional: bool = Field(False, description="When it fails, the task goes on (a skipped step: `partial_success`).")
    screenshot_id: str | None = Field(
        None, max_length=100, description="Keep a screenshot after the step, by this name."
    )
    remember: dict[str, str] = Field(
        default_factory=dict, description="Memory key -> value expression, e.g. `text('#order-id')`."
    )
    effect: EffectClass | None = Field(None, description="`write`: never done twice (DESIGN 4.2).")
    done_when: str | None = Field(None, description="Criterion that tells whether the step already took effect.")

    @property
    def effect_class(self) -> EffectClass:
        """`write` for `submit` and `api` with an unsafe method, `read` for looking, else `idempotent`."""
        return self.effect or "idempotent"

    @property
    def target(self) -> str | None:
        """The selector that rules and reports speak of."""
        return getattr(self, "selector", None)

    @property
    def looks_only(self) -> bool:
        """Whether several matches are fine: the first is taken (DESIGN 4.2)."""
        return False

    def describe(self) -> str:
        """One line for people: act and object."""
        return f"{self.act} {self.target}" if self.target else self.act


class ElementStep(StepBase):
    """An act on one element."""

    selector: str = Field(min_length=1, max_length=2000)
    frame: str | None = Field(None, max_length=2000, description="Selector of the iframe the element is in.")


class ForcibleStep(ElementStep):
    """An act that the browser can be told to do without waiting for the element to be ready."""

    force: bool = Field(False, description="Act even when the element is covered or not ready.")


class Open(StepBase):
    """Go to a URL."""

    act: Literal["open"] = "open"
    url: str = Field(min_length=1, max_length=8000)

    def describe(self) -> str:
        return f"open {self.url}"


class Click(ForcibleStep):
    """Click an element."""

    act: Literal["click"] = "click"


class Type(ForcibleStep):
    """Replace the content of a field."""

    act: Literal["type"] = "type"
    value: str | int | float

    def describe(self) -> str:
        return f"type {self.selector} = {str(self.value)!r}"


class Select(ForcibleStep):
    """Choose options of a list: by value, else by label; several with a list."""

    act: Literal["select"] = "select"
    value: str | int | float | list[str]

    def describe(self) -> str:
        return f"select {self.selector} = {self.value!r}"


class Submit(ElementStep):
    """Submit the form that the element is, or is in."""

    act: Literal["submit"] = "submit"

    @property
    def effect_class(self) -> EffectClass:
        return self.effect or "write"


class Press(StepBase):
    """Press a key, on an element or on the page."""

    act: Literal["press"] = "press"
    selector: str | None = Field(None, max_length=2000)
    frame: str | None = Field(None, max_length=2000)
    value: str = Field(min_length=1, max_length=100, description="Key name, e.g. `Enter`, `Control+A`.")

    def describe(self) -> str:
        return f"press {self.value}" + (f" on {self.selector}" if self.selector else "")


class Check(ForcibleStep):
    """Tick a box or choose a radio button."""

    act: Literal["check"] = "check"


class Scroll(StepBase):
    """Bring an element into view, or scroll the page by `value` pixels (to its end without a value)."""

    act: Literal["scroll"] = "scroll"
    selector: str | None = Field(None, max_length=2000)
    frame: str | None = Field(None, max_length=2000)
    value: int | None = Field(None, ge=-1_000_000, le=1_000_000)

    @property
    def looks_only(self) -> bool:
        return True


class Wait(StepBase):
    """Wait until an element is visible (and its text has `value`), or for `value` seconds."""

    act: Literal["wait"] = "wait"
    selector: str | None = Field(None, max_length=2000)
    frame: str | None = Field(None, max_length=2000)
    value: str | float | None = None

    @model_validator(mode="after")
    def _something_to_wait_for(self) -> Wait:
        if self.selector is None and not isinstance(self.value, (int, float)):
            raise ValueError("`wait` needs a `selector`, or a number of seconds as `value`")
        if isinstance(self.value, (int, float)) and self.selector is None and not 0 <= self.value <= 3600:
            raise ValueError("`wait` takes 0 to 3600 seconds")
        return self

    @property
    def looks_only(self) -> bool:
        return True

    def describe(self) -> str:
        seconds = self.selector is None and isinstance(self.value, float)
        return f"wait {self.value:g} s" if seconds else f"wait {self.selector}"


class Upload(ElementStep):
    """Put files into a file field. Paths are relative to the task's file and stay inside its folder."""

    act: Literal["upload"] = "upload"
    value: str | list[str]

    def describe(self) -> str:
        return f"upload {self.selector} = {self.value!r}"


class Download(ForcibleStep):
    """Click what starts a download and keep the file; `value` is the file name expected."""

    act: Literal["download"] = "download"
    value: str | None = None


class Api(StepBase):
    """An HTTP request with the page's cookies."""

    act: Literal["api"] = "api"
    url: str = Field(min_length=1, max_length=8000)
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    headers: dict[str, str] = Field(default_factory=dict)
    value: JsonValue = Field(None, description="Body: an object or list is sent as JSON, a string as it is.")
    status: int | None = Field(None, ge=100, le=599, description="The status expected; without it, any below 400.")

    @property
    def effect_class(self) -> EffectClass:
        return self.effect or ("read" if self.method in ("GET", "HEAD") else "write")

    def describe(self) -> str:
        return f"api {self.method} {self.url}"


class Assert(StepBase):
    """Compare an element's text with `value`, or evaluate the criterion `expr` (DESIGN 4.2)."""

    act: Literal["assert"] = "assert"
    selector: str | None = Field(None, max_length=2000)
    frame: str | None = Field(None, max_length=2000)
    value: str | int | float | bool | None = None
    expr: str | None = Field(None, max_length=10_000)

    @model_validator(mode="after")
    def _one_of_two_forms(self) -> Assert:
        if (self.expr is None) == (self.selector is None):
            raise ValueError("`assert` needs either `selector` with `value`, or `expr`")
        if self.selector is not None and self.value is None:
            raise ValueError("`assert` with a `selector` needs the `value` its text must have")
        if self.expr is not None and (self.value is not None or self.frame is not None):
            raise ValueError("`assert` with `expr` takes neither `value` nor `frame`")
        return self

    @property
    def effect_class(self) -> EffectClass:
        return self.effect or "read"

    @property
    def looks_only(self) -> bool:
        return True

    def describe(self) -> str:
        return f"assert {self.expr}" if self.expr else f"assert {self.selector} = {self.value!r}"


Step = Annotated[
    Open | Click | Type | Select | Submit | Press | Check | Scroll | Wait | Upload | Download | Api | Assert,
    Field(discriminator="act"),
]

PLANNED_ACTS = ("hover", "uncheck", "drag", "switch_page", "dialog", "screenshot")
"""Acts of DESIGN 4.2 that this version refuses."""
