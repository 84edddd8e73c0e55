"""Acts on the page as a whole: its history, what it is waited for, and what its browser emulates meanwhile."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from harness.recovery.declaration import Declaration
from harness.recovery.locators import Selector
from harness.spec.context import ContextOptions, Geolocation, Size, checked_headers, checked_permission
from harness.spec.habits import in_seconds
from harness.spec.step_base import OF_FRAME, EffectClass, RequestingStep
from harness.spec.step_keys import LATER, ArrivalKeys, ExpectedRequest


class HistoryStep(ArrivalKeys, RequestingStep):
    """An act that shows a page of the tab's history again."""

    usual_effect: ClassVar[EffectClass] = "read"


class Back(HistoryStep):
    """Go back in the history of the page; like `open`, it waits for the page and judges the answer."""

    act: Literal["back"] = "back"


class Forward(HistoryStep):
    """Go forward in the history of the page, after a `back`."""

    act: Literal["forward"] = "forward"


class Reload(HistoryStep):
    """Load the page again. The answer to a form that was sent is not: that would send it twice."""

    act: Literal["reload"] = "reload"


class Wait(RequestingStep):
    """Wait until an element is visible and its text contains `value`, or wait for some seconds."""

    usual_effect: ClassVar[EffectClass] = "read"
    looks_only: ClassVar[bool] = True

    act: Literal["wait"] = "wait"
    selector: Selector | None = Field(None, description="Element that must become visible.")
    frame: Selector | None = Field(None, description=OF_FRAME)
    value: str | float | None = Field(
        None,
        description="With a `selector`: a text that the first displayed match must contain. Without one: how long to "
        "wait, in seconds.",
    )
    url: str | None = Field(
        None, min_length=1, max_length=8000, description="URL that the page must have; `*` matches anything."
    )
    state: Literal["load", "domcontentloaded", "networkidle"] | None = Field(
        None,
        description="How far the page must have loaded: `load`, `domcontentloaded`, or `networkidle` (no requests for "
        "half a second, which some pages never reach).",
    )
    request: ExpectedRequest | None = Field(
        None, description="A request that a page must send, or has sent since the act before."
    )
    expr: str | None = Field(None, max_length=10_000, description="Criterion that must hold.")

    @model_validator(mode="after")
    def _something_to_wait_for(self) -> Self:
        aims = [name for name in _AIMS if getattr(self, name) is not None]
        if isinstance(self.value, (int, float)) and self.selector is None:
            aims.append("value")
            if not 0 <= self.value <= 3600:
                hint = in_seconds(self.value, 3600)
                raise ValueError(f"`wait` takes 0 to 3600 seconds{f' ({hint})' if hint else ''}")
        if not aims:
            others = ", ".join(f"`{name}`" for name in _AIMS[1:])
            raise ValueError(f"`wait` needs a `selector`, or a number of seconds as `value`, or one of {others}")
        if len(aims) > 1:
            raise ValueError(f"`wait` waits for one thing: `{aims[0]}` or `{aims[1]}`")
        if self.selector is None and isinstance(self.value, str):
            raise ValueError("a text as `value` goes with a `selector`")
        if self.selector is None and self.frame is not None:
            raise ValueError("`frame` goes with a `selector`")
        if self.request is not None and self.expect_request is not None:
            raise ValueError("`request` of a `wait` is its `expect_request`: leave one of them out")
        return self

    @property
    def wanted_request(self) -> ExpectedRequest | None:
        """The request that must be sent."""
        return self.request or self.expect_request

    def _what(self) -> str:
        if self.selector is None and isinstance(self.value, float):
            return f"wait {self.value:g} s"
        if self.request is not None:
            return f"wait for request {self.request.describe()}"
        return f"wait {self.selector or self.url or self.state or self.expr}"


_AIMS = ("selector", "url", "state", "request", "expr")


# `set`: what the browser emulates from here on.

_DURATION = re.compile(r"(?:(\d+)d)?\s*(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+(?:\.\d+)?)s)?")
_UNITS = (86_400, 3600, 60, 1)


def seconds_of(duration: str | float) -> float:
    """The seconds of `90`, `30s`, `1h 30m` or `2d`. Raises ValueError."""
    if not isinstance(duration, str):
        return duration
    found = _DURATION.fullmatch(duration.strip())
    if found is None or not any(found.groups()):
        raise ValueError(f"{duration!r} is not a duration, such as `30s`, `2h`, `1d 12h`")
    return sum(float(amount) * unit for amount, unit in zip(found.groups(), _UNITS, strict=True) if amount)


def _duration(duration: str | float) -> str | float:
    if not (isinstance(duration, str) and LATER in duration) and not 0 < seconds_of(duration) <= 100 * 365 * 86_400:
        raise ValueError("the clock goes forward by more than nothing, and by at most 100 years")
    return duration


def moment_of(text: str) -> datetime:
    """The moment of an ISO 8601 text with a zone. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is not a point in time in ISO 8601 with a zone, such as 2025-11-16T09:00:00Z")
    return moment


def _moment(text: str) -> str:
    if LATER not in text:
        moment_of(text)
    return text


class ClockChange(Declaration):
    """A change of the page's clock; exactly one of the keys."""

    fast_forward: Annotated[str | float, AfterValidator(_duration)] | None = Field(
        None, description="Go forward by this duration, as `30s`, `2h`, `1d 12h` or in seconds; due timers fire once."
    )
    pause_at: Annotated[str, AfterValidator(_moment)] | None = Field(
        None, description="Go forward to this point in time, in ISO 8601 with a zone, and stand still there."
    )
    resume: Literal[True] | None = Field(None, description="Let the clock run again.")

    @model_validator(mode="after")
    def _one_change(self) -> Self:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("`clock` takes exactly one of `fast_forward`, `pause_at` and `resume`")
        return self


_NO_CREDENTIALS = (
    "Chromium goes on sending the user that a site has accepted, so `http_credentials` cannot change in a context that "
    "lives: declare them in `browser:` of the task, or send an `Authorization` header with `extra_headers`, which "
    "every host gets"
)


class Set(RequestingStep):
    """Change what the browser emulates, from here to the end of the task; the other keys stay as they are."""

    act: Literal["set"] = "set"
    offline: bool | None = Field(None, description="Whether the browser has no network.")
    geolocation: Geolocation | None = Field(
        None, description="Where the browser says it is; it grants `geolocation` unless `permissions` are declared."
    )
    permissions: tuple[Annotated[str, AfterValidator(checked_permission)], ...] | None = Field(
        None, description="Permissions that pages have from now on, instead of those before."
    )
    color_scheme: Literal["light", "dark", "no-preference"] | None = Field(
        None, description="Answer to `prefers-color-scheme`."
    )
    reduced_motion: Literal["reduce", "no-preference"] | None = Field(
        None, description="Answer to `prefers-reduced-motion`."
    )
    viewport: Size | None = Field(None, description="Width and height of pages, as `[390, 844]`, in pixels.")
    extra_headers: Annotated[dict[str, str], AfterValidator(checked_headers)] | None = Field(
        None, description="Headers of every request, instead of those before."
    )
    clock: ClockChange | None = Field(None, description="Change of the page's clock.")

    @model_validator(mode="before")
    @classmethod
    def _can_be_changed(cls, data: object) -> object:
        if isinstance(data, dict) and "http_credentials" in data:
            raise ValueError(_NO_CREDENTIALS)
        if isinstance(data, dict) and isinstance(data.get("permissions"), list):
            return {**data, "permissions": tuple(data["permissions"])}  # what a validator has touched is no JSON
        return data

    @model_validator(mode="after")
    def _some_change(self) -> Self:
        if self.clock is None and not self.options.model_fields_set:
            known = ", ".join(f"`{name}`" for name in (*_EMULATED, "clock"))
            raise ValueError(f"`set` needs something to change: {known}")
        return self

    @property
    def options(self) -> ContextOptions:
        """The changes, in the form of `browser:`; the clock is apart."""
        given = {name: each for name in _EMULATED if (each := getattr(self, name)) is not None}
        return ContextOptions.model_construct(set(given), **given)

    def _what(self) -> str:
        changed = self.options.model_dump(exclude_unset=True, exclude={"extra_headers"})
        if self.extra_headers is not None:  # their values may be secrets
            changed["extra_headers"] = list(self.extra_headers)
        if self.clock is not None:
            changed["clock"] = self.clock.model_dump(exclude_none=True)
        return "set " + ", ".join(f"{name} = {value}" for name, value in changed.items())


_EMULATED = (
    "offline", "geolocation", "permissions", "color_scheme", "reduced_motion", "viewport", "extra_headers",
)  # fmt: skip
