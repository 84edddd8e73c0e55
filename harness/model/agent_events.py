"""What a program that drives a task tells of itself, beside its steps: the events of its hooks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

MOST_EVENTS: Final = 200
"""Events of a task that are kept; of more, the newest."""
LONGEST_EVENT: Final = 64 * 1024
"""Characters of an event's payload above which it is left out: to cut it first could cut a secret in two."""
SHOWN: Final = 2000
"""Characters of a payload, as JSON, that the trace of a task shows."""


class AgentEvent(Struct, frozen=True):
    """One event of the agent's hooks."""

    at: datetime
    """The moment, as the agent tells it."""
    event: str
    """Such as `PreToolUse`."""
    session: str
    """The agent's own name for its session."""
    payload: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """The event as the trace has it; redact it, then `shown`."""
        payload = dict(bounded(self.payload))
        return {"at": self.at.isoformat(), "event": self.event, "session": self.session, "payload": payload}


def bounded(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload of an event, or what stands for one that is too long to be kept."""
    small = len(json.dumps(payload, default=str)) <= LONGEST_EVENT
    return payload if small else {"left_out": "it is too long"}


def shown(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Redacted events with payloads of a size that can be read."""
    found = []
    for each in events:
        text = json.dumps(each["payload"], ensure_ascii=False, default=str)
        short = each["payload"] if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
        found.append({**each, "payload": short})
    return found
