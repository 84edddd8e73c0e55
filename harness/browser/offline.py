"""Takes a browser context off the network, for as long as there is a reason."""

from __future__ import annotations

from secrets import token_hex
from weakref import WeakKeyDictionary

from playwright.async_api import BrowserContext

HOLD_EVENT = f"taskspec-{token_hex(8)}"
"""The event that tells a document whether it is held; no page knows its name."""
UNNOTICED = f"""(() => {{
  let held = false;
  const unless = event => {{ if (held) event.stopImmediatePropagation(); }};
  addEventListener('{HOLD_EVENT}', event => {{ held = event.detail; event.stopImmediatePropagation(); }});
  addEventListener('offline', unless);
  addEventListener('online', unless);
}})()"""
"""What every document runs before its own scripts, since of the listeners of a window the first is called first."""
_reasons: WeakKeyDictionary[BrowserContext, set[str]] = WeakKeyDictionary()
"""Why a context is offline: it comes back only when nothing keeps it."""


def keep_offline(context: BrowserContext, why: str) -> None:
    """The context is offline for this reason, too."""
    _reasons.setdefault(context, set()).add(why)


def is_offline(context: BrowserContext) -> bool:
    """Whether there is a reason."""
    return bool(_reasons.get(context))


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
