"""Memory and environment of one task or episode, as the engine sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from harness.model.plan import Plan
from harness.model.ports import Kept
from harness.recovery.failure import Failed
from harness.resilience import Clock
from harness.spec.documents import is_entry
from harness.world import checkpoint
from harness.world.channel import rejected
from harness.world.channels import Channels
from harness.world.memory import Entry, MemoryStore, timestamp

NOT_PUT_BACK = 'the environment was not put back: `isolation = "none"` in [tool.harness] says that nothing is'
"""Told after a restore."""
INITIAL = "initial"
"""The source of entries that stand in the task's file."""


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
        """`memory_channel` is where the system under test keeps its memory (`[tool.harness.memory]`).

        `put_back`: whether a restore may write to channels; not under `isolation = "none"`.
        """
        self._put_back = put_back
        self._plan = plan
        self._store = store
        self._channels = channels
        self._clock = clock
        self._begun = clock.now()
        self._memory_channel = memory_channel
        self._theirs: dict[str, Any] = {}
        """What the memory of the system under test held when it was last read, as MemoryKV entries."""
        self._unwritten: dict[str, Any] = {}
        """Key -> value of what was remembered and is not yet written there."""

    def memory(self) -> Mapping[str, Any]:
        """Key -> value; what the task itself remembered goes over what was read where the system keeps its memory."""
        return {key: entry["value"] for key, entry in self.entries().items()}

    def remember(self, key: str, value: Any, source: str) -> None:
        """Write an entry. Raises TypeError for a value that is not JSON."""
        self._store.put(self._plan.world, Entry.at(key, value, self._now(), source))
        if self._memory_channel is not None:
            self._unwritten[key] = value

    async def synchronize(self) -> None:
        """Write what was remembered since, and read what stands there now; nothing without a memory channel.

        In a channel that is only read, what the task remembers stays its own. Raises Failed.
        """
        name, world = self._memory_channel, self._plan.world
        if name is None:
            return
        if self._unwritten and await self._channels.writable(name):
            for key in tuple(self._unwritten):
                await self._channels.put(name, world, key, self._unwritten.pop(key))
                self._store.forget(world, key)
        document = await self._channels.read(name, world)
        if not isinstance(document, dict):
            raise rejected(name, "is to hold the memory, and is no object of key -> value")
        self._theirs = {key: _entry(key, value, name) for key, value in document.items()}

    def entries(self) -> dict[str, Any]:
        """Key -> MemoryKV entry (key, value, ts, source, confidence)."""
        own = {key: entry.as_json() for key, entry in self._store.entries(self._plan.world).items()}
        return {**self._theirs, **own}

    async def channel(self, name: str) -> Any:
        """The document of a channel, now. Raises Failed."""
        return await self._channels.read(name, self._plan.world)

    async def merge(self, name: str, path: str, value: Any) -> None:
        """Write one value into a channel. Raises Failed."""
        await self._channels.write(name, self._plan.world, path, value)

    async def save(self) -> Kept:
        """Memory, and the environment where its channels can be written. Raises Failed when one does not answer."""
        if not self._put_back and self._channels.names:
            return Kept(self._own(), {}, whole=False, refused=NOT_PUT_BACK)
        environment, whole = await checkpoint.save(self._channels, self._plan.world)
        return Kept(self._own(), environment, whole)

    def _own(self) -> dict[str, Any]:
        return {key: entry.as_json() for key, entry in self._store.entries(self._plan.world).items()}

    async def changed(self, kept: Kept) -> bool:
        """Whether a document of the environment is another one than was saved. Raises Failed."""
        return await checkpoint.changed(self._channels, self._plan.world, kept.environment)

    async def restore(self, kept: Kept) -> tuple[str, ...]:
        """Back to what was saved; then compared. Returns what differs, at most 20 lines.

        A channel that refuses to be written is one of them; one that cannot be reached raises Failed, when memory and
        the other channels are back already. The world's time goes on.
        """
        own = (entry for key, entry in kept.entries.items() if entry != self._theirs.get(key))
        self._store.replace(self._plan.world, (Entry(**entry) for entry in own))
        self._unwritten.clear()
        differs = await checkpoint.restore(self._channels, self._plan.world, kept.environment)
        await self.synchronize()
        return (kept.refused, *differs) if kept.refused else differs

    async def snapshot(self) -> dict[str, Any]:
        """Every channel's document; a channel that cannot be read is `{"error": ...}`."""
        names = tuple(self._channels.names)
        return dict(zip(names, await asyncio.gather(*(self._document(name) for name in names)), strict=True))

    async def begin(self) -> None:
        """Initial memory, the world's clock. Raises Failed when a channel's clock cannot be set.

        The world of an episode, or of the task that this one runs in the middle of, keeps what was written before,
        over the initial entries; any other world is emptied first, so that a rerun starts from the same state.
        """
        self._begun = self._clock.now()
        if self._plan.fresh and self._plan.spec.episode_id is None:
            self._store.clear(self._plan.world)
        shared = not self._plan.fresh or self._plan.spec.episode_id is not None
        await self.synchronize()
        known = self.entries() if shared else {}
        for key, value in self._plan.spec.memory.items():
            if key not in known:
                self.remember(key, value, INITIAL)
        await self.synchronize()
        await self._set_clocks()

    async def _set_clocks(self) -> None:
        if self._plan.start is not None:
            now = timestamp(self._plan.start)
            await asyncio.gather(*(self.merge(name, path, now) for name, path in self._channels.clocks.items()))

    async def _document(self, name: str) -> Any:
        try:
            return await self.channel(name)
        except Failed as error:
            return {"error": error.failure.message}

    def _now(self) -> datetime:
        """The time in the world: the task's `time` and what has passed since, else the time of day."""
        if self._plan.start is None:
            return self._clock.wall()
        return self._plan.start + timedelta(seconds=self._clock.now() - self._begun)


def _entry(key: str, value: Any, channel: str) -> dict[str, Any]:
    """A MemoryKV entry, of one or of a plain value."""
    if is_entry(value):
        return dict(value)
    return {"key": key, "value": value, "ts": None, "source": f"channel:{channel}", "confidence": 1.0}
