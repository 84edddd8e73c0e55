"""The environment's part of a checkpoint: its channels' documents, saved and put back by difference (DESIGN 4.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from harness.world.channel import Refused
from harness.world.channels import Channels
from harness.world.differences import Difference, bounded, differences, merge_patch, put_back

T = TypeVar("T")


async def save(channels: Channels, world: str) -> tuple[dict[str, Any], bool]:
    """The documents that can be put back, and whether those are all there are, and at least one. Raises Failed."""
    writable = await _all(channels.writable(name) for name in channels.names)
    names = [name for name, able in zip(channels.names, writable, strict=True) if able]
    documents = await _all(channels.read(name, world) for name in names)
    return dict(zip(names, documents, strict=True)), bool(names) and all(writable)


async def changed(channels: Channels, world: str, saved: Mapping[str, Any]) -> bool:
    """Whether one of the documents is another one now; one that cannot be read may be. Raises Failed."""
    return any(await _all(_changed(channels, name, world, document) for name, document in saved.items()))


async def _changed(channels: Channels, name: str, world: str, saved: Any) -> bool:
    try:
        return bool(await _changes(channels, name, saved, await channels.read(name, world)))
    except Refused:
        return True


async def restore(channels: Channels, world: str, saved: Mapping[str, Any]) -> tuple[str, ...]:
    """Put back what has changed since it was saved; then read again. Returns what differs.

    What has not changed is not written, so that nothing is overwritten that this task did not touch. Raises Failed when
    a channel cannot be reached.
    """
    found = await _all(_restored(channels, name, world, document) for name, document in saved.items())
    # A large document takes its time: other tasks go on meanwhile.
    return await asyncio.to_thread(bounded, chain.from_iterable(found))


async def _restored(channels: Channels, name: str, world: str, saved: Any) -> Iterable[Difference | str]:
    """What differs from what was saved, or why it was not put back."""
    try:
        now = await channels.read(name, world)
    except Refused as error:
        return (_line(name, "was not put back, since it cannot be read", error),)
    changes = await _changes(channels, name, saved, now)
    if not changes:
        return ()
    target = put_back(now, changes)
    try:
        after = await _merged(channels, name, world, merge_patch(target, changes))
        if after is None or await _changes(channels, name, target, after[0]):
            await channels.restore(name, world, target)
            after = None
    except Refused as error:
        return (_line(name, "was not put back", error),)
    try:
        return await _changes(channels, name, saved, after[0] if after else await channels.read(name, world))
    except Refused as error:
        return (_line(name, "was put back, and cannot be read", error),)


async def _merged(channels: Channels, name: str, world: str, patch: Any) -> tuple[Any] | None:
    """The document after a merge patch; None when there is none, or the channel does not take it."""
    if patch is None or not await channels.merge(name, world, patch):
        return None
    return (await channels.read(name, world),)


async def _changes(channels: Channels, name: str, saved: Any, now: Any) -> list[Difference]:
    return await asyncio.to_thread(lambda: list(differences(name, saved, now, channels.clocks.get(name))))


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
