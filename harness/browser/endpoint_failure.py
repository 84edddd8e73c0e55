"""Why an endpoint gives no browser, in words and as a code. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.browser.launch_failure import first_line, no_display, why
from harness.recovery.failure import Failure

DOWN = "BROWSER_ENDPOINT_DOWN"
UNFIT = "BROWSER_ENDPOINT_UNFIT"
"""Another try would find the same: the server, or what is asked of it, has to be changed."""
UNSAFE = "start it with `python -m playwright run-server --unsafe`"
NO_WINDOW = (
    "a browser window needs a display, and there is none at the server that works: drop --headed, or start the server "
    "where DISPLAY is set, or under xvfb-run"
)
_VERSIONS = re.compile(r"server version: v?([\d.]+).*?client version: v?([\d.]+)", re.DOTALL)
_STATUS = re.compile(r" (4\d\d) [A-Z][\w ]*$")
_NO_BROWSER = re.compile(r"executable doesn't exist", re.IGNORECASE)
_MAYBE_LATER = ("408", "425", "429")
_HEAD = re.compile(r"^BrowserType\.connect: (?:WebSocket error: )?(?:wss?://\S+ )?")


def no_browser_there(error: Exception) -> bool:
    """Whether the server has found no browser where it looked, or was told to look."""
    return _NO_BROWSER.search(first_line(error)) is not None


def refusal(name: str, error: Exception) -> Failure:
    """What a connection failed with; `name` is how the endpoint is shown."""
    text = str(error)
    if versions := _VERSIONS.search(text):
        return unfit(name, _versions(*versions.groups()), error)
    if no_browser_there(error):
        told = "install one there (`python -m playwright install chromium`), or name one that is there"
        return unfit(name, f"it has no browser: {told} (--task-browser-executable PATH, and {UNSAFE})", error)
    if no_display(error):
        return unfit(name, NO_WINDOW, error)
    head = _HEAD.sub("", first_line(error)).strip()
    status = _STATUS.search(first_line(error))
    if status and status[1] not in _MAYBE_LATER:
        return unfit(name, f"it answers {head}: look at the path of the URL, and at what listens there", error)
    if isinstance(error, TimeoutError):
        return down(name, "it did not give a browser in time", error)
    return down(name, _HEAD.sub("", why(error)).strip() or "it broke off", error)


def _versions(server: str, client: str) -> str:
    return (
        f"its Playwright is {server}, the one here is {client}, and they must be the same: "
        f"`pip install playwright=={server}.*` here, or playwright=={client}.* there"
    )


def not_taken(name: str, lacking: Sequence[str]) -> Failure:
    """A server that has launched its browser without what is needed."""
    message = (
        f"its browser was started without {', '.join(lacking)}: {UNSAFE}; the browser of a launch-server is one that "
        "all share, and cannot have it"
    )
    return unfit(name, message)


def down(name: str, reason: str, error: Exception | None = None) -> Failure:
    """It may be there again later."""
    return Failure(DOWN, f"browser endpoint {name}: {reason}", details={"reason": reason}, cause=error)


def unfit(name: str, reason: str, error: Exception | None = None) -> Failure:
    return Failure(UNFIT, f"browser endpoint {name}: {reason}", details={"reason": reason}, cause=error)


def none_left(failures: Sequence[tuple[str, Failure]]) -> Failure:
    """No endpoint gives a browser. One that may come back makes it worth trying again."""
    code = DOWN if any(failure.code == DOWN for _, failure in failures) else UNFIT
    reasons = {name: str(failure.details.get("reason", failure.message)) for name, failure in failures}
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return Failure(code, f"no browser endpoint gives a browser: {told}", details=reasons, cause=failures[-1][1].cause)
