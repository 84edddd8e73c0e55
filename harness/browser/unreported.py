"""What a page may send that no browser reports (docs/design/never-twice.md).

Chromium reports no request that a document sends on `pagehide` or `unload`, or as it becomes hidden on its way out. So
the page is asked, before the first act on it and before an `open` leaves it, whether something waits for that moment.
Nor does it report what is sent by WebRTC or WebTransport: whether such a channel is open is asked before the task goes
back.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urldefrag, urlsplit

from playwright.async_api import CDPSession, Request
from playwright.async_api import Error as PlaywrightError

from harness.browser.bounded import bounded
from harness.browser.main_frame import MainFrame

_ASK_SECONDS = 0.25
FAREWELL = "the page listens for being left, and what it sends then is reported by no browser"
_LISTENS = """[window, document].some(of => {
  const listeners = getEventListeners(of);
  return ['pagehide', 'unload'].some(name => listeners[name])
    || (listeners.visibilitychange || []).some(each => /sendBeacon|fetch|XMLHttpRequest/.test(each.listener));
})"""
"""Many pages listen for `visibilitychange` only to load again what they show: there a listener must name a request."""


CHANNELS = {
    "RTCPeerConnection": "a data channel of WebRTC is open, and no browser reports what is sent by it",
    "WebTransport": "a WebTransport is open, and no browser reports what is sent by it",
}
_USED = "function() { return this.some(each => each.sctp !== null && each.connectionState !== 'closed') }"
"""`sctp` is None in a connection that only plays sound or pictures, and no property of a WebTransport."""


async def listens(control: CDPSession) -> bool:
    """Return whether the page listens for being left; False if it does not answer. It never raises."""
    asked = {"expression": _LISTENS, "includeCommandLineAPI": True, "returnByValue": True, "silent": True}
    answer = await bounded(control.send("Runtime.evaluate", asked), _ASK_SECONDS, None)
    return answer is not None and answer["result"].get("value") is True


async def open_channels(control: CDPSession, seconds: float) -> list[str]:
    """Say of each kind of channel that the page may send by unseen that one is open; nothing if it does not answer.

    To find them, the browser collects garbage, which takes a tenth of a second. It never raises.
    """
    try:
        async with asyncio.timeout(seconds):
            return [what for kind, what in CHANNELS.items() if await _uses(control, kind)]
    except (PlaywrightError, TimeoutError):
        return []


async def _uses(control: CDPSession, kind: str) -> bool:
    asked = {"expression": f"globalThis.{kind}?.prototype", "objectGroup": kind}
    prototype = (await control.send("Runtime.evaluate", asked))["result"].get("objectId")
    if prototype is None:
        return False
    query = {"prototypeObjectId": prototype, "objectGroup": kind}
    found = (await control.send("Runtime.queryObjects", query))["objects"]["objectId"]
    call = {"objectId": found, "functionDeclaration": _USED, "returnByValue": True}
    used = await control.send("Runtime.callFunctionOn", call)
    await control.send("Runtime.releaseObjectGroup", {"objectGroup": kind})
    return used["result"].get("value") is True


class Parting:
    """A page that an `open` leaves. What it sends until then is not caused by the `open`.

    Chromium does not report the requests that it sends on `pagehide`, when the other document is already there.
    """

    def __init__(self, page: MainFrame, now: float) -> None:
        self.page, self._url, self._arrivals = page, urldefrag(page.page.url).url, page.arrivals
        self._since = now

    def outlived_by(self, began: float, page: MainFrame | None = None) -> bool:
        """Return whether a socket of this page, or a worker, that began then may have been used by the page."""
        return began < self._since and page in (None, self.page)

    def sends(self, request: Request, page: MainFrame | None) -> bool:
        """Return whether the page sent this request: by its referer, if that names a page that is not opened again."""
        if page is not self.page:
            return False
        named, opened = request.headers.get("referer"), page.navigation
        again = opened is not None and urldefrag(opened.url).url == self._url
        if named and not again and urlsplit(named).path not in ("", "/"):  # otherwise it may be only the origin
            return urldefrag(named).url == self._url
        return page.arrivals == self._arrivals
