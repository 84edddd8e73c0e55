"""Why a browser does not start, in one line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.recovery.failure import Failed, Failure

WORDS = 3
"""Lines of the browser's own log that are told."""
_NO_DISPLAY = "a browser window needs a display, and DISPLAY is not set: drop --headed, or run under xvfb-run"
_SANDBOX = "Chromium sandboxing failed"
_NO_X = ("without having a XServer running", "Missing X server")
"""Playwright's words, and Chromium's own."""
_CLOSED = "has been closed"
_SAID = re.compile(r"^\[pid=\S+?\]\[(?:err|out)\]\s*")
_PLACE = re.compile(r"^\[[\d:/.]*:?(?:[A-Z]+:)?[^\]]*\.(?:cc|mm|h)[:(]\d+\)?\]\s*")
_NOISE = re.compile(
    r"^#\d+ 0x|^\s*r?[a-z0-9]{2,3}: [0-9a-f]{16}|Received signal|end of stack trace|Failed to connect to the bus"
    r"|unexpected operator|^DevTools listening"
)


def check_display(headed: bool, environment: Mapping[str, str], platform: str) -> None:
    """Raise Failed when a window is asked for where none can be shown; only Linux says so beforehand."""
    if headed and platform == "linux" and not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        raise Failed(Failure("BROWSER_LAUNCH_FAILED", _NO_DISPLAY))


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def why(error: Exception) -> str:
    """The first line of Playwright's message, and the browser's last words."""
    head = first_line(error).removeprefix("BrowserType.launch: ")
    words = "; ".join(last_words(str(error)))
    if _CLOSED in head:
        return words or "it ended at once"
    return f"{head}: {words}" if words else head


def last_words(message: str) -> tuple[str, ...]:
    """What the browser itself said before it ended, at most WORDS lines; else the code it ended with."""
    said = list(dict.fromkeys(_said(message)))
    if _SANDBOX in message:
        return (_SANDBOX, *said[1 - WORDS :])
    if said:
        return tuple(said[-WORDS:])
    ended = re.search(r"process did exit: exitCode=(\w+), signal=(\w+)", message)
    if ended is None:
        return ()
    return (f"it ended by {ended[2]}" if ended[2] != "null" else f"it ended with exit code {ended[1]}",)


def _said(message: str) -> Iterator[str]:
    """The browser's lines. Playwright puts its own advice in their place at times; the call log keeps them."""
    for line in message.splitlines():
        bare = line.strip().removeprefix("- ")
        text = _PLACE.sub("", _SAID.sub("", bare)).strip()
        if _SAID.match(bare) and text and not _NOISE.search(text):
            yield text


def no_display(error: Exception) -> bool:
    """Whether the browser was to show a window, and there was no display for it where it was started."""
    return any(words in str(error) for words in _NO_X)


def sandboxing_failed(error: Exception) -> bool:
    """Whether it was Chromium's own sandbox that could not be set up: no user namespaces, or root."""
    return any(words in str(error) for words in (_SANDBOX, "No usable sandbox"))
