"""The contestants that are programs of their own: the harness and pytest-playwright under pytest, raw Playwright."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.ground import Ground, their_project
from benchmarks.playing import OURS, THEIRS, PytestRun, play, pytest
from benchmarks.raw import Order
from benchmarks.steps import rotate
from benchmarks.workload import Job, as_json

TWO = ("-n", "2")
PEER = "pytest-playwright -n 2"
Run = Callable[[], PytestRun]


def ours(ground: Ground, project: Path, arguments: Sequence[str]) -> Run:
    """The harness on a project of its own (`our_project`)."""
    executable = ("--task-browser-executable", str(ground.executable))
    return lambda: pytest(project, "tasks", "-q", *OURS, *executable, *arguments)


def peer(ground: Ground, work: Sequence[Job]) -> Run:
    """pytest-playwright in two processes, which keeps of failures what the harness keeps."""
    folder = their_project(ground, work)
    recording = ("--tracing", "retain-on-failure", "--screenshot", "only-on-failure")
    return lambda: pytest(folder, "tests", "-q", *THEIRS, *TWO, *recording)


def raw(ground: Ground, work: Sequence[Job], at_once: int) -> Run:
    """Raw async Playwright, so many tasks at once."""
    folder = ground.folder("raw")
    order = asdict(Order((), at_once, str(ground.executable), ground.args, ground.agent))
    (folder / "order.json").write_text(json.dumps({**order, "work": as_json(work)}), "utf-8")
    return lambda: play(("-m", "benchmarks.raw", "order.json"), folder)


def fault(played: PytestRun, **wanted: int) -> str:
    """The error in a run that should have ended with so many tests of each outcome; empty: none."""
    if played.outcomes == {name: count for name, count in wanted.items() if count}:
        return ""
    return f"ended as {played.outcomes or 'nothing'}, not {wanted}: {played.output[-300:]}"


def in_turns(runs: Mapping[str, Run], rounds: int) -> dict[str, list[PytestRun]]:
    """Run all of them in every round; the first one changes."""
    played: dict[str, list[PytestRun]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in rotate(list(runs), number):
            played[name].append(runs[name]())
    return played
