"""Memory and environment of one task or episode, as the engine sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from harness.failure import Failed
from harness.plan import Plan
from harness.ports import Kept
from harness.resilience import Clock
from harness.world import checkpoint
from harness.world.channels import Channels
from harness.world.memory import Entry, MemoryStore, timestamp

INITIAL = "initial"
"""The source of entries that stand in the task's file."""


class TaskWorld:
    """Implements `harness.ports.World`; the world id is the plan's."""

    def __init__(self, plan: Plan, store: MemoryStore, channels: Channels, clock: Clock) -> None:
        self._plan = plan
        self._store = store
        self._channels = channels
        self._clock = clock
        self._begun = clock.now()

    def memory(self) -> Mapping[str, Any]:
        """Key -> value."""
        return {key: entry.value for key, entry in self._store.entries(self._plan.world).items()}

    def remember(self, key: str, value: Any, source: str) -> None:
        """Write an entry. Raises TypeError for a value that is not JSON."""
        self._store.put(self._plan.world, Entry.at(key, value, self._now(), source))

    def entries(self) -> dict[str, Any]:
        """Key -> MemoryKV entry (key, value, ts, source, confidence)."""
        return {key: entry.as_json() for key, entry in self._store.entries(self._plan.world).items()}

    async def channel(self, name: str) -> Any:
        """The document of a channel, now. Raises Failed."""
        return await self._channels.read(name, self._plan.world)

    async def merge(self, name: str, path: str, value: Any) -> None:
        """Write one value into a channel. Raises Failed."""
        await self._channels.write(name, self._plan.world, path, value)

    async def save(self) -> Kept:
        """Memory, and the environment where its channels can be written. Raises Failed when one does not answer."""
        environment, whole = await checkpoint.save(self._channels, self._plan.world)
        return Kept(self.entries(), environment, whole)

    async def restore(self, kept: Kept) -> tuple[str, ...]:
        """Back to what was saved; then compared. Returns what differs, at most 20 lines.

        A channel that refuses to be written is one of them; one that cannot be reached raises Failed, when memory and
        the other channels are back already. The world's time goes on.
        """
        self._store.replace(self._plan.world, (Entry(**entry) for entry in kept.entries.values()))
        return await checkpoint.restore(self._channels, self._plan.world, kept.environment)

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
        known = self._store.entries(self._plan.world)
        for key, value in self._plan.spec.memory.items():
            if key not in known:
                self.remember(key, value, INITIAL)
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
