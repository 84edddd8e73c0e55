"""Takes a browser context off the network, for as long as there is a reason."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from playwright.async_api import BrowserContext

_reasons: WeakKeyDictionary[BrowserContext, set[str]] = WeakKeyDictionary()
"""Why a context is offline: it comes back only when nothing keeps it."""


def keep_offline(context: BrowserContext, why: str) -> None:
    """The context is offline for this reason, too."""
    _reasons.setdefault(context, set()).add(why)


async def go_offline(context: BrowserContext, why: str) -> None:
    """Take the context off the network. Raises Playwright's errors."""
    keep_offline(context, why)
    await context.set_offline(True)


async def go_online(context: BrowserContext, why: str) -> None:
    """End one reason to be offline. Raises Playwright's errors."""
    reasons = _reasons.setdefault(context, set())
    reasons.discard(why)
    if not reasons:
        await context.set_offline(False)
