"""The view of the page that an agent gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from harness.model.tools import OfferedTool
from harness.recovery.failure import Outcome


class Observation(Struct, frozen=True):
    """The view of the page that an agent gets when it asks."""

    url: str
    title: str
    aria: str
    """The ARIA snapshot in Playwright's AI mode; an element's `[ref=e12]` is the selector `aria-ref=e12`."""
    pages: tuple[str, ...] = ()
    """URLs of the open pages, in the order of opening."""
    page: int = 0
    """The position of the current page in `pages`."""
    dialogs: tuple[Mapping[str, Any], ...] = ()
    """Dialogs that opened during the last step: type, message, answer."""
    last: Outcome | None = None
    """The outcome of the last step; None before the first."""
    screenshot: bytes | None = None
    """A PNG of the viewport, if requested."""
    held_back: tuple[str, ...] = ()
    """Requests (`POST http://...`) since the last step began that the agent's policy did not let leave."""
    left: Mapping[str, float] = field(default_factory=dict)
    """What the task may still use: `steps`, `seconds`, and what else its budget limits."""
    tools: tuple[OfferedTool, ...] = ()
    """The tools beside the page that the agent may call, as far as they are known now."""
