"""Acts on the page, on its surroundings, and looking at them (DESIGN 4.2)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, JsonValue, model_validator

from harness.spec.step import EffectClass, StepBase


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
