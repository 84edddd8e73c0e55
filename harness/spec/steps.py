"""The steps of a task: one model per act."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from harness.recovery.declaration import ChosenBy, Declaration
from harness.recovery.locators import Selector
from harness.spec.page_steps import Back, Forward, Reload, Set, Wait
from harness.spec.pictures import PictureKeys
from harness.spec.step_base import (
    OF_FRAME,
    EffectClass,
    ElementStep,
    ForcibleStep,
    RepeatedStep,
    RequestingStep,
    StepBase,
)
from harness.spec.step_keys import AnswerKeys, ArrivalKeys, Option, Point, Statuses

# Acts on one element.


_POSITION = "Place in the element, from its upper left corner, as `{x: 10, y: 5}`. Default: its middle, in pixels."


class PointerStep(ForcibleStep):
    """An act of the pointer at a place of an element."""

    modifiers: tuple[Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"], ...] = Field(
        (), max_length=4, description="Keys that are held down meanwhile."
    )
    position: Point | None = Field(None, description=_POSITION)


class Click(PointerStep):
    """Click an element."""

    act: Literal["click"] = "click"
    button: Literal["left", "right", "middle"] = Field("left", description="Button of the mouse.")
    count: int = Field(
        1, ge=1, le=3, description="How often to click, quickly: 2 is a double click, as a plain number."
    )

    def _what(self) -> str:
        how = {1: "click", 2: "double click", 3: "triple click"}[self.count]
        return f"{how if self.button == 'left' else f'{self.button} {how}'} {self.selector}"


class Tap(PointerStep):
    """Tap an element on a touch screen; the `browser` must have one, as every phone in `device` has."""

    act: Literal["tap"] = "tap"


class Type(RepeatedStep, RequestingStep):
    """Replace the content of a field."""

    act: Literal["type"] = "type"
    selector: Selector | None = Field(
        None, description="The field. With `keys` it may be left out: then the focused element gets the keys."
    )
    frame: Selector | None = Field(None, description=OF_FRAME)
    force: bool = Field(False, description="Act also when the element is covered or not ready.")
    value: str | int | float = Field(description="The new content of the field.")
    keys: bool = Field(
        False,
        description="Whether each character is typed as a key, for fields that follow the keys: a list of "
        "suggestions, an editor. Without a `selector` they go to where the cursor is.",
    )
    delay: float | None = Field(None, ge=0, le=10, description="Time between two keys, in seconds.")

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        if self.selector is None and not self.keys:
            raise ValueError("`type` needs a `selector`, or `keys: true` to type into the focused element")
        if self.delay is not None and not self.keys:
            raise ValueError("`delay` goes with `keys: true`")
        if self.selector is None and self.frame is not None:
            raise ValueError("`frame` goes with a `selector`: `focus` an element of the frame before, without it here")
        if self.force and self.keys:
            raise ValueError("`force` does not go with `keys`: keys go to the element that has the focus")
        return self

    def _what(self) -> str:
        where = self.selector or "into the focused element"
        return f"type {where} = {str(self.value)!r}"


class Clear(ForcibleStep):
    """Empty a field."""

    act: Literal["clear"] = "clear"


class Focus(ElementStep):
    """Give an element the focus."""

    act: Literal["focus"] = "focus"


class Blur(ElementStep):
    """Take the focus from an element."""

    act: Literal["blur"] = "blur"


class Select(ForcibleStep):
    """Choose one or several options of a list, by value, label or position."""

    act: Literal["select"] = "select"
    value: str | int | float | list[str] | Option = Field(
        description="Value or label of the option, a list of them, or a mapping with exactly one of `value`, `label`, "
        "`index`."
    )

    def _what(self) -> str:
        return f"select {self.selector} = {self.value!r}"


class Submit(ElementStep):
    """Submit a form: the element is the form or inside it."""

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
    """Untick a box."""

    act: Literal["uncheck"] = "uncheck"


class Drag(ForcibleStep):
    """Drag an element onto another one."""

    act: Literal["drag"] = "drag"
    value: Selector | None = Field(None, description="The element to drop it on, like `selector`.")
    by: Point | None = Field(
        None, description="Distance to drag it, instead of `value`, as `{x: 100, y: 0}` for a slider, in pixels."
    )
    position: Point | None = Field(None, description=_POSITION)
    drop_position: Point | None = Field(None, description="Place in the element `value`, like `position`, in pixels.")

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if (self.value is None) == (self.by is None):
            raise ValueError("`drag` needs either `value`, the element to drop it on, or `by`, a distance")
        if self.drop_position is not None and self.value is None:
            raise ValueError("`drop_position` is a place in the element `value`")
        return self

    def _what(self) -> str:
        by = f"by {self.by.x:g}, {self.by.y:g}" if self.by is not None else f"to {self.value}"
        return f"drag {self.selector} {by}"


class Upload(ElementStep):
    """Put files into a file field, or into the file chooser that a click opens."""

    act: Literal["upload"] = "upload"
    value: str | list[str] = Field(description="File or files in the folder of the task's file.")
    drop: bool = Field(False, description="Whether the files are dropped onto the element, as from a folder.")

    def _what(self) -> str:
        return f"upload {self.selector} = {self.value!r}"


class Download(ForcibleStep):
    """Click an element that starts a download, and keep the file."""

    act: Literal["download"] = "download"
    value: str | None = Field(None, description="Expected file name; `*` matches anything.")


# Acts on the page and its surroundings, and acts that read it.


class Open(ArrivalKeys, RequestingStep):
    """Go to a URL."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["open"] = "open"
    url: str = Field(min_length=1, max_length=8000, description="Address; a relative one needs `--base-url`.")

    def _what(self) -> str:
        return f"open {self.url}"


class Press(RepeatedStep, RequestingStep):
    """Press a key, on an element or on the page."""

    act: Literal["press"] = "press"
    selector: Selector | None = Field(None, description="Element that gets the key. Default: the focused element.")
    frame: Selector | None = Field(None, description=OF_FRAME)
    value: str = Field(min_length=1, max_length=100, description="Name of a key, such as `Enter` or `Control+A`.")

    def _what(self) -> str:
        return f"press {self.value}" + (f" on {self.selector}" if self.selector else "")


_SELECTOR = re.compile(r"[#.\[/*]|[a-z_-]+=[^=]")
"""How selectors begin, and no criterion does."""


class Scroll(RepeatedStep, RequestingStep):
    """Bring an element into view, or scroll the page or the element."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["scroll"] = "scroll"
    selector: Selector | None = Field(
        None, description="Element to bring into view, or to scroll in when there is a `value`."
    )
    frame: Selector | None = Field(None, description=OF_FRAME)
    value: int | None = Field(
        None,
        ge=-1_000_000,
        le=1_000_000,
        description="Distance down; a negative number scrolls up. Without `value` and `selector` the page scrolls to "
        "its end, in pixels.",
    )
    right: int | None = Field(
        None,
        ge=-1_000_000,
        le=1_000_000,
        description="Distance to the right, or with a negative number left; with `to` only its direction counts, "
        "in pixels.",
    )
    to: Selector | None = Field(
        None,
        description="Scroll on, a screen at a time, until this element is in view: in a list that loads more, or whose "
        "rows exist only while they are shown.",
    )

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if self.to is not None and self.value is not None:
            raise ValueError("`scroll` takes either a distance, or the element `to` which it scrolls")
        if self.until is not None and _SELECTOR.match(self.until):
            raise ValueError(
                f"`until` is a criterion: to scroll on until an element is in view, write `to: {self.until}`"
            )
        return self


class SwitchPage(AnswerKeys, StepBase):
    """Switch to another open page (a popup, a new tab); the next steps act there."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["switch_page"] = "switch_page"
    value: int | str | None = Field(
        None,
        description="Number of the page in the order of opening (0 is the first, -1 the newest), or a part of its "
        "title.",
    )
    url: str | None = Field(None, min_length=1, max_length=8000, description="URL of the page; `*` matches anything.")

    @model_validator(mode="after")
    def _one_name(self) -> SwitchPage:
        if (self.value is None) == (self.url is None):
            raise ValueError("`switch_page` needs either `value` (a number or a part of the title) or `url`")
        return self

    def _what(self) -> str:
        return f"switch_page {self.value if self.url is None else self.url}"


class DialogText(Declaration):
    """A pattern for the text of a dialog."""

    matches: str = Field(min_length=1, max_length=1000, description="Regular expression that must match the text.")


class Dialog(StepBase):
    """Choose the answer to the next dialog (alert, confirm, prompt); put it before the step that opens the dialog.

    That step fails if no such dialog comes, unless this one is `optional`. Without it alerts are accepted, and
    questions dismissed.
    """

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["dialog"] = "dialog"
    value: Literal["accept", "dismiss"] = Field("accept", description="The answer.")
    text: str | None = Field(None, max_length=10_000, description="Text to enter into a prompt.")
    message: str | DialogText | None = Field(
        None,
        description="Text that the dialog must have, or `{matches: PATTERN}`. Another dialog does not take the answer.",
    )

    @model_validator(mode="after")
    def _text_and_pattern_fit(self) -> Dialog:
        if self.text is not None and self.value == "dismiss":
            raise ValueError("a dialog that is dismissed takes no `text`")
        pattern = self.message.matches if isinstance(self.message, DialogText) else "${"
        if "${" not in pattern:  # a reference is filled in later
            from harness.criteria.patterns import PatternError, compiled  # few dialogs have a pattern

            try:
                compiled(pattern)
            except PatternError as error:
                raise ValueError(f"`message`: {error}") from None
        return self

    def _what(self) -> str:
        said = self.message.matches if isinstance(self.message, DialogText) else self.message
        which = "" if said is None else f" {said!r}"
        return f"dialog {self.value}{which}" + ("" if self.text is None else f" with {self.text!r}")


class Screenshot(StepBase):
    """Keep a screenshot of the visible part of the page, or of one element, under the name `screenshot_id`."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["screenshot"] = "screenshot"
    selector: Selector | None = Field(None, description="Element to picture. Default: the visible part of the page.")
    frame: Selector | None = Field(None, description=OF_FRAME)
    screenshot_id: str = Field(min_length=1, max_length=100, description="Name of the picture.")


class Api(RepeatedStep):
    """Send an HTTP request with the page's cookies."""

    act: Literal["api"] = "api"
    url: str = Field(min_length=1, max_length=8000, description="Address; a relative one needs `--base-url`.")
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = Field("GET", description="HTTP method.")
    headers: dict[str, str] = Field(default_factory=dict, description="HTTP headers.")
    value: JsonValue = Field(None, description="Body. An object or list is sent as JSON, a string as it is.")
    status: Statuses | None = Field(
        None,
        description="Status, or list of statuses, that the site must answer with. Default: any below 400, as an HTTP "
        "status.",
    )
    expect: str | None = Field(
        None,
        min_length=1,
        max_length=10_000,
        description="Criterion that must hold after the answer. `result('path')` reads the body of the answer.",
    )

    @model_validator(mode="after")
    def _asked_once(self) -> Self:
        if self.until is not None and self.reads_answer:
            raise ValueError("`until` repeats the request, and `expect` and `result()` read one answer: make two steps")
        return self

    @property
    def reads_answer(self) -> bool:
        """Whether `expect` or `remember` may read the body of the answer."""
        return self.expect is not None or any("result" in each for each in self.remember.values())

    @property
    def effect_class(self) -> EffectClass:
        return self.effect or ("read" if self.method in ("GET", "HEAD") else "write")

    def _what(self) -> str:
        return f"api {self.method} {self.url}"


_BASELINE_SUFFIXES = (".aria.yaml", ".aria.yml")


class Assert(PictureKeys, StepBase):
    """Compare an element's text with `value`, its ARIA snapshot with `aria`, its look with `screenshot`; or `expr`."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["assert"] = "assert"
    selector: Selector | None = Field(
        None, description="Element whose text is compared: the first match that is displayed."
    )
    frame: Selector | None = Field(None, description=OF_FRAME)
    value: str | int | float | bool | None = Field(
        None, description="The expected text, a comparison such as `<= 30`, or one call of `mem(...)` or `json(...)`."
    )
    expr: str | None = Field(None, max_length=10_000, description="Any criterion, instead of the other keys.")
    aria: str | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        description="ARIA snapshot that the element must match, in Playwright's form, or the name of a file "
        "`*.aria.yaml` with one. `--task-update-baselines` writes the file. Default element: the whole page.",
    )
    soft: bool = Field(
        False,
        description="Whether the task goes on when the assertion fails. It then fails at its end, with all of them.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Assert:
        alone = next((name for name in ("screenshot", "aria") if getattr(self, name) is not None), None)
        if alone is None and (self.expr is None) == (self.selector is None):
            raise ValueError("`assert` needs either `selector` with `value`, or `expr`, or `aria`, or `screenshot`")
        if alone is None and self.selector is not None and self.value is None:
            others = "or an `aria` snapshot, or a `screenshot`"
            raise ValueError(f"`assert` with a `selector` needs the `value` its text must have, {others}")
        if alone is not None and (self.expr is not None or self.value is not None):
            raise ValueError(f"`assert` with `{alone}` takes neither `value` nor `expr`")
        if alone == "screenshot" and self.aria is not None:
            raise ValueError("`assert` takes either `aria` or `screenshot`: make two steps of them")
        if self.expr is not None and (self.value is not None or self.frame is not None):
            raise ValueError("`assert` with `expr` takes neither `value` nor `frame`")
        if self.soft and self.optional:
            raise ValueError(
                "`soft` and `optional` contradict each other: a task that goes on either fails at its end or does not"
            )
        return self

    @property
    def baseline(self) -> str | None:
        """The file to compare with, as it is declared; None without one: an ARIA snapshot may stand in the step."""
        if self.screenshot is not None:
            return self.screenshot
        return self.aria if self.aria is not None and self.aria.endswith(_BASELINE_SUFFIXES) else None

    def _what(self) -> str:
        if self.screenshot is not None:
            return f"assert {self.selector or self.frame or 'the page'} looks like {self.screenshot}"
        if self.aria is not None:
            return f"assert ARIA snapshot of {self.selector or 'the page'}"
        return f"assert {self.expr}" if self.expr else f"assert {self.selector} = {self.value!r}"


class Tool(StepBase):
    """Call a tool of a server (MCP) that the project names, or with `server: page` of the page itself (WebMCP)."""

    usual_effect: ClassVar[EffectClass] = "write"

    act: Literal["tool"] = "tool"
    server: str = Field(
        min_length=1, max_length=100, description="Name of the server in `[tool.harness.tools]`, or `page`."
    )
    tool: str = Field(min_length=1, max_length=200, description="Name of the tool.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Arguments, as the tool's schema has them."
    )
    status: Literal["ok", "error"] = Field(
        "ok", description="What the tool must answer: a result, or with `error` that it failed."
    )
    expect: str | None = Field(
        None,
        min_length=1,
        max_length=10_000,
        description="Criterion that must hold after the call. `result('path')` reads the tool's answer.",
    )

    @model_validator(mode="after")
    def _no_statuses(self) -> Self:
        if self.safe_statuses:
            raise ValueError("`safe_statuses` is for answers over HTTP, and a tool gives none: leave it out")
        return self

    def _what(self) -> str:
        return f"tool {self.server}.{self.tool}"


IMPACTS = ("minor", "moderate", "serious", "critical")
"""axe-core's words for how much a violation matters, the least first."""


class Accessibility(StepBase):
    """Check the page with axe-core. Violations fail the step, and name their elements."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["accessibility"] = "accessibility"
    selector: str | None = Field(None, max_length=2000, description="CSS selector of the part to check. Default: all.")
    tags: tuple[str, ...] = Field(
        (), description="Tags of axe-core's rules, such as `[wcag2a, wcag2aa]`. Default: the rules that are usually on."
    )
    rules: dict[str, bool] = Field(
        default_factory=dict, description="Name of a rule -> whether it is checked, as in `{color-contrast: false}`."
    )
    ignore: tuple[str, ...] = Field((), description="CSS selectors of parts that are not checked.")
    impact: Literal["minor", "moderate", "serious", "critical"] = Field(
        "minor", description="The least impact of a violation that fails the step."
    )
    soft: bool = Field(
        False, description="Whether the task goes on when there are violations. It then fails at its end."
    )

    def _what(self) -> str:
        return f"accessibility of {self.selector or 'the page'}"


Step = Annotated[
    Open | Click | Tap | Type | Clear | Focus | Blur | Select | Submit | Press | Hover
    | Check | Uncheck
    | Drag | Scroll | Wait | Upload
    | Download | Api | Assert | SwitchPage | Back | Forward | Reload | Set | Dialog | Screenshot | Accessibility | Tool,
    ChosenBy("act"),
]  # fmt: skip
