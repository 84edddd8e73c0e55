"""The processes of a run: their memory and open files, and those that are left when it is over."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

MARK = "BENCH_RUN"
"""The environment variable that marks every process of a run."""
ENDING = 5.0
"""Seconds that a process may take to end after its run."""


def sample(pid: int) -> dict[str, float]:
    """The figures of a process and its children: MiB by kind, and their number; of itself open and temporary files."""
    root = psutil.Process(pid)
    found = {"python": 0.0, "driver": 0.0, "browser": 0.0, "processes": 0.0}
    for process in (root, *root.children(recursive=True)):
        try:
            name, size = process.name(), process.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            continue
        found["driver" if "node" in name else "browser" if _of_browser(name) else "python"] += size
        found["processes"] += 1
    temp = sum(1 for _ in Path(os.environ.get("TMPDIR", "/nonexistent")).rglob("*"))
    found["total"] = found["python"] + found["driver"] + found["browser"]
    return {**found, "files": float(root.num_fds()), "temp": float(temp)}


def _of_browser(name: str) -> bool:
    return "chrom" in name or "headless_shell" in name


def browsers(pid: int) -> list[psutil.Process]:
    """The browsers below a process, without their own child processes and without a script that started one."""
    found = [(each, _starter(each)) for each in psutil.Process(pid).children(recursive=True)]
    starters = {starter for _, starter in found if starter is not None}
    return [each for each, starter in found if starter is not None and each.pid not in starters]


def _starter(process: psutil.Process) -> int | None:
    """The pid of the process that started a browser; None if it is no browser, or is gone."""
    try:
        if _of_browser(process.name()) and not any(part.startswith("--type=") for part in process.cmdline()):
            return int(process.ppid())
    except psutil.NoSuchProcess:
        pass
    return None


def remaining_processes(run: str) -> list[str]:
    """The processes of a run that still exist ENDING seconds after it: pid and command line."""
    until = time.monotonic() + ENDING
    while (found := list(_marked(run))) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _marked(run: str) -> Iterator[str]:
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == run:
                yield f"{process.pid} {' '.join(process.cmdline())[:120]}"
        except psutil.Error:
            continue
