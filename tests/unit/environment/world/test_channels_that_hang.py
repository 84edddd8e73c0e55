"""Channels in Python and in files that never answer take nothing from anybody else."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.environment.channels import Channels
from harness.model.channel_settings import ChannelSettings
from harness.recovery.failure import Failed

PYTHON = """
import sys
import threading
RELEASED = threading.Event()

def hangs(world):
    RELEASED.wait(60)

def answers(world):
    return {"world": world}

def leaves(world):
    sys.exit(3)

async def leaves_later(world):
    sys.exit(3)
"""
POOL = 2
"""Threads of the loop's own pool; asyncio gives it more, and never a thread back that does not return."""
LONG = 60.0


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Lets go of what hangs: asyncio's own threads, if it is they, are waited for when the loop ends."""
    (tmp_path / "hanging_channel.py").write_text(PYTHON)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "hanging_channel", raising=False)

    def release() -> None:
        if found := sys.modules.get("hanging_channel"):
            found.RELEASED.set()

    yield release
    release()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


def let_go(pipe: Path) -> None:
    """Who waits to open it for reading finds a writer that closes it."""
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))


def python(name: str, **more: Any) -> ChannelSettings:
    return ChannelSettings(python=f"hanging_channel:{name}", **more)


async def hung(settings: ChannelSettings, root: Path, release: Callable[[], None]) -> tuple[list[Any], set[bool], Any]:
    """What calls that hang come to, one more than there are threads in the pool, twice over; whether their threads are
    daemons; what another channel and a thread of the pool say afterwards."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(POOL))
    names = [f"hung{number}" for number in range(POOL + 1)]
    channels = Channels({**dict.fromkeys(names, settings), "other": python("answers")}, hosts={}, root=root)
    before = set(threading.enumerate())
    try:
        calls = [channels.read(name, "w") for name in names * 2]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        threads = set(threading.enumerate()) - before
        later = await channels.read("other", "w"), await asyncio.wait_for(asyncio.to_thread(str, "free"), LONG)
    finally:
        release()
        await channels.close()
    return ended, {each.daemon for each in threads}, later


def test_python_that_never_returns_keeps_no_thread_from_others(module: Callable[[], None], tmp_path: Path) -> None:
    ended, daemons, later = asyncio.run(hung(python("hangs", timeout=0.5), tmp_path, module))
    assert {type(each) for each in ended} == {Failed}
    assert all(each.failure.message.endswith("took longer than 0.5 s") for each in ended)
    assert daemons == {True}
    assert later == ({"world": "w"}, "free")


def test_a_file_that_never_opens_keeps_no_thread_from_others(
    module: Callable[[], None], pipe: Path, tmp_path: Path
) -> None:
    settings = ChannelSettings(file=pipe.name, timeout=0.3)
    ended, daemons, later = asyncio.run(hung(settings, tmp_path, lambda: let_go(pipe)))
    assert {type(each) for each in ended} == {Failed}
    assert all("pipe.json cannot be read: it took too long" in each.failure.message for each in ended)
    assert daemons == {True}
    assert later == ({"world": "w"}, "free")


@pytest.mark.parametrize("name", ["leaves", "leaves_later"])
def test_python_that_exits_ends_its_call_and_not_the_loop(
    name: str, module: Callable[[], None], tmp_path: Path
) -> None:
    async def main() -> Any:
        channels = Channels({"env": python(name)}, hosts={}, root=tmp_path)
        return await asyncio.gather(channels.read("env", "w"), return_exceptions=True)

    (found,) = asyncio.run(main())
    assert isinstance(found, Failed)
    assert "read failed with " in found.failure.message
    assert "SystemExit: 3" in found.failure.message
