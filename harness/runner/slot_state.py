"""The state that the tasks in each slot see: its channels, and how it is reset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from harness.environment.channels import Channels
from harness.environment.placeholders import SlotPlaceholders
from harness.environment.reset import StateReset
from harness.environment.services import Services
from harness.model.settings import Settings
from harness.runner.needs import Needs
from harness.runner.toolbox import RunTools

_Recover = Callable[[int, str], Coroutine[Any, Any, None]]
"""Recovers the service at a URL, as the tasks of that slot see it."""


class SlotStates:
    """The state of each slot. If no state is shared, there is only slot 0."""

    def __init__(
        self, settings: Settings, services: Services, needs: Needs, tools: RunTools, recover: _Recover, starts: Path
    ) -> None:
        """`starts` is the folder for the files as they were at the start of the run."""
        self._settings, self._services, self._needs = settings, services, needs
        self._tools, self._recover = tools, recover
        self._starts = starts if settings.isolation == "reset" else None
        self._reset = StateReset(settings.reset, settings.reset_timeout, settings.root)
        self._channels: dict[int, Channels] = {}

    def channels(self, slot: int) -> Channels:
        """The channels as the tasks in that slot see them. Raises ValueError for settings that fit no kind."""
        if slot not in self._channels:
            hosts, settings = self._services.hosts_of(slot), self._settings
            started = [name for name, each in settings.services.items() if each.command is not None]
            folders = {name: partial(self._services.folder_of, name, slot) for name in started}
            self._channels[slot] = Channels(
                settings.channels,
                hosts=hosts,
                recover=partial(self._recover, slot),
                root=settings.root,
                mark=settings.world_mark,
                starts=self._starts and self._starts / str(slot),
                call=partial(self._tools.call, slot),
                places=SlotPlaceholders(slot, hosts, folders),
            )
        return self._channels[slot]

    def usable_channels(self, slot: int, needed: frozenset[str] | None) -> Channels:
        """The channels of a task, without those of services that are down and that it does not need."""
        down = frozenset() if needed is None else self._services.down(slot) - needed
        return self.channels(slot).without(self._needs.channels_of(down))

    async def reset(self, slot: int, world: str, needed: frozenset[str] | None) -> None:
        """Reset the state of a slot before a task that needs these services; None: all of them. Raises Failed."""
        await self._services.reset(slot, needed)
        themselves = any("reset" in each.model_fields_set for each in self._settings.services.values())
        if self._reset.target is not None or not themselves:
            channels = self.usable_channels(slot, needed)
            await self._reset.run(channels, slot, self._services.hosts_of(slot), world)

    async def forget(self) -> None:
        """Load the channels anew when they are next needed: the project's Python has changed."""
        old = list(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(channels.close() for channels in old))
