"""Messages without what differs from task to task: numbers, quoted values, ids, the rest of an address."""

from __future__ import annotations

import re

LONGEST = 400
"""Characters of a message that count."""

_ADDRESS = re.compile(r"((?:https?|wss?)://[^\s'\"<>`?#]+)[?#][^\s'\"<>`]*")
_CALL_OR_QUOTED = re.compile(r"(\w+\([^()]{0,200}\))|'[^']{0,200}'|\"[^\"]{0,200}\"")
_ID = re.compile(r"\b(?=[0-9a-f-]*\d)(?=[0-9a-f-]*[a-f])[0-9a-f]{4,}(?:-?[0-9a-f]{4,})+\b", re.IGNORECASE)
_NUMBER = re.compile(r"\$?\d+(?:[.,:]\d+)*")
_KEPT = re.compile(r"(\w+\([^()]{0,200}\))")


def normalised(message: str) -> str:
    """The same text for two messages of one cause. What a criterion reads (`mem('user.name')`) stays as it is."""
    text = _ADDRESS.sub(r"\1", " ".join(message[: 4 * LONGEST].split())[:LONGEST])
    text = _CALL_OR_QUOTED.sub(lambda found: found[1] or "'*'", text)
    return "".join(part if _KEPT.fullmatch(part) else _bare(part) for part in _KEPT.split(text))


def _bare(text: str) -> str:
    return _NUMBER.sub("#", _ID.sub("*", text))
