"""The processes of a group: all of them, and until they have ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from harness.resilience.process import await_ends, members, runs, signal_all
from tests.unit.environment.services.conftest import eventually
from tests.unit.fakes import FakeClock

FAR = 1000


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    """Of a group with a second process, which is no child of it: the shell between them has ended."""
    process = subprocess.Popen(["sh", "-c", f"(sleep {FAR} &); exec sleep {FAR}"], start_new_session=True)
    assert eventually(lambda: _names(process.pid) == ["sleep", "sleep"])
    yield process
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _names(group: int) -> list[str]:
    try:
        return [each.name() for each in members(group)]
    except psutil.NoSuchProcess:
        return []


def test_one_that_is_no_child_is_of_the_group(leader: subprocess.Popen[bytes]) -> None:
    found = members(leader.pid)
    assert leader.pid in {each.pid for each in found}
    assert {os.getpgid(each.pid) for each in found} == {leader.pid}
    assert os.getpid() not in {each.pid for each in found}


def test_it_is_gone_when_all_have_ended(leader: subprocess.Popen[bytes]) -> None:
    found = members(leader.pid)
    other = next(each for each in found if each.pid != leader.pid)
    leader.kill()
    leader.wait()
    clock = FakeClock()
    assert not asyncio.run(await_ends(found, clock, 5)), "the leader alone is over"
    assert clock.now() <= 5
    assert runs(other)
    signal_all(found, signal.SIGKILL)
    assert eventually(lambda: not runs(other))
    assert asyncio.run(await_ends(found, clock, 0))


def test_a_zombie_has_ended(leader: subprocess.Popen[bytes]) -> None:
    found = members(leader.pid)
    signal_all(found, signal.SIGKILL)
    assert eventually(lambda: not any(map(runs, found))), "not reaped, and over"
