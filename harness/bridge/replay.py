"""The last messages of a session, numbered: a client that was away asks for those that it missed. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

REPLAY_BYTES: Final = 100 * 1024
REPLAY_SECONDS: Final = 1800.0


class Replay(Struct, frozen=True):
    """The messages that a client missed, as far as they are kept."""

    messages: tuple[Mapping[str, Any], ...]
    complete: bool
    """Whether these are all: otherwise the client must ask for the state (`synchronize`)."""
    lost: int
    """How many are missing; of another epoch it is not known, and counts as all before the first one."""

    @property
    def payload(self) -> dict[str, Any]:
        return {"messages": list(self.messages), "complete": self.complete, "lost": self.lost}


class _Sent(Struct, frozen=True):
    message: Mapping[str, Any]
    size: int
    at: float


class ReplayBuffer:
    """Keeps the newest messages, bounded in bytes and in time."""

    def __init__(self, epoch: str, most_bytes: int = REPLAY_BYTES, most_seconds: float = REPLAY_SECONDS) -> None:
        """`epoch`: names this numbering; after a restart of the server there is another one."""
        self.epoch = epoch
        self.last = 0
        """The number of the newest message."""
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds
        self._kept: deque[_Sent] = deque()
        self.size = 0
        """Bytes of the kept messages."""

    def append(self, message: Mapping[str, Any], now: float) -> dict[str, Any]:
        """Number a message and keep it; a single one above the limit is not kept. `now`: monotonic seconds."""
        self.last += 1
        numbered = {**message, "seq": self.last, "epoch": self.epoch}
        size = len(msgspec.json.encode(numbered))
        self._kept.append(_Sent(numbered, size, now))
        self.size += size
        self._trim(now)
        return numbered

    def after(self, seq: int, epoch: str, now: float) -> Replay:
        """The messages after this number. Without an epoch the number is taken to be of this one."""
        self._trim(now)
        ours = epoch in ("", self.epoch) and seq <= self.last
        known = seq if ours else 0
        found = tuple(each.message for each in self._kept if each.message["seq"] > known)
        lost = self.last - known - len(found)
        return Replay(found, ours and not lost, lost)

    def since(self, moment: datetime, now: float) -> Replay:
        """The messages after a moment; complete only if an older one is kept, too, or none was dropped."""
        self._trim(now)
        found = tuple(each.message for each in self._kept if datetime.fromisoformat(each.message["timestamp"]) > moment)
        dropped = self.last - len(self._kept)
        return Replay(found, not dropped or len(found) < len(self._kept), dropped)

    def _trim(self, now: float) -> None:
        while self._kept and (self.size > self._most_bytes or now - self._kept[0].at > self._most_seconds):
            self.size -= self._kept.popleft().size
