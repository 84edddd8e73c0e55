"""What a command leaves running ends with it, also a daemon that nothing tells from others."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.resilience import SystemClock
from harness.resilience.process import Child, Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")

COMMAND = """
import os, signal, sys, time
begun, held = os.pipe()  # its end is closed when the daemon has begun
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)", sys.argv[1]], {})
    os._exit(0)
os.wait()
os.close(held)
os.read(begun, 1)
print("ready", flush=True)
if sys.argv[2] == "hangs":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(300)
sys.exit(3)
"""
HARNESS = """
import asyncio, os, sys
from pathlib import Path
from harness.resilience import SystemClock
from harness.resilience.process import Child, Program
folder, command, name = sys.argv[1:]
program = Program([sys.executable, "-I", "-S", "-c", command, name, "hangs"], {}, Path(folder), adopts=True)
child = Child(program, Path(folder) / "log", Path(os.devnull), SystemClock())
sys.stdin.read()
"""


def daemons(name: str) -> list[psutil.Process]:
    """The processes whose last argument is the name: neither the command nor its watchdog has it there."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        if (each.info["cmdline"] or [""])[-1] == name and each.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(each)
    return found


async def until_ready(log: Path) -> None:
    async with asyncio.timeout(30):
        while not log.is_file() or b"ready" not in log.read_bytes():
            await asyncio.sleep(0.05)


async def until_woken_by_death(pid: int) -> None:
    """Wait until the watchdog has loaded the library by which it asks for that."""
    async with asyncio.timeout(30):
        while b"_ctypes" not in Path(f"/proc/{pid}/maps").read_bytes():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)


@pytest.mark.parametrize(("how", "code"), [("ends", 3), ("hangs", 128 + signal.SIGKILL)])
async def test_a_daemon_without_environment_ends_with_its_command(tmp_path: Path, how: str, code: int) -> None:
    name = f"daemon-{tmp_path.name}-{how}"
    words = [sys.executable, "-I", "-S", "-c", COMMAND, name, how]
    program = Program(words, {}, tmp_path, alone=True, adopts=True)
    child = Child(program, tmp_path / "log", Path(os.devnull), SystemClock())
    await until_ready(tmp_path / "log")
    if how == "hangs":
        assert len(daemons(name)) == 1
    else:
        assert await child.wait(20)
    assert await child.stop(0.2) == code
    assert not daemons(name)


def test_a_daemon_without_environment_ends_with_a_killed_harness(tmp_path: Path) -> None:
    name = f"daemon-{tmp_path.name}"
    command = [sys.executable, "-c", HARNESS, str(tmp_path), COMMAND, name]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdin=subprocess.PIPE) as harness:
        asyncio.run(until_ready(tmp_path / "log"))
        found = [each for each in daemons(name) if each.pid != harness.pid]
        harness.kill()
    assert len(found) == 1
    assert not psutil.wait_procs(found, timeout=20)[1]


def test_what_is_stopped_ends_with_a_killed_harness(tmp_path: Path) -> None:
    """The command, and the watchdog itself."""
    name = f"daemon-{tmp_path.name}"
    command = [sys.executable, "-c", HARNESS, str(tmp_path), COMMAND, name]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdin=subprocess.PIPE) as harness:
        asyncio.run(until_ready(tmp_path / "log"))
        found = psutil.Process(harness.pid).children(recursive=True)
        asyncio.run(until_woken_by_death(found[0].pid))
        for each in found:
            each.send_signal(signal.SIGSTOP)
        harness.kill()
    assert len(found) > 2
    assert not psutil.wait_procs(found, timeout=20)[1]
