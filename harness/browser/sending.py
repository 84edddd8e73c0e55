"""The requests that leave the pages during a step: evidence that it was a write (docs/design/never-twice.md).

A request is recorded in this process as it leaves, so it is known whatever dies afterwards.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from urllib.parse import urldefrag, urlsplit

from msgspec import Struct, field

from harness.browser.network_errors import GIVEN_UP, code_of, effect_of, net_error
from harness.model.record import MESSAGE, SAFE_METHODS, Sent
from harness.recovery.catalog import Effect

TOLD = 2000
"""The number of different unsafe requests that are counted: the newest."""
MOST = 200
"""The number of requests of one step that are kept; a page that sends more is a write already."""
_KINDS = 200
"""The number of kinds of requests whose times are kept."""
_SIGHTINGS = 3
"""The number of requests of one kind, at even intervals with no act in between, that proves a heartbeat."""
_SHORTEST = 0.2
"""Seconds: requests at shorter intervals are no heartbeat, but several requests of one act."""
OFTEN = 2
"""The number of requests of one kind after one act that counts; a single one may be a late consequence of each act."""
_EVEN = 1.5
"""The largest factor between the longest and the shortest interval of regular requests."""
_BODY_BYTES = 4096
_BEAT_BYTES = 100
_DIGITS = re.compile(rb"\d+")
_ANSWERED_ANYWAY = ("ERR_BLOCKED_BY_RESPONSE", "ERR_BLOCKED_BY_ORB")
"""Errors of requests that are blocked only when the answer is there."""


def _kind_of(method: str, url: str, body: bytes | None) -> Hashable:
    """The kind of a request: a page's heartbeats differ at most in their numbers (a time, a count)."""
    parts = urlsplit(url)
    return method, parts.netloc, parts.path, _DIGITS.sub(b"0", (body or b"")[:_BODY_BYTES])


_BEATS = frozenset({b"ping", b"pong", b"heartbeat", b"keepalive"})
_ENVELOPE = frozenset({b"type", b"event", b"op", b"id", b"ref", b"topic", b"phoenix", b"payload", b"null", b"data"})
_BARE_BEATS = (b"2", b"3", b'{"type":6}\x1e')
"""The messages with which Engine.IO and SignalR keep a socket open."""
_OPENING = re.compile(
    rb"""[23]probe | 5 | 40([/,{].*)? | \{"type":"connection_init"[,}].* | \{"protocol":"[a-z]+","version":\d+\}\x1e
    | CONNECT\n.* | \["\d+","\d+","lv:[^"]*","phx_join",.*""",
    re.VERBOSE | re.DOTALL,
)
"""How a protocol begins on each page that is loaded, before anything is done: Engine.IO and Socket.IO, graphql-ws,
SignalR, STOMP, and the join of a LiveView, which by design renders again what its GET has rendered."""


def keeps_open(message: bytes) -> bool:
    """Return whether a message only opens or keeps open what runs over a WebSocket, as common protocols do. Such beats
    may be a minute apart, so that their even intervals prove nothing in time.
    """
    if _OPENING.fullmatch(message):
        return True
    words = set(re.findall(rb"[a-z]+", message.lower())) if len(message) <= _BEAT_BYTES else set()
    return message in _BARE_BEATS or (bool(words & _BEATS) and words <= _BEATS | _ENVELOPE)


class _Kind(Struct):
    """The times of one kind of request since the last act, and whether the page sent it by itself before."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=_SIGHTINGS))
    before: bool = False
    regular: bool = False
    parting: bool = False
    """Whether it was sent while leaving a page on which nothing had been done."""

    def seen(self, now: float) -> None:
        self.times.append(now)
        pauses = [later - earlier for earlier, later in zip(self.times, list(self.times)[1:], strict=False)]
        if len(pauses) == _SIGHTINGS - 1 and min(pauses) >= _SHORTEST:
            self.regular = self.regular or max(pauses) <= _EVEN * min(pauses)


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
        self._looks = self._opened = False
        self.unacted = False
        """Whether an `open` leaves a page on which nothing was done: what that page sends then, it sends by itself."""
        self._answered = False
        self._told: Counter[tuple[str, str]] = Counter()
        """Method and URL of the unsafe requests that may have arrived, those of a heartbeat included."""
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
        self.unacted, self._opened = self._opened, opens

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
        late: bool = False,
    ) -> Sent | None:
        """Record a request, or a message of a WebSocket (`MESSAGE`). Returns None if it need not be known.

        `after`: the request that was redirected to it.
        `before`: the step opens a page, and the request comes from the page that it leaves.
        `routed`: a route is to answer it, so it is not announced.
        `late`: it left before, perhaps in another attempt.
        """
        safe = method in SAFE_METHODS
        if (safe and not page) or (method == MESSAGE and keeps_open(body or b"")):
            return None
        if not safe:
            self.tells(method, url)
        if not safe and not page and self._own_doing(_kind_of(method, url, body), parting=before and not late):
            return None
        follows = self._answered if after is None else after.follows or after.method not in SAFE_METHODS
        follows, asks = safe and follows, method != MESSAGE
        sent = Sent(method, urldefrag(url).url, page=page, follows=follows, before=before, open=asks)
        if not (safe or before) and len(self._unsafe) < MOST:
            self._unsafe.append(sent)
        if len(self._left) < MOST:
            self._left.append(sent)
            if not (safe or routed):
                self._announcer.heard(sent)
        return sent

    def tells(self, method: str, url: str) -> None:
        """Note that an event has told of an unsafe request: the browser's log has it, too."""
        self._told[method, urldefrag(url).url] += 1
        if len(self._told) > TOLD:
            del self._told[next(iter(self._told))]

    def doubt(self, reason: str, *, before: bool = False) -> Sent:
        """Record that something may have been sent which could not be seen, until its `arrived` says otherwise."""
        sent = Sent("", "", before=before, unseen=reason)
        if len(self._left) < MOST:
            self._left.append(sent)
        return sent

    def add_untold(self, left: Iterable[tuple[str, str, bool]]) -> None:
        """Record those of all unsafe requests so far that no event has told of: method, URL, and `before` of each."""
        told = Counter(self._told)
        for method, url, before in left:
            if told[method, url] > 0:
                told[method, url] -= 1
            else:
                self.leaves(method, url, page=False, after=None, body=None, before=before, late=True)

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
            if len(self._kinds) > _KINDS:
                del self._kinds[next(iter(self._kinds))]
        if parting:
            known.parting = known.parting or self.unacted
            return known.regular or known.parting
        known.seen(self._now())
        return known.regular or (self._looks and known.before)

    def answered(self, sent: Sent) -> None:
        """An answer has come, whatever it says."""
        sent.open = False
        self._answered = self._answered or (sent.method not in SAFE_METHODS and not sent.before)

    def failed(self, sent: Sent, error: str) -> None:
        """No answer came, or only a part: some errors say that nothing was sent."""
        name = net_error(error) or ""
        sent.open = sent.open and name == GIVEN_UP
        if name != GIVEN_UP and name not in _ANSWERED_ANYWAY and effect_of(code_of(name)) is Effect.NONE:
            self._take_back(sent)

    def routed(self, sent: Sent) -> None:
        """A route answers it: it never leaves the browser."""
        self._take_back(sent)
        self._unsafe = [each for each in self._unsafe if each is not sent]

    def _take_back(self, sent: Sent) -> None:
        """It has not been sent."""
        if sent.arrived and sent.method not in SAFE_METHODS:
            self._told[sent.method, sent.url] -= 1
        sent.arrived = sent.open = False

    @property
    def unsafe(self) -> bool:
        """Whether an unsafe request has left since the attempt began."""
        return bool(self._unsafe)

    def take(self) -> tuple[Sent, ...]:
        """The requests that have left since the last call."""
        taken, self._left = tuple(self._left), []
        return taken
