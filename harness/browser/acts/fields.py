"""`type` and `select`: fill a field of any kind, and check that it took the value."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.attempt import ActContext
from harness.browser.bounded import bounded
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.login import page_of
from harness.browser.failures.scene import CallLog
from harness.browser.isolated import DISPLAYED, script
from harness.browser.queries import LEAST_SECONDS
from harness.criteria import fold
from harness.masking import MARK
from harness.model.record import NOT_KEPT
from harness.recovery.failure import Failed, Failure
from harness.resilience import poll_until
from harness.spec.step_keys import Option
from harness.spec.steps import Blur, Clear, Focus, Select, Type
from harness.task_secrets import learn

# `select`: choose options of a list.

_LIST = script("options", "([e]) => [...(e?.options || [])].slice(0, 50).map(o => [o.value, o.label, o.disabled])")
_PLACES = script(
    "option_places",
    "([e], [names, by]) => {"
    + DISPLAYED
    + """
  if (!e.options) return [[], []];
  const options = [...e.options], place = fits => options.findIndex(fits);
  const labelled = name => o => o.label === name || fold(o.label) === fold(name);
  const places = names.map(name => {
    if (by === 'index') return [name < options.length ? name : -1, name, []];
    const fits = labelled(name), valued = by === 'label' ? -1 : place(o => o.value === name);
    if (valued >= 0 || by === 'value') return [valued, place(o => o.value === name || fits(o)), []];
    const meant = place(fits);
    const others = options.filter(o => fits(o) && o.value !== options[meant].value);
    return [meant, place(o => o.value === name || fits(o)), others.map(o => o.value)];
  });
  return [places, options.slice(0, 50).map(o => [o.value, o.label, o.disabled])];
}
""",
)
"""For each name the index of the matching option, -1 for none, of the option that Playwright would take, and the values
of other options with the same label, which is compared as Playwright compares labels; and the options (`_LIST`)."""
_IS_PASSWORD = script("is_password", "([e]) => !!e && e.type === 'password'")
_POLL = 0.05
"""Seconds between two checks for an option."""
_ABSENT = r"did not find some options"
_NOT_ENABLED = r"option being selected is not enabled"


async def select(attempt: ActContext, step: Select) -> Mapping[str, Any]:
    """Choose the options that the step names; `details.selected` has the values that are chosen now."""
    target = attempt.locator(step.selector, step.frame)
    wanted = await _option_arguments(attempt, target, step)
    chosen: list[str] = []

    async def choose(ms: float) -> None:
        most = 1000 * max(LEAST_SECONDS, attempt.left() - PROBE_SECONDS)  # leaves time to list the options
        chosen[:] = await target.select_option(**wanted, timeout=min(ms, most), force=step.force)

    try:
        await attempt.act(target, choose)
    except PlaywrightTimeoutError as error:
        log = CallLog.of(error.message)
        if log.contains(_ABSENT):
            raise Failed(_option_missing(await _options(target), step)) from error
        if log.contains(_NOT_ENABLED):
            message = f"option {_name_options(step.value)} of {step.selector} is disabled"
            shown = [_describe_option(*option) for option in await _options(target)]
            raise Failed(Failure("ELEMENT_DISABLED", message, details={"options": shown})) from error
        raise
    if isinstance(step.value, list) and len(set(step.value)) > 1 and len(chosen) == 1:
        message = f"{step.selector} is a list that takes one option, not {len(step.value)}"
        raise Failed(Failure("INVALID_INPUT", message, details={"selected": chosen}))
    return {"selected": chosen}


async def _option_arguments(attempt: ActContext, target: Locator, step: Select) -> dict[str, Any]:
    """Playwright's arguments. Its own `value` would take the first option with such a value or such a label."""
    if not isinstance(step.value, Option):
        names = step.value if isinstance(step.value, list) else [str(step.value)]
        places = await _places(attempt, target, step, names, "value or label")
        usual = all(meant == first for meant, first in places)
        return {"value": names} if usual else {"index": [meant for meant, _ in places]}
    for by in ("value", "label"):
        if (name := getattr(step.value, by)) is not None:
            places = await _places(attempt, target, step, [name], by)
            return {"index": [meant for meant, _ in places] or 0}
    await _places(attempt, target, step, [step.value.index], "index")
    return step.value.model_dump(exclude_none=True)


async def _places(
    attempt: ActContext, target: Locator, step: Select, names: Sequence[object], by: str
) -> list[tuple[int, int]]:
    """The result of `_PLACES` once all options exist; empty for an element that is no list: Playwright reports that.

    What was missing at the last look is kept for the case that the page does not answer until the limit.
    """
    found: list[tuple[int, int, list[str]]] = []
    options: list[tuple[str, str, bool]] = []

    async def ask(ms: float) -> None:
        found[:], options[:] = await _PLACES.of_one(target, [names, by], ms / 1000)

    async def all_there() -> bool:
        await attempt.act(target, ask)
        there = all(meant >= 0 for meant, *_ in found)
        attempt.scene.seen.lacked = None if there else _option_missing(options, step)
        return there

    if not await poll_until(attempt.clock, all_there, _POLL, min(attempt.patience, attempt.left() - PROBE_SECONDS)):
        raise Failed(_option_missing(options, step))
    for name, (_, _, others) in zip(names, found, strict=False):
        if others:
            count = len(others) + 1
            message = f"{step.selector} has {count} options with the label {name!r}: choose one by its value or index"
            details = {"options": [_describe_option(*option) for option in options]}
            raise Failed(Failure("INVALID_INPUT", message, details=details))
    return [(meant, first) for meant, first, _ in found]


def _name_options(value: str | float | list[str] | Option) -> str:
    if isinstance(value, Option):
        return ", ".join(f"{key} {each!r}" for key, each in value.model_dump(exclude_none=True).items())
    return ", ".join(repr(each) for each in value) if isinstance(value, list) else repr(str(value))


def _option_missing(options: Sequence[tuple[str, str, bool]], step: Select) -> Failure:
    shown = ", ".join(_describe_option(*option) for option in options) or "nothing"
    message = f"{step.selector} has no such option: {_name_options(step.value)}; it has: {shown}"
    return Failure("OPTION_NOT_FOUND", message, details={"options": [value or label for value, label, _ in options]})


def _describe_option(value: str, label: str, disabled: bool) -> str:
    words = value if value == label or not label else f"{value} ({label})" if value else label
    return f"{words} [disabled]" if disabled else words


async def _options(target: Locator) -> list[tuple[str, str, bool]]:
    """Value, label, and whether disabled; empty if the page does not answer."""
    return [tuple(option) for option in await bounded(_LIST.of_all(target), PROBE_SECONDS, ())]


_LOOK = script(
    "field",
    """([e]) => {
  const field = e?.matches('label') ? e.control ?? e : e;
  if (!field) return null;
  return field.isContentEditable ? ['editable', field.innerText, '', '']
    : [field.type || '', field.value || '', field.min || '', field.max || ''];
}""",
)
_BLACK = "#000000"
_FORMS = {
    "date": "a date such as 2024-02-29",
    "time": "a time such as 13:45",
    "datetime-local": "a date and time such as 2024-02-29T13:45",
    "month": "a month such as 2024-02",
    "week": "a week such as 2024-W09",
    "number": "a number such as 12.5",
    "color": "a colour such as #ff8800",
    "range": "a number",
}
"""The values that fields accept which drop any other value."""
_LOOK_SECONDS = 1.0
"""Seconds for a look at a field after typing. A page whose script hangs then is the failure of a later step."""
_UNTYPED = re.compile(r"Element is not an <input>")
"""Playwright's words for an element that has no text to type into."""


_NO_TEXT = (
    "Name the element that takes the text: an editor often has a hidden `textarea` or a `contenteditable` inside. "
    "Where nothing but keys is heard, click the element and use `press` for each key."
)
"""What helps for an element that `type` cannot fill."""


class TypedField(Struct, frozen=True):
    """The state of a field after typing."""

    kind: str
    """The `type` of an input; empty for other elements."""
    value: str
    least: str = ""
    most: str = ""

    def has_dropped(self, typed: str) -> bool:
        """Return whether the field silently dropped or changed what was typed. Pure."""
        if not typed.strip() or self.kind not in _FORMS:
            return False
        if self.kind == "color":
            return self.value == _BLACK and typed.strip().lower() not in (_BLACK, "#000", "black")
        return self.value == "" or (self.kind == "range" and _number(self.value) != _number(typed))

    def keeps(self, typed: str) -> bool:
        """Return whether it has the text that was typed; white space at its ends and line ends do not count. Pure."""
        return self.kind in _FORMS or fold(self.value) == fold(typed)

    def compared(self, typed: str) -> dict[str, str]:
        """What was typed, and what the field has: of a password only that they differ. Pure."""
        texts = {"typed": typed, "found": self.value}
        return texts if self.kind != "password" else dict.fromkeys(texts, MARK)

    @property
    def accepted_values(self) -> str:
        """The values that it accepts, in words."""
        if self.kind != "range":
            return _FORMS[self.kind]
        return f"a number that fits its steps, from {self.least or 0} to {self.most or 100}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


async def _type_keys(attempt: ActContext, step: Type) -> Mapping[str, Any]:
    text, delay = str(step.value), None if step.delay is None else 1000 * step.delay
    target, url = attempt.locator(step.selector or "*:focus", step.frame), attempt.page.url
    if step.selector is not None:
        try:  # a second attempt must not add to what the first one has typed
            await attempt.act(target, lambda ms: target.fill("", timeout=ms))
        except PlaywrightError as error:
            if not _UNTYPED.search(error.message):
                raise
        await attempt.act(target, lambda ms: target.focus(timeout=ms))
    try:
        async with asyncio.timeout(attempt.left()):
            await attempt.page.keyboard.type(text, delay=delay)
    except TimeoutError as error:
        raise PlaywrightTimeoutError("the keys were not typed in time: perhaps performing the action") from error
    if await bounded(_IS_PASSWORD.of_all(target), min(_LOOK_SECONDS, attempt.left()), False):
        attempt.tab.passwords.add(page_of(url))
        learn(text)
    return {}


async def clear(attempt: ActContext, step: Clear) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(target, lambda ms: target.clear(timeout=ms, force=step.force))
    return {}


async def focus(attempt: ActContext, step: Focus | Blur) -> Mapping[str, Any]:
    """Give an element the focus, or take it from it."""
    target = attempt.locator(step.selector, step.frame)
    call = target.focus if isinstance(step, Focus) else target.blur
    await attempt.act(target, lambda ms: call(timeout=ms))
    return {}


async def type_text(attempt: ActContext, step: Type) -> Mapping[str, Any]:
    """Replace the content of a field; `details.not_kept` has both texts if it has another one afterwards.

    With `keys` each character is a key, and the field is not judged: it may make of them what it likes.
    """
    if step.selector is None or step.keys:
        return await _type_keys(attempt, step)
    target, text, url = attempt.locator(step.selector, step.frame), str(step.value), attempt.page.url
    try:
        await attempt.act(target, lambda ms: target.fill(text, timeout=ms, force=step.force))
    except PlaywrightError as error:
        if not _UNTYPED.search(error.message):
            raise
        message = f"{step.selector} has no text to type into: it is no input, textarea or editable element"
        raise Failed(Failure("INVALID_INPUT", message, advice=_NO_TEXT)) from error
    found = await bounded(_LOOK.of_all(target), min(_LOOK_SECONDS, attempt.left()), None)
    if not found:  # the typing made the page navigate, or hang
        return {}
    field = TypedField(*found)
    if field.kind == "password":
        attempt.tab.passwords.add(page_of(url))
        learn(text)
    if field.has_dropped(text):
        message = f"{step.selector} does not take {text!r}: it is a field for {field.accepted_values}"
        raise Failed(Failure("INVALID_INPUT", message, details={"field": field.kind, "value": field.value}))
    return {} if field.keeps(text) else {NOT_KEPT: field.compared(text)}
