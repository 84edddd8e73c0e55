"""The steps of a task: one model per act."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

# What the steps of a task have in common.

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
        """Whether several matches are fine: the first is taken."""
        return False

    @property
    def may_change(self) -> bool:
        """Whether the system under test may be another one afterwards: then bound values are compared."""
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


# Acts on one element.


class Click(ForcibleStep):
    """Click an element."""

    act: Literal["click"] = "click"


class Type(ForcibleStep):
    """Replace the content of a field."""

    act: Literal["type"] = "type"
    value: str | int | float = Field(description="What the field then holds.")

    def describe(self) -> str:
        return f"type {self.selector} = {str(self.value)!r}"


class Option(BaseModel):
    """One option of a list, named by exactly one of its value, its label and its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str | None = Field(None, description="The option's value.")
    label: str | None = Field(None, description="What it says.")
    index: int | None = Field(None, ge=0, description="0 is the first option, as a place in the list.")

    @model_validator(mode="after")
    def _named_once(self) -> Option:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("an option is named by exactly one of `value`, `label`, `index`")
        return self


class Select(ForcibleStep):
    """Choose options of a list: by value, else by label; several with a list; or by what an Option says."""

    act: Literal["select"] = "select"
    value: str | int | float | list[str] | Option = Field(
        description="Value, else label, of an option; several in a list; or exactly one of `value`, `label`, `index`."
    )

    def describe(self) -> str:
        value = self.value.model_dump(exclude_none=True) if isinstance(self.value, Option) else self.value
        return f"select {self.selector} = {value!r}"


class Submit(ElementStep):
    """Submit the form that the element is, or is in."""

    usual_effect: ClassVar[EffectClass] = "write"

    act: Literal["submit"] = "submit"


class Hover(ForcibleStep):
    """Put the pointer over an element."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["hover"] = "hover"


class Check(ForcibleStep):
    """Tick a box or choose a radio button."""

    act: Literal["check"] = "check"


class Uncheck(ForcibleStep):
    """Take the tick out of a box."""

    act: Literal["uncheck"] = "uncheck"


class Drag(ForcibleStep):
    """Drag an element onto another one."""

    act: Literal["drag"] = "drag"
    value: str = Field(min_length=1, max_length=2000, description="Selector of the element that it is dropped on.")

    def describe(self) -> str:
        return f"drag {self.selector} to {self.value}"


class Upload(ElementStep):
    """Put files into a file field, or into the file chooser that a click brings up."""

    act: Literal["upload"] = "upload"
    value: str | list[str] = Field(description="File or files, beside the task's file.")

    def describe(self) -> str:
        return f"upload {self.selector} = {self.value!r}"


class Download(ForcibleStep):
    """Click what starts a download, and keep the file."""

    act: Literal["download"] = "download"
    value: str | None = Field(None, description="File name expected; `*` stands for anything.")


# Acts on the page, on its surroundings, and looking at them.


class Open(StepBase):
    """Go to a URL."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["open"] = "open"
    url: str = Field(min_length=1, max_length=8000, description="Address; a relative one needs `--base-url`.")

    def describe(self) -> str:
        return f"open {self.url}"


class Press(StepBase):
    """Press a key, on an element or on the page."""

    act: Literal["press"] = "press"
    selector: str | None = Field(
        None, max_length=2000, description="Element that gets the key; without it, what has the focus."
    )
    frame: str | None = Field(
        None, max_length=2000, description="Selector of the iframe that it is in; `a >>> b`: of b in a."
    )
    value: str = Field(min_length=1, max_length=100, description="Name of a key, such as `Enter` or `Control+A`.")

    def describe(self) -> str:
        return f"press {self.value}" + (f" on {self.selector}" if self.selector else "")


class Scroll(StepBase):
    """Bring an element into view, or scroll the page or the element."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["scroll"] = "scroll"
    selector: str | None = Field(
        None, max_length=2000, description="Element to bring into view, or with `value` to scroll in."
    )
    frame: str | None = Field(
        None, max_length=2000, description="Selector of the iframe that it is in; `a >>> b`: of b in a."
    )
    value: int | None = Field(
        None,
        ge=-1_000_000,
        le=1_000_000,
        description="How far down, negative: up. Without it and a selector: to the end, in pixels.",
    )

    @property
    def looks_only(self) -> bool:
        return True


class Wait(StepBase):
    """Wait until an element is visible, and its text holds `value`; or for some seconds."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["wait"] = "wait"
    selector: str | None = Field(None, max_length=2000, description="Element that must become visible.")
    frame: str | None = Field(
        None, max_length=2000, description="Selector of the iframe that it is in; `a >>> b`: of b in a."
    )
    value: str | float | None = Field(
        None, description="With a selector: what its text must hold. Alone: how long to wait, in seconds."
    )

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


class SwitchPage(StepBase):
    """Go on in another open page (a popup, a new tab); what comes after acts there."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["switch_page"] = "switch_page"
    value: int | str | None = Field(
        None, description="Number in the order of opening (0 the first, -1 the newest), or a part of the page's title."
    )
    url: str | None = Field(
        None, min_length=1, max_length=8000, description="URL of the page; `*` stands for anything."
    )

    @model_validator(mode="after")
    def _one_name(self) -> SwitchPage:
        if (self.value is None) == (self.url is None):
            raise ValueError("`switch_page` needs either `value` (a number or a part of the title) or `url`")
        return self

    def describe(self) -> str:
        return f"switch_page {self.value if self.url is None else self.url}"


class Dialog(StepBase):
    """How the next dialog (alert, confirm, prompt) is answered; stands before the step that brings it up.

    Without it every dialog is accepted. The answer is kept until a dialog comes.
    """

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["dialog"] = "dialog"
    value: Literal["accept", "dismiss"] = Field("accept", description="The answer.")
    text: str | None = Field(None, max_length=10_000, description="What is written into a prompt.")

    @model_validator(mode="after")
    def _text_is_for_accepting(self) -> Dialog:
        if self.text is not None and self.value == "dismiss":
            raise ValueError("a dialog that is dismissed takes no `text`")
        return self

    def describe(self) -> str:
        return f"dialog {self.value}" + ("" if self.text is None else f" with {self.text!r}")


class Screenshot(StepBase):
    """Keep a screenshot of what is in view, or of one element; `screenshot_id` names it."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["screenshot"] = "screenshot"
    selector: str | None = Field(None, max_length=2000, description="Element to picture; without it, what is in view.")
    frame: str | None = Field(
        None, max_length=2000, description="Selector of the iframe that it is in; `a >>> b`: of b in a."
    )
    screenshot_id: str = Field(min_length=1, max_length=100, description="Name of the picture.")

    @property
    def looks_only(self) -> bool:
        return True


class Api(StepBase):
    """An HTTP request with the page's cookies."""

    act: Literal["api"] = "api"
    url: str = Field(min_length=1, max_length=8000, description="Address; a relative one needs `--base-url`.")
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = Field("GET", description="HTTP method.")
    headers: dict[str, str] = Field(default_factory=dict, description="HTTP headers.")
    value: JsonValue = Field(None, description="Body: an object or list is sent as JSON, a string as it is.")
    status: int | None = Field(
        None, ge=100, le=599, description="What must be answered; without it, anything below 400, as an HTTP status."
    )

    @property
    def effect_class(self) -> EffectClass:
        return self.effect or ("read" if self.method in ("GET", "HEAD") else "write")

    def describe(self) -> str:
        return f"api {self.method} {self.url}"


class Assert(StepBase):
    """Compare an element's text with `value`, or evaluate the criterion `expr` ."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["assert"] = "assert"
    selector: str | None = Field(None, max_length=2000, description="Element whose text is compared: the first match.")
    frame: str | None = Field(
        None, max_length=2000, description="Selector of the iframe that it is in; `a >>> b`: of b in a."
    )
    value: str | int | float | bool | None = Field(
        None, description="What its text must be; `<= 30`; or one call of `mem(...)` or `json(...)`."
    )
    expr: str | None = Field(None, max_length=10_000, description="Any criterion, in place of the other keys.")

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
    def looks_only(self) -> bool:
        return True

    def describe(self) -> str:
        return f"assert {self.expr}" if self.expr else f"assert {self.selector} = {self.value!r}"


__all__ = [
    "Api",
    "Assert",
    "Check",
    "Click",
    "Dialog",
    "Download",
    "Drag",
    "EffectClass",
    "ElementStep",
    "ForcibleStep",
    "Hover",
    "Open",
    "Option",
    "Press",
    "Screenshot",
    "Scroll",
    "Select",
    "Step",
    "StepBase",
    "Submit",
    "SwitchPage",
    "Type",
    "Uncheck",
    "Upload",
    "Wait",
]

Step = Annotated[
    Open
    | Click
    | Type
    | Select
    | Submit
    | Press
    | Hover
    | Check
    | Uncheck
    | Drag
    | Scroll
    | Wait
    | Upload
    | Download
    | Api
    | Assert
    | SwitchPage
    | Dialog
    | Screenshot,
    Field(discriminator="act"),
]
