"""Chromium's net log: what the browser sends, also what no page and no event of the protocol shows.

A document that is left may send a last request on `pagehide`: of it only the log tells.

Chromium repeats a request on a kept connection that ends before an answer, or whose answer is 408, and it asks again by
GET for a download that breaks off (docs/decisions/016-never-twice.md). The log comes through a named pipe while the
browser runs, so nothing has to be begun or ended, and no file grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag
from uuid import uuid4

from msgspec import Struct
from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.model.record import MESSAGE, SAFE_METHODS, Sent

ARGUMENT = "--log-net-log="
SECONDS = 10.0
"""Seconds that the log may take to arrive; it takes milliseconds, unless the machine is overloaded."""
_NUDGE = 0.2
"""Seconds after which the browser is asked again for events."""
MOST = 1000
"""The number of unsafe requests of one world that are kept, of worlds, and of different requests that have begun."""
UNTOLD_SECONDS = 0.5
"""Seconds after which no event of the protocol is expected any more that tells of a request which the log has."""
FAREWELL_BEFORE, FAREWELL_AFTER = 5000.0, 1000.0
"""Milliseconds around the moment at which this process learns that a document was left."""
UNREAD = "pages were left, and the browser's log of what they sent did not come in time"
_KEPT = 200
"""The number of repetitions that are kept until the session to which they belong asks."""
_READ = 1 << 16
_NUDGES = [{"name": f"log-{n}", "value": "1", "url": "http://net-log.invalid/"} for n in range(20)]
"""Cookies of a context without pages: setting them makes the events that push the earlier ones out of the browser,
which writes them by fifteen."""
_CONSTANTS = b'{"constants":'
_STARTED, _AGAIN = "URL_REQUEST_START_JOB", "HTTP_TRANSACTION_RESTART_AFTER_ERROR"
_FAILED, _ENDED = "FAILED", "REQUEST_ALIVE"
_HEADERS = tuple(f"HTTP_TRANSACTION_{of}SEND_REQUEST_HEADERS" for of in ("", "HTTP2_", "QUIC_"))
_SOCKET = b'"url":"ws'
_TYPE = re.compile(rb'"type":(\d+)\}[\],}]*$')
_SOURCE = re.compile(rb'"source":\{"id":(\d+)')
_TIME = re.compile(rb'"time":"(\d+)"')
_WORLD = re.compile(r"harness-world/(\S+)")
_NO_PAGE = "not an origin"
"""The initiator of a request that no page has caused: of an address that was opened, or of a download that goes on."""
_BEGUN, _OVER = 1, 2
"""The phases of an event that has a beginning and an end."""


class Repetition(Struct, frozen=True):
    """A request that the browser has sent again by itself."""

    method: str
    url: str
    world: str | None
    """The world of its context; None for a GET that goes on with a download, which bears no User-Agent of a context."""

    @property
    def of_download(self) -> bool:
        """Whether it goes on with a download."""
        return self.world is None and self.method == "GET"

    def is_of(self, sent: Sent, world: str) -> bool:
        """Return whether it repeats this request of a context of that world."""
        if self.world is None:
            return sent.url == self.url
        return (self.world, self.method, self.url) == (world, sent.method, sent.url)


class BrokenRequest(Struct, frozen=True):
    """A request that failed, or whose answer did."""

    number: int
    method: str
    url: str
    world: str | None
    error: str


class _Request(Struct):
    """A request that has not ended: an unsafe one, or one for the document of a page or frame."""

    method: str
    url: str
    initiator: str
    """The origin of the document or worker that sends it; `_NO_PAGE` if the browser does."""
    world: str | None = None
    departed: bool = False
    """Whether its headers have been sent, perhaps not for the last time."""
    answered: bool = False


class Departure(Struct, frozen=True):
    """An unsafe request that has left a context."""

    at: float
    """The time, in the milliseconds of the browser's monotonic clock."""
    method: str
    url: str
    initiator: str


class NetLog:
    """The log of one browser. `argument` makes the browser write it."""

    @classmethod
    def open(cls, folder: Path, arguments: Iterable[str]) -> NetLog | None:
        """None where there are no named pipes, or if these arguments of the project send the log elsewhere."""
        if not hasattr(os, "mkfifo") or any(each.startswith(ARGUMENT.rstrip("=")) for each in arguments):
            return None
        path = folder / f"net-log-{uuid4().hex[:8]}"
        os.mkfifo(path, 0o600)
        return cls(path)

    def __init__(self, path: Path) -> None:
        self.argument, self._path = f"{ARGUMENT}{path}", path
        self.opened = milliseconds()
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # so that the browser's own opening does not wait
        self.reader = LogReader()
        self._arrived = asyncio.Event()
        self._silent = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pipe, self._read)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.reader.feed(os.read(self._pipe, _READ))
            self._silent = False
            self._arrived.set()

    async def complete(self, control: CDPSession) -> bool:
        """Wait until everything is read that has happened before; False if the browser did not write it in time.

        It is not waited for again then, until something comes.
        """
        if self._silent:
            return False
        since = milliseconds()
        try:
            async with asyncio.timeout(SECONDS):
                while self.reader.newest <= since:
                    self._arrived.clear()
                    await control.send("Storage.setCookies", {"cookies": _NUDGES})
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_NUDGE):
                            while self.reader.newest <= since:
                                await self._arrived.wait()
                                self._arrived.clear()
        except TimeoutError:
            self._silent = True
            return False
        except PlaywrightError:
            return False
        return True

    def mark(self, world: str, sent: Sequence[Sent]) -> None:
        """Count the repetitions of these requests, given in their order, which left contexts of a world."""
        self.reader.repeated = deque(
            (each for each in self.reader.repeated if not counted_at(each, world, sent)), _KEPT
        )

    def may_still_repeat(self, sent: Sent, world: str, since: float) -> bool:
        """Return whether a request that has left a context of that world since then is still without an answer.

        That of a shared worker bears no world, and none does before its headers are sent. What the log does not know
        is still to begin: it may wait for a preflight. After a while it was answered by a cache or a service worker.
        """
        if not self.knows(sent, since):
            return milliseconds() - since <= SECONDS * 1000
        same = (each for each in self.reader.requests.values() if (each.method, each.url) == (sent.method, sent.url))
        return any(each.world in (None, world) and not each.answered for each in same)

    def knows(self, sent: Sent, since: float) -> bool:
        """Return whether the log has told since then that such a request begins."""
        return self.reader.begun.get((sent.method, sent.url), 0) >= since

    def departed(
        self, world: str, since: float, until: float, left_at: Collection[tuple[float, bool]], origins: Collection[str]
    ) -> Iterator[tuple[str, str, bool]]:
        """The unsafe requests between two times that a context of the world has sent, or may have sent.

        They are method, URL, and whether an `open` was leaving the document that sent it. `left_at`: the times at which
        documents of the context were left, and whether an `open` left them. What a document sends then bears no world:
        at such a time it may be of this context, unless no document of the context had that origin. `origins`: those
        that they had.
        """
        for each in self.reader.left.get(world, ()):
            if since <= each.at <= until:
                yield each.method, each.url, False
        for each in self.reader.left.get("", ()):
            if not _may_be_of(each.initiator, origins):
                continue
            gone = [opens for at, opens in left_at if at - FAREWELL_BEFORE <= each.at <= at + FAREWELL_AFTER]
            if gone and since <= each.at <= until:
                yield each.method, each.url, gone[0]

    def shows_all(self, since: float, origins: Collection[str]) -> bool:
        """Return whether workers of a context have sent nothing since then that no event has told of."""
        unknown = (*self.reader.left.get("", ()), *self.reader.sockets)
        waiting = (each for each in self.reader.requests.values() if each.method not in SAFE_METHODS)
        return not any(since <= each.at and _may_be_of(each.initiator, origins) for each in unknown) and all(
            each.departed for each in waiting
        )

    def close(self) -> None:
        """Stop reading. It may be called more than once."""
        if self._pipe >= 0:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = -1
            self._path.unlink(missing_ok=True)


def _may_be_of(initiator: str, origins: Collection[str]) -> bool:
    """Return whether a document of these origins, or of an opaque one, may have sent what has this initiator."""
    return initiator not in ("", _NO_PAGE) and (not initiator.startswith("http") or initiator in origins)


def milliseconds() -> float:
    """The time of the clock that the browser's log has, too."""
    return asyncio.get_running_loop().time() * 1000


def counted_at(repetition: Repetition, world: str, sent: Sequence[Sent]) -> bool:
    """Count it at the newest request that it repeats; False if there is none."""
    found = next((each for each in reversed(sent) if repetition.is_of(each, world)), None)
    if found is None:
        return False
    if repetition.of_download:
        found.asked_again += 1
    else:
        found.again = (found.again or 0) + 1
    return True


class Repeatable:
    """The requests of one session that a browser must not send again, over all its browsers."""

    def __init__(self, world: str) -> None:
        self._world = world
        self._sent: deque[Sent] = deque(maxlen=_KEPT)
        self._open: list[tuple[Sent, float]] = []
        """The requests of which the log did not tell yet, when it was last asked, whether they will be repeated, and
        times before which they had not left."""
        self._asked = 0.0
        """The time at which it was noted for the last time what had left."""
        self._logs: list[NetLog] = []

    def add(self, sent: Iterable[Sent], *, writes: bool) -> None:
        """Note what has left. `writes`: in a step that is declared to write, so a GET must not be repeated either."""
        self._sent.extend(sent)
        since, self._asked = self._asked, milliseconds()
        asked = (each for each in sent if each.method not in ("", MESSAGE))
        self._open += [(each, since) for each in asked if writes or each.method not in SAFE_METHODS or each.follows]

    @property
    def open(self) -> bool:
        """Whether the browser may still repeat one of the requests."""
        return bool(self._open)

    async def count(self, log: NetLog | None, control: CDPSession, *, answers: bool) -> None:
        """Count the repetitions so far at the requests. It never raises.

        `answers`: the browser with that log is there. One that is gone is not waited for: of what had no answer in it,
        nobody knows.
        """
        if log is not None and log not in self._logs:
            self._logs.append(log)
        if log is not None and self._open:
            complete = answers and await log.complete(control)
            for each, since in self._open:
                told = complete if answers and self._is_newest(each, since) else not self._was_open(each, since)
                each.again = each.again or (0 if told else None)
        for known in self._logs:
            known.mark(self._world, self._sent)
        self._open = [
            (each, since)
            for each, since in self._open
            if log is not None and each.arrived and log.may_still_repeat(each, self._world, since)
        ]

    def _is_newest(self, sent: Sent, since: float) -> bool:
        """Return whether a request is of the present browser, and not of one before it."""
        log = self._logs[-1]
        return len(self._logs) == 1 or log.opened <= since or log.knows(sent, since)

    def _was_open(self, sent: Sent, since: float) -> bool:
        """Return whether a browser that is gone had no answer to a request."""
        of = next((each for each in reversed(self._logs) if each.knows(sent, since)), None)
        return sent.unsafe if of is None else of.may_still_repeat(sent, self._world, since)


class LogReader:
    """Reads the log: one event a line, of which few matter. Pure."""

    def __init__(self) -> None:
        self.newest = 0
        """The time of the newest event, in the browser's milliseconds."""
        self.repeated: deque[Repetition] = deque(maxlen=_KEPT)
        self.broken: deque[BrokenRequest] = deque(maxlen=_KEPT)
        """The newest requests that failed, or whose answers did."""
        self.requests: dict[int, _Request] = {}
        """Number of a request -> what it is."""
        self.begun: OrderedDict[tuple[str, str], int] = OrderedDict()
        """Method and URL -> the time at which such a request began for the last time."""
        self.left: OrderedDict[str, deque[Departure]] = OrderedDict()
        """World -> its unsafe requests; those without a world are under the empty name."""
        self.sockets: deque[Departure] = deque(maxlen=MOST)
        """The WebSockets that were opened."""
        self._rest = b""
        self._names: dict[bytes, str] = {}
        self._errors: dict[int, str] = {}
        self._claimed: Counter[tuple[str, str]] = Counter()
        """Requests of shared workers that the log has not told of yet."""

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the log."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_CONSTANTS):
                self._learn(line)
            elif (found := _TYPE.search(line.rstrip(b","))) and found[1] in self._names:
                self._event(self._names[found[1]], line)
        if times := [found for line in lines[-1:] for found in _TIME.findall(line)]:
            self.newest = int(times[-1])

    def _learn(self, line: bytes) -> None:
        """Read the numbers of this browser for events and errors."""
        constants: dict[str, Any] = json.loads(line.rstrip(b",").removeprefix(_CONSTANTS))
        wanted = {_STARTED, _AGAIN, _FAILED, _ENDED, *_HEADERS}
        types: dict[str, int] = constants["logEventTypes"]
        self._names = {str(number).encode(): name for name, number in types.items() if name in wanted}
        self._errors = {number: name for name, number in constants.get("netError", {}).items()}

    def _event(self, name: str, line: bytes) -> None:
        if name == _STARTED and b'"method":"GET"' in line and b' frame"' not in line and _SOCKET not in line:
            return
        if name != _STARTED and int(_SOURCE.findall(line)[-1]) not in self.requests:
            return
        event = json.loads(line.rstrip(b",").removesuffix(b"]"))
        source, params = event["source"]["id"], event.get("params", {})
        if name == _STARTED and event["phase"] == _BEGUN and "url" in params:
            url = urldefrag(params["url"]).url
            if url.startswith(("ws:", "wss:")):
                self.sockets.append(Departure(float(event["time"]), MESSAGE, url, params.get("initiator", "")))
                return
            self.requests[source] = _Request(params["method"], url, params.get("initiator", ""))
            self.begun[params["method"], url] = int(event["time"])
            self.begun.move_to_end((params["method"], url))
            if len(self.begun) > MOST:
                self.begun.popitem(last=False)
        elif request := self.requests.get(source):
            self._goes_on(name, request, event)

    def _goes_on(self, name: str, request: _Request, event: dict[str, Any]) -> None:
        """The phase matters for the end of a start, which is an answer, and for that of the request."""
        source, params, phase = event["source"]["id"], event.get("params", {}), event["phase"]
        if name == _AGAIN and not request.answered:
            self.repeated.append(Repetition(request.method, request.url, request.world))
        elif name == _FAILED:
            error = self._errors.get(params.get("net_error", 0), "ERR_FAILED")
            self.broken.append(BrokenRequest(source, request.method, request.url, request.world, error))
        elif name == _STARTED and phase == _OVER:
            request.answered = True
        elif name == _ENDED and phase == _OVER:
            del self.requests[source]
        elif name in _HEADERS:
            world = _WORLD.search(" ".join(params.get("headers", ())))
            request.world = world[1] if world else None
            if request.method not in SAFE_METHODS and not request.departed:
                request.departed = True
                self._depart(request, float(event["time"]))
            if world is None and request.initiator == _NO_PAGE and request.method == "GET":
                self.repeated.append(Repetition("GET", request.url, None))

    def claim(self, method: str, url: str) -> None:
        """A shared worker has told of this unsafe request: it bears no world, but is known where it belongs."""
        left = self.left.get("", ())
        found = next((each for each in left if (each.method, each.url) == (method, url)), None)
        if found is not None:
            self.left[""].remove(found)
        elif len(self._claimed) < MOST:
            self._claimed[method, url] += 1

    def disclaim(self, method: str, url: str) -> None:
        """It has failed: the log tells of it by now, or never will."""
        self._claimed -= Counter({(method, url): 1})

    def _depart(self, request: _Request, at: float) -> None:
        world = request.world or ""
        if not world and self._claimed[request.method, request.url] > 0:
            self.disclaim(request.method, request.url)
            return
        departure = Departure(at, request.method, request.url, request.initiator)
        self.left.setdefault(world, deque(maxlen=MOST)).append(departure)
        self.left.move_to_end(world)
        if len(self.left) > MOST:
            self.left.popitem(last=False)
