"""The placeholders of channels: where what a service keeps is found, as the tasks in one slot see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.model.service_settings import expand


class SlotPlaceholders(Struct, frozen=True):
    """`{slot}`, `{port:HOST}`, `{folder}` and `{folder:NAME}` of one slot, looked up each time: a service may move."""

    slot: int = 0
    hosts: Mapping[str, int] = {}
    folders: Mapping[str, Callable[[], Path]] = {}
    """Name of a service -> what returns its `{folder}`, for the services that a run starts. It raises OSError."""

    def fill(self, text: str) -> str:
        """The text with the values of this moment. Raises OSError, or KeyError for what the settings do not know."""
        return expand(text, self)

    def __getitem__(self, placeholder: str) -> str:
        kind, _, target = placeholder.partition(":")
        if kind == "slot":
            return str(self.slot)
        if kind == "port":
            return str(self.hosts[target])
        found = {name.lower(): folder for name, folder in self.folders.items()}
        return str((found[target] if target else next(iter(found.values())))())


def filled(value: Any, fill: Callable[[str], str]) -> Any:
    """A JSON value with each of its texts filled in."""
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, dict):
        return {key: filled(each, fill) for key, each in value.items()}
    return [filled(each, fill) for each in value] if isinstance(value, list) else value
