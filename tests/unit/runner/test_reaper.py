"""What is done behind a harness that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.resilience import SystemClock
from harness.runner import reaper
from harness.runner.scratch import Scratch

HARNESS = """
import os, subprocess, sys, time
from pathlib import Path
from harness.resilience import SystemClock
from harness.runner.scratch import Scratch
workspace = Path(sys.argv[1])
workspace.mkdir(parents=True)
scratch = Scratch(SystemClock(), workspace)
stopped = subprocess.Popen(["sleep", "60"], start_new_session=True)
scratch.guard(stopped.pid)
os.kill(stopped.pid, 19)
print(scratch.path, stopped.pid, scratch.reaper.pid, flush=True)
if "forked" in sys.argv:
    os.fork()
time.sleep(60)
"""
WITHIN = 15.0


def eventually(holds: Callable[[], bool]) -> bool:
    limit = time.monotonic() + WITHIN
    while not holds() and time.monotonic() < limit:
        time.sleep(0.02)
    return holds()


def runs(pid: int) -> bool:
    return bool(reaper.birth(pid))


def ignores(pid: int, number: int) -> bool:
    """Its programme has begun."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn"))
    return bool(int(line.split()[1], 16) & 1 << number - 1)


@pytest.mark.parametrize("forked", [[], ["forked"]])
@pytest.mark.sampled(1)
def test_after_a_kill_programs_and_folders_are_gone(tmp_path: Path, forked: list[str]) -> None:
    """Also when a fork of the harness still holds the pipe, and when somebody has tried to end the reaper."""
    workspace = tmp_path / ".tmp" / "1-run"
    process = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(workspace), *forked],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    folder, *pids = process.stdout.readline().split()
    stopped, cleaner = map(int, pids)
    assert eventually(lambda: ignores(cleaner, signal.SIGTERM))
    os.kill(cleaner, signal.SIGTERM)
    forks = psutil.Process(process.pid).children() if forked else []
    process.kill()
    process.wait()
    assert eventually(lambda: not runs(stopped) and not runs(cleaner))
    assert not Path(folder).exists()
    assert list(tmp_path.iterdir()) == []
    for fork in forks:
        if fork.pid not in (stopped, cleaner):
            fork.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux wakes a process when its parent dies")
def test_a_reaper_that_is_stopped_wakes_when_its_harness_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path / ".tmp" / "1-run")],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    _, *pids = process.stdout.readline().split()
    stopped, cleaner = map(int, pids)
    assert eventually(lambda: b"_ctypes" in Path(f"/proc/{cleaner}/maps").read_bytes())
    assert eventually(lambda: psutil.Process(cleaner).status() == psutil.STATUS_SLEEPING)
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(cleaner, signal.SIGSTOP)
    process.kill()
    process.wait()
    assert eventually(lambda: not runs(stopped) and not runs(cleaner))
    assert list(tmp_path.iterdir()) == []


def test_with_the_harness_s_own_end_it_has_nothing_to_do(tmp_path: Path) -> None:
    scratch = Scratch(SystemClock(), tmp_path / ".tmp" / "1-run")
    program = subprocess.Popen(["sleep", "60"])
    scratch.guard(program.pid)
    program.kill()
    program.wait()
    scratch.close()
    assert not scratch.path.exists()
    assert scratch.reaper.returncode == 0


def test_a_folder_with_the_workspaces_of_others_stays(tmp_path: Path) -> None:
    other = tmp_path / ".tmp" / "2-run"
    other.mkdir(parents=True)
    Scratch(SystemClock(), tmp_path / ".tmp" / "1-run").close()
    assert other.is_dir()


def test_a_harness_whose_reaper_was_killed_goes_on(tmp_path: Path) -> None:
    scratch = Scratch(SystemClock(), tmp_path)
    scratch.reaper.kill()
    scratch.reaper.wait()
    scratch.guard(1)
    scratch.close()
    assert not scratch.path.exists()


def test_a_program_that_has_the_pid_of_an_earlier_one_is_left_alone() -> None:
    program = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        reaper.end(program.pid, "another birth")
        assert runs(program.pid)
        reaper.end(program.pid, reaper.birth(program.pid))
        assert eventually(lambda: not runs(program.pid))
    finally:
        program.kill()
        program.wait()


PARENT = "import subprocess; subprocess.Popen(['sleep', '60']); print(1, flush=True); input()"


@pytest.mark.parametrize("files", [True, False])
def test_all_that_runs_below_a_program_is_ended(monkeypatch: pytest.MonkeyPatch, files: bool) -> None:
    """By the files of /proc, and by `ps` where there are none."""
    if not files:
        monkeypatch.setattr(reaper, "PROCESSES", Path("/nonexistent"))
    program = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None
    program.stdout.readline()
    tree = reaper.tree(program.pid)
    assert tree == [program.pid, *(child.pid for child in psutil.Process(program.pid).children())]
    assert len(tree) == 2
    reaper.end(program.pid, reaper.birth(program.pid))
    program.wait()
    assert eventually(lambda: not any(map(psutil.pid_exists, tree)))
