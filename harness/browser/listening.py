"""Listening to Playwright's events, cheaply: there are several for each request of a page."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Final

from playwright.async_api import BrowserContext, Page

_ONE: Final = Signature([Parameter("event", Parameter.POSITIONAL_ONLY)])


def listen(emitter: BrowserContext | Page, event: str, handler: Callable[[Any], None]) -> None:
    """As `emitter.on(event, handler)`.

    Playwright asks for the handler's signature at every event, which costs more than all else about it: here it is
    written on it.
    """

    def heard(event: Any) -> None:
        handler(event)

    heard.__signature__ = _ONE  # type: ignore[attr-defined]
    emitter.on(event, heard)  # type: ignore[call-overload]
