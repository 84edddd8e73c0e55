"""What is not as it was saved, a line each."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice, takewhile, zip_longest
from typing import Any, TypeAlias

from harness.criteria.paths import Segment, Wildcard, list_index, segments

MOST = 20
"""Lines."""
WIDTH = 80
"""Characters of one value."""
PLACE = 120
"""Characters of one path."""
_PLAIN = re.compile(r"[^.\[\]'\"*]+\Z")
_ENCODER = json.JSONEncoder(ensure_ascii=False)

Way: TypeAlias = tuple[str | int, ...]


class Absent(Enum):
    """The other document has something here, this one has not."""

    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in the document of a channel, before and after."""

    channel: str
    way: Way
    before: Any
    after: Any

    def __str__(self) -> str:
        place = f"{self.channel}: {_place(self.way)}"
        if self.before is Absent.ABSENT:
            return f"{place}: was not there when saved, is {_short(self.after)}"
        if self.after is Absent.ABSENT:
            return f"{place}: was saved as {_short(self.before)}, is missing"
        before, after = _from_where_they_differ(self.before, self.after)
        return f"{place}: was saved as {_short(before)}, is {_short(after)}"


def differences(channel: str, saved: Any, now: Any, clock: str | None = None) -> Iterator[Difference]:
    """In the order of the document; `clock` is a path that does not count. Not recursive: documents may be deep."""
    ignored = segments(clock) if clock else ()
    pending: list[tuple[Way, Any, Any]] = [((), saved, now)]
    while pending:
        way, before, after = pending.pop()
        if ignored and _leads_to(ignored, way):
            continue
        if isinstance(before, dict | list) and type(before) is type(after):
            pending += [((*way, key), left, right) for key, left, right in _inside(before, after)][::-1]
        elif not _same(before, after):
            yield Difference(channel, way, before, after)


def put_back(now: Any, changes: Sequence[Difference]) -> Any:
    """The document as it is, with only the changed places as they were before. `now` itself stays as it is."""
    holder = {"": copied(now)}
    gone: list[tuple[Any, str | int]] = []
    for change in changes:
        parent, key = _at(holder, change.way)
        if change.before is Absent.ABSENT:
            gone.append((parent, key))
        elif isinstance(parent, list) and key == len(parent):
            parent.append(change.before)
        else:
            parent[key] = change.before
    for parent, key in reversed(gone):  # from the end, so that the places of a list stay
        del parent[key]
    return holder[""]


def merge_patch(target: Any, changes: Sequence[Difference]) -> dict[str, Any] | None:
    """What makes the changed document the `target` as an RFC 7386 patch; None where such a patch cannot say it.

    A list is written whole. Null means "remove" there, so that no null can be written.
    """
    patch: dict[str, Any] = {}
    for change in changes:
        names = list(takewhile(lambda key: isinstance(key, str), change.way))
        if not names:
            return None
        place, key = _at({"": target}, tuple(names))
        removed = change.before is Absent.ABSENT and len(names) == len(change.way)
        value = None if removed else place[key]
        if not removed and _has_null(value):
            return None
        inner = patch
        for name in names[:-1]:
            inner = inner.setdefault(str(name), {})
        inner[str(names[-1])] = value
    return patch


def copied(document: Any) -> Any:
    """A copy that shares no list or object. Not recursive: documents may be deep."""
    holder: dict[str, Any] = {"": document}
    pending: list[tuple[Any, Any]] = [(holder, "")]
    while pending:
        place, key = pending.pop()
        value = place[key]
        if isinstance(value, dict):
            place[key] = dict(value)
            pending += [(place[key], name) for name in value]
        elif isinstance(value, list):
            place[key] = list(value)
            pending += [(place[key], index) for index in range(len(value))]
    return holder[""]


def _at(holder: dict[str, Any], way: Way) -> tuple[Any, str | int]:
    """What holds the value at the end of the way, and its key there."""
    place: Any = holder
    keys: tuple[str | int, ...] = ("", *way)
    for key in keys[:-1]:
        place = place[key]
    return place, keys[-1]


def _has_null(value: Any) -> bool:
    """Whether a merge would take something inside of it for a removal; inside of a list nothing is."""
    pending = [value]
    while pending:
        each = pending.pop()
        if each is None:
            return True
        if isinstance(each, dict):
            pending += each.values()
    return False


def bounded(found: Iterable[Difference | str]) -> tuple[str, ...]:
    """As lines, at most 20; the last one counts those that are left out."""
    rest = iter(found)
    lines = [str(each) for each in islice(rest, MOST)]
    more = sum(1 for _ in rest)
    if more:
        lines[-1] = f"and {more + 1} more differences"
    return tuple(lines)


def _inside(before: Any, after: Any) -> Iterator[tuple[str | int, Any, Any]]:
    if isinstance(before, dict):
        for key in {**before, **after}:
            yield key, before.get(key, Absent.ABSENT), after.get(key, Absent.ABSENT)
    else:
        for index, (left, right) in enumerate(zip_longest(before, after, fillvalue=Absent.ABSENT)):
            yield index, left, right


def _same(before: Any, after: Any) -> bool:
    """As JSON sees it: 1 is 1.0 and is not true; what is not a number equals itself."""
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, float) and isinstance(after, float):
        return before == after or repr(before) == repr(after)
    return bool(before == after)


def _leads_to(path: tuple[Segment, ...], way: Way) -> bool:
    return len(path) == len(way) and all(map(_fits, path, way))


def _fits(segment: Segment, key: str | int) -> bool:
    if isinstance(segment, Wildcard) or segment == key:
        return True
    return isinstance(key, int) and list_index(segment) == key


def _place(way: Way) -> str:
    """As a path of the assertion language; cut in its middle when it is long."""
    text = "".join(map(_step, way)).removeprefix(".") or "the document"
    half = PLACE // 2
    return text if len(text) <= PLACE else f"{text[: half - 1]}…{text[-half:]}"


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    quote = '"' if "'" in key else "'"
    shown = "".join(letter if letter.isprintable() else " " for letter in key)
    return f".{shown}" if _PLAIN.match(key) else f"[{quote}{shown}{quote}]"


def _short(value: Any) -> str:
    """As JSON, no more of it made than is shown."""
    text = ""
    for piece in _ENCODER.iterencode(value):
        text += piece
        if len(text) > WIDTH:
            return text[: WIDTH - 1] + "…"
    return text


def _from_where_they_differ(before: Any, after: Any) -> tuple[Any, Any]:
    """Two long texts without most of what they have in common at their start."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return before, after
    start = len(os.path.commonprefix((before, after))) - WIDTH // 4  # noqa: RUF071 - letters are what counts
    return (before, after) if start <= WIDTH // 4 else (f"…{before[start:]}", f"…{after[start:]}")
