"""What routes do about the WebSockets of pages: the messages in both directions, the server's part, the close.

Playwright stands between page and server. What goes on to the server is counted as sent when it is decided here, before
it leaves, and what the browser then reports of it is not counted again (docs/design/never-twice.md).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import WebSocketRoute

from harness.browser.page_events import PageEvents
from harness.browser.route_answers import ArmedRoute, Memory, NoAnswerError, filled, patched
from harness.criteria import assign, contains, lookup
from harness.masking import cut
from harness.model.record import MESSAGE
from harness.spec.routes import JsonMessage, JsonPattern, MessageRule
from harness.spec.url_patterns import glob, plain

_SHOWN = 300
"""Characters of a message in the report."""
_NORMAL = 1000
_NO_STATUS = 1005


class SocketDesk(Protocol):
    """Where a socket asks what to do, and tells what was done."""

    memory: Memory

    def route_of(self, url: str, taken: set[int]) -> ArmedRoute | None:
        """The route that acts on a socket now; `taken`: the numbers of those that have taken it before."""
        ...

    def did(self, armed: ArmedRoute, url: str, what: str) -> None:
        """A route has done something."""
        ...

    def refused(self, armed: ArmedRoute, url: str, why: str) -> None:
        """A route could not do what it declares."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait; return whether the session goes on."""
        ...


class RoutedSocket:
    """One WebSocket of a page."""

    def __init__(self, socket: WebSocketRoute, watch: PageEvents, desk: SocketDesk) -> None:
        self.closed = False
        self._socket, self._watch, self._desk = socket, watch, desk
        self._url, self._began = socket.url, watch.now()
        self._server: WebSocketRoute | None = None
        self._taken: set[int] = set()
        self._matched: Counter[tuple[int, int]] = Counter()
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """The page has made it. It is connected to its server, unless its route stands in or closes it at once."""
        self._socket.on_message(partial(self._passes, "sent"))
        self._socket.on_close(self._page_closed)
        armed = self._desk.route_of(self._url, self._taken)
        refuses = armed is not None and any(each.at_once and each.close is not None for each in armed.route.messages)
        if armed is None or (armed.route.connect and not refuses):
            self._watch.expect_socket(self._url)
            self._server = self._socket.connect_to_server()
            self._server.on_message(partial(self._passes, "received"))
        self.look()

    def look(self) -> None:
        """A route takes it if it acts from now on: when the socket is made, or when the steps of the route begin."""
        armed = self._desk.route_of(self._url, self._taken)
        if self.closed or armed is None or armed.number in self._taken:
            return
        self._taken.add(armed.number)
        armed.count += 1
        self._desk.did(armed, self._url, "taken" if self._server else "taken, without a server")
        for number, rule in enumerate(armed.route.messages):
            if rule.at_once:
                self._act(armed, number, None)

    def _passes(self, direction: str, message: str | bytes) -> None:
        """A message comes, from the page or from its server."""
        if direction == "sent":
            self._watch.message_passed("sent", self._url, message)
        armed = self._desk.route_of(self._url, self._taken)
        try:
            found = next(iter([*self._rules(armed, direction, message)]), None) if armed is not None else None
            rule = armed.route.messages[found] if armed is not None and found is not None else None
            if rule is not None and rule.patch is not None:
                message = self._patched(rule, message)
        except NoAnswerError as error:
            assert armed is not None
            self._desk.refused(armed, self._url, str(error))
            return
        dropped = rule is not None and rule.drop
        if not dropped and (armed is None or armed.route.connect):
            self._forward(direction, message)
        if rule is not None and armed is not None and found is not None:
            done = "dropped" if dropped else "patched" if rule.patch else "answered"
            self._desk.did(armed, self._url, f"{done} {direction} {_text(message)}")
            self._act(armed, found, message)

    def _rules(self, armed: ArmedRoute, direction: str, message: str | bytes) -> Iterator[int]:
        """The entries of `messages` that act on a message. Raises NoAnswerError."""
        for number, rule in enumerate(armed.route.messages):
            wanted = rule.sent if direction == "sent" else rule.received
            if wanted is None or not _matches(filled_pattern(wanted, self._desk.memory), message):
                continue
            self._matched[armed.number, number] += 1
            if rule.at in (None, self._matched[armed.number, number]):
                yield number

    def _patched(self, rule: MessageRule, message: str | bytes) -> str:
        assert rule.patch is not None
        return patched(message, filled(rule.patch.json, self._desk.memory), "the message")

    def _forward(self, direction: str, message: str | bytes) -> None:
        """A message goes on to where it was going."""
        if direction == "received":
            self._to_page(message)
        elif self._server is not None:
            body = message.encode() if isinstance(message, str) else message
            self._watch.worker_leaves(MESSAGE, self._url, body, None, self._began)
            self._server.send(message)

    def _to_page(self, message: str | bytes) -> None:
        if not self.closed:
            self._watch.message_passed("received", self._url, message)
            self._socket.send(message)

    def _act(self, armed: ArmedRoute, number: int, answered: str | bytes | None) -> None:
        """Send and close as an entry of `messages` says, after the delay of the route, in the order of the causes."""
        armed.idle.discard(number)
        rule = armed.route.messages[number]
        now = not armed.route.delay and not self._turn.locked()
        if now:
            self._send(armed, rule, answered)
        if rule.close is None and (now or not rule.sends):
            return
        task = asyncio.ensure_future(self._later(armed, rule, answered, sent=now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(self, armed: ArmedRoute, rule: MessageRule, answered: str | bytes | None, *, sent: bool) -> None:
        async with self._turn:
            if not await self._desk.wait(armed.route.delay):
                return
            if not sent:
                self._send(armed, rule, answered)
            if rule.close is None or self.closed:
                return
            self._desk.did(armed, self._url, f"closed {rule.close} {rule.reason}".strip())
            try:
                await self._socket.close(code=rule.close, reason=rule.reason)
            except PlaywrightError:
                return  # the page is gone

    def _send(self, armed: ArmedRoute, rule: MessageRule, answered: str | bytes | None) -> None:
        for content in rule.sends:
            try:
                text = self._content(content, answered)
            except NoAnswerError as error:
                self._desk.refused(armed, self._url, str(error))
                return
            self._desk.did(armed, self._url, f"received {_text(text)}")
            self._to_page(text)

    def _content(self, content: str | JsonMessage, answered: str | bytes | None) -> str:
        """The text of a message to the page. Raises NoAnswerError."""
        if isinstance(content, str):
            return str(filled(content, self._desk.memory))
        document = filled(content.json, self._desk.memory)
        asked = _json(answered) if answered is not None else None
        for path in content.same:
            found = lookup(asked, path)
            if not found:
                raise NoAnswerError(f"the message that it answers has no {path!r}")
            document = assign(document, path, found[0])
        return json.dumps(document, ensure_ascii=False)

    async def _page_closed(self, code: int | None, reason: str | None) -> None:
        """The page has closed it, or the route: the server hears of it, and without one the page hears that it is."""
        first, self.closed = not self.closed, True
        if self._server is not None:  # a browser closes with a few codes only
            legal = code is not None and (code == _NORMAL or 3000 <= code <= 4999)
            await self._server.close(code=code if legal else _NORMAL, reason=reason or "")
        elif first:
            await self._socket.close(code=_NO_STATUS if code is None else code, reason=reason or "")


def filled_pattern(wanted: str | JsonPattern, memory: Memory) -> str | dict[str, Any]:
    """A pattern of messages with its references to memory: a text, or paths and values. Raises NoAnswerError."""
    found: str | dict[str, Any] = filled(wanted if isinstance(wanted, str) else wanted.json, memory)
    return found


def _matches(wanted: str | dict[str, Any], message: str | bytes) -> bool:
    """Return whether a message matches; of binary ones only by `*`."""
    if isinstance(wanted, str):
        return wanted == "*" if isinstance(message, bytes) else glob(str(wanted), message)
    document = _json(message)
    return all(any(contains(each, value) for each in lookup(document, path)) for path, value in wanted.items())


def _json(message: str | bytes) -> Any:
    """The JSON of a message; None if it is none."""
    try:
        return json.loads(message) if isinstance(message, str) else None
    except (ValueError, RecursionError):
        return None


def _text(message: str | bytes) -> str:
    return cut(message, _SHOWN) if isinstance(message, str) else f"{len(message)} bytes"


def socket_pattern(pattern: str) -> str:
    """A regular expression for the browser that matches at least the WebSockets of a pattern, in any case."""
    bare = re.sub(r"^ws://", "wss?://", ".*".join(map(re.escape, plain(pattern).split("*"))))
    return f"^{bare}$"
