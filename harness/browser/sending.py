"""The requests that leave the pages during a step: evidence that it was a write (docs/design/never-twice.md).

A request is recorded in this process as it leaves, so it is known whatever dies afterwards.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any
from urllib.parse import urldefrag, urlsplit

from msgspec import Struct, field
from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.failures.network import GIVEN_UP, code_of, effect_of, net_error
from harness.model.record import SAFE_METHODS, Sent
from harness.recovery.catalog import Effect

# Requests that Chromium repeats by itself, because the connection broke or the answer was 408.

START = {
    "transferMode": "ReportEvents",
    "traceConfig": {"includedCategories": ["netlog"], "excludedCategories": ["*"]},
}
AGAIN = "HTTP_TRANSACTION_RESTART_AFTER_ERROR"
STARTED = "URL_REQUEST_START_JOB"
SECONDS = 0.3
"""Seconds that the browser may take to begin or end the recording; a busy one is not waited for."""


class Resending:
    """The recording of repeated requests in one browser, for any number of listeners."""

    def __init__(self, control: CDPSession) -> None:
        self._control = control
        self._lock = asyncio.Lock()
        self._listeners: list[list[Sent]] = []
        self._events: list[dict[str, Any]] = []
        self._complete = asyncio.Event()
        self._heard = False

    async def begin(self, sent: list[Sent]) -> None:
        """Start recording. `sent` receives the requests, and `end` marks those that were repeated. It never raises."""
        async with self._lock:
            self._listeners.append(sent)
            if len(self._listeners) == 1:
                await self._start()

    async def end(self, sent: list[Sent]) -> None:
        """Mark the requests that were repeated. It never raises: if the browser does not answer, nothing is marked."""
        async with self._lock:
            if not any(each is sent for each in self._listeners):
                return
            found = await self._stop()
            for each in self._listeners:
                mark(each, found)
            self._listeners = [each for each in self._listeners if each is not sent]
            if self._listeners:
                await self._start()

    async def _start(self) -> None:
        if not self._heard:
            self._control.on("Tracing.dataCollected", lambda event: self._events.extend(event["value"]))
            self._control.on("Tracing.tracingComplete", lambda _: self._complete.set())
            self._heard = True
        self._events.clear()
        await self._ask("Tracing.start", START)

    async def _stop(self) -> set[tuple[str, str]]:
        self._complete.clear()
        if await self._ask("Tracing.end", {}):
            try:
                async with asyncio.timeout(SECONDS):
                    await self._complete.wait()
            except TimeoutError:
                return set()
        return sent_again(self._events)

    async def _ask(self, method: str, parameters: dict[str, Any]) -> bool:
        try:
            async with asyncio.timeout(SECONDS):
                await self._control.send(method, parameters)
        except (PlaywrightError, TimeoutError):
            return False
        return True


def sent_again(events: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    """Method and URL of the requests that the net log shows were repeated. Pure."""
    asked: dict[Any, tuple[str, str]] = {}
    again: set[tuple[str, str]] = set()
    for event in sorted(events, key=lambda each: float(each.get("ts", 0))):
        source, params = str(event.get("id2")), event.get("args", {}).get("params") or {}
        if event.get("name") == STARTED and "url" in params:
            asked[source] = (str(params.get("method", "")), urldefrag(str(params["url"])).url)
        elif event.get("name") == AGAIN and source in asked:
            again.add(asked[source])
    return again


def mark(sent: Iterable[Sent], found: Collection[tuple[str, str]]) -> None:
    """Mark the requests that were found."""
    for each in sent:
        each.twice = each.twice or (each.method, each.url) in found


MOST = 200
"""The number of requests of one step that are kept; a page that sends more is a write already."""
KINDS = 200
"""The number of kinds of requests whose times are kept."""
SIGHTINGS = 3
"""The number of requests of one kind, at even intervals with no act in between, that proves a heartbeat."""
SHORTEST = 0.2
"""Seconds: requests at shorter intervals are no heartbeat, but several requests of one act."""
OFTEN = 2
"""The number of requests of one kind after one act that counts; a single one may be a late consequence of each act."""
EVEN = 1.5
"""The largest factor between the longest and the shortest interval of regular requests."""
BODY_BYTES = 4096
_DIGITS = re.compile(rb"\d+")
_ANSWERED_ANYWAY = ("ERR_BLOCKED_BY_RESPONSE", "ERR_BLOCKED_BY_ORB")
"""Errors of requests that are blocked only when the answer is there."""


def kind_of(method: str, url: str, body: bytes | None) -> Hashable:
    """The kind of a request: a page's heartbeats differ at most in their numbers (a time, a count)."""
    parts = urlsplit(url)
    return method, parts.netloc, parts.path, _DIGITS.sub(b"0", (body or b"")[:BODY_BYTES])


class _Kind(Struct):
    """The times of one kind of request since the last act, and whether the page sent it by itself before."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=SIGHTINGS))
    before: bool = False
    regular: bool = False
    parting: bool = False
    """Whether it was sent while leaving a page on which nothing had been done."""

    def seen(self, now: float) -> None:
        self.times.append(now)
        pauses = [later - earlier for earlier, later in zip(self.times, list(self.times)[1:], strict=False)]
        if len(pauses) == SIGHTINGS - 1 and min(pauses) >= SHORTEST:
            self.regular = self.regular or max(pauses) <= EVEN * min(pauses)


class Announcer:
    """Tells at once that an unsafe request leaves: `heard` is called, from the browser's events.

    One announcer serves all contexts that a task has, one after the other.
    """

    def __init__(self) -> None:
        self.heard: Callable[[Sent], None] = lambda _: None


class Sending:
    """The requests that leave one context. `begin` starts an attempt, `leaves` notes a request, `take` returns them."""

    def __init__(self, now: Callable[[], float], announcer: Announcer | None = None) -> None:
        self._now = now
        self._announcer = announcer or Announcer()
        self._left: list[Sent] = []
        self._kinds: dict[Hashable, _Kind] = {}
        self._looks = False
        self._opened = False
        self._unacted = False
        self._answered = False
        self._unsafe: list[Sent] = []
        """The unsafe requests since the attempt began."""

    def begin(self, *, looks: bool, opens: bool = False) -> None:
        """An attempt begins. A step that only reads causes nothing: what leaves meanwhile belongs to the act before.

        `opens`: it opens a page. What that page sends before another act, it sends by itself.
        """
        self._looks = looks
        self._unsafe.clear()
        if looks:
            return
        self._answered = False
        for kind in self._kinds.values():
            kind.before = kind.before or len(kind.times) >= (1 if self._opened else OFTEN)
            kind.times.clear()
        self._unacted, self._opened = self._opened, opens

    def leaves(
        self,
        method: str,
        url: str,
        *,
        page: bool,
        after: Sent | None,
        body: bytes | None,
        before: bool = False,
        routed: bool = False,
    ) -> Sent | None:
        """Record a request, or a message of a WebSocket (`MESSAGE`). Returns None if it need not be known.

        `after`: the request that was redirected to it.
        `before`: the step opens a page, and the request comes from the page that it leaves.
        `routed`: a route is to answer it, so it is not announced.
        """
        safe = method in SAFE_METHODS
        if safe and not page:
            return None
        if not safe and not page and self._own_doing(kind_of(method, url, body), parting=before):
            return None
        follows = self._answered if after is None else after.follows or after.method not in SAFE_METHODS
        sent = Sent(method, urldefrag(url).url, page=page, follows=safe and follows, before=before)
        if not (safe or before) and len(self._unsafe) < MOST:
            self._unsafe.append(sent)
        if len(self._left) < MOST:
            self._left.append(sent)
            if not (safe or routed):
                self._announcer.heard(sent)
        return sent

    def doubt(self, reason: str, *, before: bool = False) -> Sent:
        """Record that something may have been sent which could not be seen, until its `arrived` says otherwise."""
        sent = Sent("", "", before=before, unseen=reason)
        if len(self._left) < MOST:
            self._left.append(sent)
        return sent

    def announce(self, sent: Sent) -> None:
        """Tell of what was only recorded until now."""
        self._announcer.heard(sent)

    def _own_doing(self, kind: Hashable, *, parting: bool) -> bool:
        """Return whether the page sends this again and again by itself; in doubt it does not.

        `parting`: the page sends it while it is left. What it sent then without an act between two `open`, it sends by
        itself.
        """
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = _Kind()
            if len(self._kinds) > KINDS:
                del self._kinds[next(iter(self._kinds))]
        if parting:
            known.parting = known.parting or self._unacted
            return known.regular or known.parting
        known.seen(self._now())
        return known.regular or (self._looks and known.before)

    def answered(self, sent: Sent) -> None:
        """An answer has come, whatever it says."""
        self._answered = self._answered or (sent.method not in SAFE_METHODS and not sent.before)

    @staticmethod
    def failed(sent: Sent, error: str) -> None:
        """No answer came, or only a part: some errors say that nothing was sent."""
        name = net_error(error) or ""
        if name != GIVEN_UP and name not in _ANSWERED_ANYWAY:
            sent.arrived = sent.arrived and effect_of(code_of(name)) is not Effect.NONE

    def routed(self, sent: Sent) -> None:
        """A route answers it: it never leaves the browser."""
        sent.arrived = False
        self._unsafe = [each for each in self._unsafe if each is not sent]

    @property
    def unsafe(self) -> bool:
        """Whether an unsafe request has left since the attempt began."""
        return bool(self._unsafe)

    def take(self) -> tuple[Sent, ...]:
        """The requests that have left since the last call."""
        taken, self._left = tuple(self._left), []
        return taken
