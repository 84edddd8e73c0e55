"""Memory and environment of one task or episode, and the world's side of a checkpoint: saved and restored."""

from __future__ import annotations

import asyncio
import json
import os.path
import re
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from itertools import chain, islice, starmap, takewhile, zip_longest
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from harness.criteria.paths import Segment, Wildcard, list_index, segments
from harness.environment.channel import Refused, rejected
from harness.environment.channels import Channels
from harness.environment.memory import MemoryEntry, MemoryStore, timestamp
from harness.model.plan import Plan
from harness.model.ports import WorldCheckpoint
from harness.recovery.failure import Failed
from harness.resilience import Clock
from harness.spec.documents import is_entry
from harness.spec.names import blank_unprintable
from harness.task_secrets import hidden, learn_named

T = TypeVar("T")


def _line(name: str, what: str, error: Refused) -> str:
    return f"{name}: {what}: {error.failure.message.removeprefix(f'channel `{name}`: '):.300}"


async def _all(jobs: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order. Every job ends, so that none goes on unobserved; then the first error is raised."""
    found = await asyncio.gather(*jobs, return_exceptions=True)
    results: list[T] = []
    for each in found:
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results


# The differences from the saved state, one line each.

_MOST = 20
"""The largest number of lines."""
_WIDTH = 80
"""The largest number of characters of one value."""
_PLACE = 120
"""The largest number of characters of one path."""
_PLAIN = re.compile(r"[^.\[\]'\"*]+\Z")
_ENCODER = json.JSONEncoder(ensure_ascii=False)

_JsonPath: TypeAlias = tuple[str | int, ...]


class Absent(Enum):
    """Marks a place that exists only in the other document."""

    ABSENT = "absent"


class Difference(Struct, frozen=True):
    """A place in the document of a channel, with its value before and after."""

    channel: str
    way: _JsonPath
    before: Any
    after: Any

    def __str__(self) -> str:
        place = f"{self.channel}: {_place(self.way)}"
        if self.before is Absent.ABSENT:
            return f"{place}: was missing when saved, is {_short(self.after)}"
        if self.after is Absent.ABSENT:
            return f"{place}: was saved as {_short(self.before)}, is missing"
        before, after = _from_where_they_differ(self.before, self.after)
        return f"{place}: was saved as {_short(before)}, is {_short(after)}"


def differences(channel: str, saved: Any, now: Any, clock: str | None = None) -> Iterator[Difference]:
    """The differences in document order; `clock` is a path that does not count. No recursion: documents may be deep."""
    ignored = segments(clock) if clock else ()
    pending: list[tuple[_JsonPath, Any, Any]] = [((), saved, now)]
    while pending:
        way, before, after = pending.pop()
        if ignored and len(ignored) == len(way) and all(map(_matches_key, ignored, way)):
            continue
        if isinstance(before, dict | list) and type(before) is type(after):
            pending += [((*way, key), left, right) for key, left, right in _pairs_of_items(before, after)][::-1]
        elif not _is_same_json(before, after):
            yield Difference(channel, way, before, after)


def put_back(now: Any, changes: Sequence[Difference]) -> Any:
    """The present document with the changed places as they were before. `now` itself is not changed."""
    holder = {"": copy_document(now)}
    gone: list[tuple[Any, str | int]] = []
    for change in changes:
        parent, key = _at(holder, change.way)
        if change.before is Absent.ABSENT:
            gone.append((parent, key))
        elif isinstance(parent, list) and key == len(parent):
            parent.append(change.before)
        else:
            parent[key] = change.before
    for parent, key in reversed(gone):  # from the end, so that the indices of a list stay valid
        del parent[key]
    return holder[""]


def merge_patch(target: Any, changes: Sequence[Difference]) -> dict[str, Any] | None:
    """The RFC 7386 patch that turns the changed document into `target`; None if no patch can express it.

    A list is written as a whole. Null means "remove" in a patch, so that no null can be written.
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


def copy_document(document: Any) -> Any:
    """A copy that shares no list or object. No recursion: documents may be deep."""
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


def _at(holder: dict[str, Any], way: _JsonPath) -> tuple[Any, str | int]:
    """The container of the value at a path, and the value's key in it."""
    place: Any = holder
    keys: tuple[str | int, ...] = ("", *way)
    for key in keys[:-1]:
        place = place[key]
    return place, keys[-1]


def _has_null(value: Any) -> bool:
    """Return whether a merge would take a part of the value for a removal; inside a list nothing is."""
    pending = [value]
    while pending:
        each = pending.pop()
        if each is None:
            return True
        if isinstance(each, dict):
            pending += each.values()
    return False


def bounded_lines(found: Iterable[Difference | str]) -> tuple[str, ...]:
    """The differences as lines, at most 20; the last line counts those left out."""
    rest = iter(found)
    lines = [str(each) for each in islice(rest, _MOST)]
    more = sum(1 for _ in rest)
    if more:
        lines[-1] = f"and {more + 1} more differences"
    return tuple(lines)


def _pairs_of_items(before: Any, after: Any) -> Iterator[tuple[str | int, Any, Any]]:
    if isinstance(before, dict):
        for key in {**before, **after}:
            yield key, before.get(key, Absent.ABSENT), after.get(key, Absent.ABSENT)
    else:
        for index, (left, right) in enumerate(zip_longest(before, after, fillvalue=Absent.ABSENT)):
            yield index, left, right


def _is_same_json(before: Any, after: Any) -> bool:
    """Return whether two values are equal as JSON: 1 equals 1.0 and not true; NaN equals itself."""
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, float) and isinstance(after, float):
        return before == after or repr(before) == repr(after)
    return bool(before == after)


def _matches_key(segment: Segment, key: str | int) -> bool:
    if isinstance(segment, Wildcard) or segment == key:
        return True
    return isinstance(key, int) and list_index(segment) == key


def _place(way: _JsonPath) -> str:
    """A path in the assertion language; a long one is cut in its middle."""
    text = "".join(map(_step, way)).removeprefix(".") or "the document"
    half = _PLACE // 2
    return text if len(text) <= _PLACE else f"{text[: half - 1]}…{text[-half:]}"


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    quote = '"' if "'" in key else "'"
    shown = blank_unprintable(key)
    return f".{shown}" if _PLAIN.match(key) else f"[{quote}{shown}{quote}]"


def _short(value: Any) -> str:
    """The value as JSON, encoded only as far as it is shown."""
    text = ""
    for piece in _ENCODER.iterencode(hidden(value) if isinstance(value, str) else value):
        text += piece
        if len(text) > _WIDTH:
            return text[: _WIDTH - 1] + "…"
    return text


def _from_where_they_differ(before: Any, after: Any) -> tuple[Any, Any]:
    """Two long texts without most of their common beginning."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return before, after
    before, after = hidden(before), hidden(after)
    start = len(os.path.commonprefix((before, after))) - _WIDTH // 4  # noqa: RUF071 - letters are what counts
    return (before, after) if start <= _WIDTH // 4 else (f"…{before[start:]}", f"…{after[start:]}")


# Memory and environment of one task or episode, as the engine sees them.

_NOT_PUT_BACK = 'the environment was not restored, because of `isolation = "none"` in [tool.harness]'
"""The message after a restore that wrote nothing."""
_INITIAL = "initial"
"""The source of entries from the task's file."""


class TaskWorld:
    """Implements `harness.model.ports.World`; the world id is the plan's."""

    def __init__(
        self,
        plan: Plan,
        store: MemoryStore,
        channels: Channels,
        clock: Clock,
        memory_channel: str | None = None,
        *,
        put_back: bool = True,
    ) -> None:
        """`memory_channel` is the channel where the system under test keeps its memory (`[tool.harness.memory]`).

        `put_back`: whether a restore may write to channels; it is False under `isolation = "none"`.
        """
        self._plan, self._store, self._channels, self._clock = plan, store, channels, clock
        self._put_back, self._memory_channel = put_back, memory_channel
        self._begun = clock.now()
        self._theirs: dict[str, Any] = {}
        """The memory of the system under test when it was last read, as MemoryKV entries."""
        self._unwritten: dict[str, Any] = {}
        """Key -> value of what was remembered and is not yet written there."""

    def memory(self) -> Mapping[str, Any]:
        """Key -> value; what the task itself remembered overrides what was read from the system."""
        return {key: entry["value"] for key, entry in self.entries().items()}

    def remember(self, key: str, value: Any, source: str) -> None:
        """Write an entry. Raises TypeError for a value that is not JSON."""
        learn_named({key: value})
        self._store.put(self._plan.world, MemoryEntry.at(key, value, self._now(), source))
        if self._memory_channel is not None:
            self._unwritten[key] = value

    async def synchronize(self) -> None:
        """Write what was remembered since, and read the present memory; without a memory channel this does nothing.

        In a readonly channel, what the task remembers stays its own. Raises Failed.
        """
        name, world = self._memory_channel, self._plan.world
        if name is None:
            return
        if self._unwritten and await self._channels.writable(name):
            for key in tuple(self._unwritten):
                await self._channels.put(name, world, key, self._unwritten.pop(key))
                self._store.forget(world, key)
        document = await self._channels.read(name, world)
        learn_named(document)
        if not isinstance(document, dict):
            raise rejected(name, "is the memory channel, but its document is not an object of key -> value")
        plain = {"ts": None, "source": f"channel:{name}", "confidence": 1.0}
        self._theirs = {
            key: dict(value) if is_entry(value) else {"key": key, "value": value, **plain}
            for key, value in document.items()
        }

    def entries(self) -> dict[str, Any]:
        return {**self._theirs, **self._own()}

    async def channel(self, name: str) -> Any:
        """Read the document of a channel. Raises Failed."""
        document = await self._channels.read(name, self._plan.world)
        learn_named(document)
        return document

    async def merge(self, name: str, path: str, value: Any) -> None:
        """Write one value into a channel. Raises Failed."""
        await self._channels.write(name, self._plan.world, path, value)

    async def save(self) -> WorldCheckpoint:
        """Save memory, and the environment if its channels can be written. Raises Failed if one does not answer."""
        if not self._put_back and self._channels.names:
            return WorldCheckpoint(self._own(), {}, whole=False, refused=_NOT_PUT_BACK)
        able = await _all(map(self._channels.writable, self._channels.names))
        names = [name for name, can in zip(self._channels.names, able, strict=True) if can]
        documents = await _all(self._channels.read(name, self._plan.world) for name in names)
        environment = dict(zip(names, documents, strict=True))
        learn_named(environment)
        return WorldCheckpoint(self._own(), environment, whole=bool(names) and all(able))

    def _own(self) -> dict[str, Any]:
        return {key: entry.as_json() for key, entry in self._store.entries(self._plan.world).items()}

    async def has_changed(self, kept: WorldCheckpoint) -> bool:
        """Return whether a document differs from the saved one; one that cannot be read may. Raises Failed."""

        async def changed(name: str, saved: Any) -> bool:
            try:
                return bool(await self._changes(name, saved, await self._read(name)))
            except Refused:
                return True

        return any(await _all(starmap(changed, kept.environment.items())))

    async def restore(self, kept: WorldCheckpoint) -> tuple[str, ...]:
        """Restore what was saved, and compare. Returns the differences that remain, at most 20 lines.

        Unchanged documents are not written, so that nothing is overwritten that this task did not touch. A channel that
        refuses to be written is among the differences; one that cannot be reached raises Failed, after memory and the
        other channels were restored. The world's time goes on.
        """
        own = (entry for key, entry in kept.entries.items() if entry != self._theirs.get(key))
        self._store.replace(self._plan.world, (MemoryEntry(**entry) for entry in own))
        self._unwritten.clear()
        found = await _all(starmap(self._restore_document, kept.environment.items()))
        # A large document takes time: other tasks continue meanwhile.
        differs = await asyncio.to_thread(bounded_lines, chain.from_iterable(found))
        await self.synchronize()
        return (kept.refused, *differs) if kept.refused else differs

    async def _restore_document(self, name: str, saved: Any) -> Iterable[Difference | str]:
        """The differences from what was saved, or the reason why it was not restored."""
        try:
            now = await self._read(name)
        except Refused as error:
            return (_line(name, "was not restored, because it cannot be read", error),)
        changes = await self._changes(name, saved, now)
        if not changes:
            return ()
        target, world, after = put_back(now, changes), self._plan.world, None
        try:
            patch = merge_patch(target, changes)
            if patch is not None and await self._channels.merge(name, world, patch):
                after = (await self._read(name),)  # alone in a tuple, since a document may be null
            if after is None or await self._changes(name, target, after[0]):
                await self._channels.restore(name, world, target)
                after = None
        except Refused as error:
            return (_line(name, "was not restored", error),)
        try:
            return await self._changes(name, saved, after[0] if after else await self._read(name))
        except Refused as error:
            return (_line(name, "was restored, but cannot be read", error),)

    async def _read(self, name: str) -> Any:
        return await self._channels.read(name, self._plan.world)

    async def _changes(self, name: str, saved: Any, now: Any) -> list[Difference]:
        clock = self._channels.clocks.get(name)
        return await asyncio.to_thread(lambda: list(differences(name, saved, now, clock)))

    async def snapshot(self) -> dict[str, Any]:
        async def document(name: str) -> Any:
            try:
                return await self.channel(name)
            except Failed as error:
                return {"error": error.failure.message}

        return dict(zip(self._channels.names, await _all(map(document, self._channels.names)), strict=True))

    async def begin(self) -> None:
        """Set the initial memory and the world's clock. Raises Failed if a channel's clock cannot be set.

        The world of an episode, or of the task that this one runs inside, keeps what was written before, over the
        initial entries; any other world is emptied first, so that a rerun starts from the same state.
        """
        self._begun = self._clock.now()
        if alone := self._plan.fresh and self._plan.spec.episode_id is None:
            self._store.clear(self._plan.world)
        await self.synchronize()
        known = {} if alone else self.entries()
        for key, value in self._plan.spec.memory.items():
            if key not in known:
                self.remember(key, value, _INITIAL)
        await self.synchronize()
        if self._plan.start is not None:
            now = timestamp(self._plan.start)
            await asyncio.gather(*(self.merge(name, path, now) for name, path in self._channels.clocks.items()))

    def _now(self) -> datetime:
        """The time in the world: the task's `time` plus the time that has passed since, else the time of day."""
        if self._plan.start is None:
            return self._clock.wall()
        return self._plan.start + timedelta(seconds=self._clock.now() - self._begun)
