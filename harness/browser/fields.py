"""`type`: fill a field of any kind, and see that it took the value."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator

from harness.browser.attempt import Attempt
from harness.browser.isolated import script
from harness.browser.liveness import PROBE_SECONDS
from harness.browser.login import page_of
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Type

_LOOK = script("field", "([e]) => e ? [e.type || '', e.value || '', e.min || '', e.max || ''] : null")
_BLACK = "#000000"
FORMS = {
    "date": "a date such as 2024-02-29",
    "time": "a time such as 13:45",
    "datetime-local": "a date and time such as 2024-02-29T13:45",
    "month": "a month such as 2024-02",
    "week": "a week such as 2024-W09",
    "number": "a number such as 12.5",
    "color": "a colour such as #ff8800",
    "range": "a number",
}
"""What the fields that drop other values take."""
_SPECIAL = f":scope:is({', '.join(f'input[type={kind}]' for kind in ('password', *FORMS))})"


@dataclass(frozen=True, slots=True)
class Field:
    """A field after the typing."""

    kind: str
    """The `type` of an input; empty for what has none."""
    value: str
    least: str = ""
    most: str = ""

    def dropped(self, typed: str) -> bool:
        """Whether the field has, without a word, something else than what was typed. Pure."""
        if not typed.strip() or self.kind not in FORMS:
            return False
        if self.kind == "color":
            return self.value == _BLACK and typed.strip().lower() not in (_BLACK, "#000", "black")
        return self.value == "" or (self.kind == "range" and _number(self.value) != _number(typed))

    @property
    def takes(self) -> str:
        """What it takes, in words."""
        if self.kind != "range":
            return FORMS[self.kind]
        return f"a number of its steps from {self.least or 0} to {self.most or 100}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


async def type_text(attempt: Attempt, step: Type) -> Mapping[str, Any]:
    """Replace the content of a field."""
    target, text, url = attempt.locator(step.selector, step.frame), str(step.value), attempt.page.url
    await attempt.act(target, lambda ms: target.fill(text, timeout=ms, force=step.force))
    field = await _look(target) if await _special(target) else None
    if field is None:
        return {}
    if field.kind == "password":
        attempt.tab.passwords.add(page_of(url))
    if field.dropped(text):
        message = f"{step.selector} does not take {text!r}: it is a field for {field.takes}"
        raise Failed(Failure("INVALID_INPUT", message, details={"field": field.kind, "value": field.value}))
    return {}


async def _special(target: Locator) -> bool:
    """Whether it needs a look. Asked by selector: that is cheap, a function in the page's world is not (`reading`)."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return bool(await target.first.locator(_SPECIAL).count())
    except (PlaywrightError, TimeoutError):
        return False


async def _look(target: Locator) -> Field | None:
    """The field as it is now, never waited for; None when typing made the page go on."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            found = await _LOOK.of_all(target)
    except (PlaywrightError, TimeoutError):
        return None
    return Field(*found) if found else None
