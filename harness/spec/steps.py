"""The steps of a task: one model per act."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from harness.recovery.declaration import ChosenBy, Declaration
from harness.spec.habits import in_seconds
from harness.spec.pictures import PictureKeys
from harness.spec.step_keys import AnswerKeys, ArrivalKeys, ExpectedRequest, Option, Statuses

# The common keys of a task's steps.

EffectClass = Literal["read", "idempotent", "write"]


class StepBase(Declaration):
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
        """One line for people: act and target."""
        return f"{self.act} {self.target}" if self.target else self.act


_FRAME = "Selector of the iframe that contains the element. `a >>> b` is the frame b inside the frame a."


class RequestingStep(AnswerKeys, StepBase):
    """An act by which a page may send requests."""

    expect_request: ExpectedRequest | None = Field(
        None, description="A request that a page must send during the act or soon after it."
    )


class ElementStep(RequestingStep):
    """An act on one element."""

    selector: str = Field(
        min_length=1, max_length=2000, description="The element: CSS, XPath or any Playwright engine."
    )
    frame: str | None = Field(None, max_length=2000, description=_FRAME)


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
    value: str | int | float = Field(description="The new content of the field.")

    def describe(self) -> str:
        return f"type {self.selector} = {str(self.value)!r}"


class Select(ForcibleStep):
    """Choose one or several options of a list, by value, label or position."""

    act: Literal["select"] = "select"
    value: str | int | float | list[str] | Option = Field(
        description="Value or label of the option, a list of them, or a mapping with exactly one of `value`, `label`, "
        "`index`."
    )

    def describe(self) -> str:
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
    value: str = Field(min_length=1, max_length=2000, description="Selector of the element to drop it on.")

    def describe(self) -> str:
        return f"drag {self.selector} to {self.value}"


class Upload(ElementStep):
    """Put files into a file field, or into the file chooser that a click opens."""

    act: Literal["upload"] = "upload"
    value: str | list[str] = Field(description="File or files in the folder of the task's file.")

    def describe(self) -> str:
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

    def describe(self) -> str:
        return f"open {self.url}"


class Press(RequestingStep):
    """Press a key, on an element or on the page."""

    act: Literal["press"] = "press"
    selector: str | None = Field(
        None, max_length=2000, description="Element that gets the key. Default: the focused element."
    )
    frame: str | None = Field(None, max_length=2000, description=_FRAME)
    value: str = Field(min_length=1, max_length=100, description="Name of a key, such as `Enter` or `Control+A`.")

    def describe(self) -> str:
        return f"press {self.value}" + (f" on {self.selector}" if self.selector else "")


class Scroll(RequestingStep):
    """Bring an element into view, or scroll the page or the element."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["scroll"] = "scroll"
    selector: str | None = Field(
        None, max_length=2000, description="Element to bring into view, or to scroll in when there is a `value`."
    )
    frame: str | None = Field(None, max_length=2000, description=_FRAME)
    value: int | None = Field(
        None,
        ge=-1_000_000,
        le=1_000_000,
        description="Distance down; a negative number scrolls up. Without `value` and `selector` the page scrolls to "
        "its end, in pixels.",
    )


class Wait(RequestingStep):
    """Wait until an element is visible and its text contains `value`, or wait for some seconds."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["wait"] = "wait"
    selector: str | None = Field(None, max_length=2000, description="Element that must become visible.")
    frame: str | None = Field(None, max_length=2000, description=_FRAME)
    value: str | float | None = Field(
        None,
        description="With a `selector`: a text that the first displayed match must contain. Without one: how long to "
        "wait, in seconds.",
    )

    @model_validator(mode="after")
    def _something_to_wait_for(self) -> Wait:
        if self.selector is None and not isinstance(self.value, (int, float)):
            raise ValueError("`wait` needs a `selector`, or a number of seconds as `value`")
        if isinstance(self.value, (int, float)) and self.selector is None and not 0 <= self.value <= 3600:
            hint = in_seconds(self.value, 3600)
            raise ValueError(f"`wait` takes 0 to 3600 seconds{f' ({hint})' if hint else ''}")
        return self

    def describe(self) -> str:
        seconds = self.selector is None and isinstance(self.value, float)
        return f"wait {self.value:g} s" if seconds else f"wait {self.selector}"


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

    def describe(self) -> str:
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

    def describe(self) -> str:
        said = self.message.matches if isinstance(self.message, DialogText) else self.message
        which = "" if said is None else f" {said!r}"
        return f"dialog {self.value}{which}" + ("" if self.text is None else f" with {self.text!r}")


class Screenshot(StepBase):
    """Keep a screenshot of the visible part of the page, or of one element, under the name `screenshot_id`."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["screenshot"] = "screenshot"
    selector: str | None = Field(
        None, max_length=2000, description="Element to picture. Default: the visible part of the page."
    )
    frame: str | None = Field(None, max_length=2000, description=_FRAME)
    screenshot_id: str = Field(min_length=1, max_length=100, description="Name of the picture.")


class Api(StepBase):
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

    @property
    def effect_class(self) -> EffectClass:
        return self.effect or ("read" if self.method in ("GET", "HEAD") else "write")

    def describe(self) -> str:
        return f"api {self.method} {self.url}"


_BASELINE_SUFFIXES = (".aria.yaml", ".aria.yml")


class Assert(PictureKeys, StepBase):
    """Compare an element's text with `value`, its ARIA snapshot with `aria`, its look with `screenshot`; or `expr`."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["assert"] = "assert"
    selector: str | None = Field(
        None, max_length=2000, description="Element whose text is compared: the first match that is displayed."
    )
    frame: str | None = Field(None, max_length=2000, description=_FRAME)
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

    def describe(self) -> str:
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

    def describe(self) -> str:
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

    def describe(self) -> str:
        return f"accessibility of {self.selector or 'the page'}"


Step = Annotated[
    Open | Click | Type | Select | Submit | Press | Hover | Check | Uncheck | Drag | Scroll | Wait | Upload
    | Download | Api | Assert | SwitchPage | Dialog | Screenshot | Accessibility | Tool,
    ChosenBy("act"),
]  # fmt: skip
