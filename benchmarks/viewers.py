"""What it costs a run that many look at its live page: the same run with viewers and without."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from benchmarks.figures import Spread, paired_ratio
from benchmarks.ground import ROOT, Ground, our_project
from benchmarks.light import HARNESS
from benchmarks.playing import ALONE, PytestRun
from benchmarks.programs import Run, in_turns, ours
from benchmarks.table import Bound, Row
from benchmarks.throughput import Size

AT_ONCE = 6
BOUND = Bound(1.05)
WITH, WITHOUT = "with viewers", "without"
ENDING = 30.0
"""Seconds that viewers may take to see the end of a run that has ended."""
_ADDRESS = re.compile(r"(http://\S+?)/?\?token=(\S+)")


class Audience:
    """The viewers of one project's runs, in a process of their own beside the run."""

    def __init__(self, server: int, address: tuple[str, str], viewers: int, tasks: int) -> None:
        """`server`: the pid of the project's server. `address`: its URL and a token."""
        self._server = psutil.Process(server)
        self._command = [sys.executable, "-m", "benchmarks.watching", *address, str(viewers), str(tasks)]
        self.seen: list[int] = []
        """For each watched run the number of viewers that have seen all of it."""
        self.served: list[float] = []
        """For each watched run the seconds of processor time of the server."""

    def watched(self, run: Run) -> Run:
        """The run, with viewers."""

        def play() -> PytestRun:
            with subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as viewers:
                try:
                    assert viewers.stdout is not None
                    viewers.stdout.readline()  # they wait for the run
                    used = self._used()
                    played = run()
                    viewers.wait(ENDING)
                    self.seen.append(int(viewers.stdout.read() or 0))
                    self.served.append(self._used() - used)
                except subprocess.TimeoutExpired:
                    self.seen.append(0)
                finally:
                    viewers.kill()
            return played

        return play

    def _used(self) -> float:
        times = self._server.cpu_times()
        return float(times.user + times.system)


def measure(ground: Ground, rounds: int, size: Size, viewers: int) -> list[Row]:
    """Measure: in every round the run with viewers and without; the server runs beside both."""
    project = our_project(ground, size.work)
    run = ours(ground, project, ("--task-workers", str(AT_ONCE), *ALONE))
    with _served(project) as (pid, address):
        audience = Audience(pid, address, viewers, size.tasks)
        played = in_turns({WITH: audience.watched(run), WITHOUT: run}, rounds)
    return rows(played, size, viewers, audience.seen, audience.served)


def rows(
    played: Mapping[str, Sequence[PytestRun]],
    size: Size,
    viewers: int,
    seen: Sequence[int],
    served: Sequence[float],
) -> list[Row]:
    """The ratio, round by round, and what the server takes for its viewers."""
    wrong = next(filter(None, (size.fault(each) for several in played.values() for each in several)), "")
    if not wrong and (blind := [count for count in seen if count != viewers]):
        wrong = f"only {blind[0]} of {viewers} viewers saw the end of every task"
    mine, theirs = ([run.cpu for run in played[name]] for name in (WITH, WITHOUT))
    part = f"{viewers} viewers of a run of {size.tasks} tasks, {AT_ONCE} at once: processor time"
    ratio = paired_ratio(mine, theirs)
    found = [Row(part, f"the run {WITH} / {WITHOUT}", "s", Spread.of(mine), Spread.of(theirs), ratio, BOUND, wrong)]
    if served:
        found.append(Row(part, "the server, beside the run", "s", Spread.of(served), wrong=wrong))
    return found


@contextlib.contextmanager
def _served(project: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    """The pid of a server of the project, and its URL and a token."""
    command = [HARNESS, "serve", "--page-only", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=project) as server:
        try:
            assert server.stdout is not None
            found = _ADDRESS.search(line := server.stdout.readline())
            if found is None:
                raise RuntimeError(f"harness serve said no address: {line!r}")
            yield server.pid, (found[1], found[2])
        finally:
            server.terminate()
