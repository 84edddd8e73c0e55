"""The environment's part of a checkpoint: its channels' documents, saved and put back (DESIGN 4.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from harness.world.channel import Refused
from harness.world.channels import Channels
from harness.world.differences import Difference, bounded, differences

T = TypeVar("T")


async def save(channels: Channels, world: str) -> tuple[dict[str, Any], bool]:
    """The documents that can be put back, and whether those are all there are, and at least one. Raises Failed."""
    writable = await _all(channels.writable(name) for name in channels.names)
    names = [name for name, able in zip(channels.names, writable, strict=True) if able]
    documents = await _all(channels.read(name, world) for name in names)
    return dict(zip(names, documents, strict=True)), bool(names) and all(writable)


async def restore(channels: Channels, world: str, saved: Mapping[str, Any]) -> tuple[str, ...]:
    """Put the documents back; then read all again. Returns what differs. Raises Failed when one cannot be reached."""
    refusals = await _all(_put_back(channels, name, world, document) for name, document in saved.items())
    pairs = zip(saved.items(), refusals, strict=True)
    found = await _all(_compared(channels, name, world, document, refusal) for (name, document), refusal in pairs)
    # A large document takes its time: other tasks go on meanwhile.
    return await asyncio.to_thread(bounded, chain.from_iterable(found))


async def _put_back(channels: Channels, name: str, world: str, document: Any) -> str:
    """Returns why it was not put back, if so."""
    try:
        await channels.restore(name, world, document)
    except Refused as error:
        return _line(name, "was not put back", error)
    return ""


async def _compared(
    channels: Channels, name: str, world: str, document: Any, refusal: str
) -> Iterable[Difference | str]:
    if refusal:
        return (refusal,)
    try:
        now = await channels.read(name, world)
    except Refused as error:
        return (_line(name, "was put back, and cannot be read", error),)
    return differences(name, document, now, channels.clocks.get(name))


def _line(name: str, what: str, error: Refused) -> str:
    return f"{name}: {what}: {error.failure.message.removeprefix(f'channel `{name}`: '):.300}"


async def _all(jobs: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order. Every job ends, so that none works on unseen; then the first error is raised."""
    found = await asyncio.gather(*jobs, return_exceptions=True)
    results: list[T] = []
    for each in found:
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results
