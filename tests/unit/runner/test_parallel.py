"""Tasks that run ahead: what becomes of their output and their outcome when their turn comes."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.runner import parallel
from harness.runner.loop import LoopThread
from harness.runner.parallel import BrokenTask, ParallelRunner, Ran, keep
from harness.runner.schedule import Job
from harness.runner.sync import SyncHarness


def test_output_that_cannot_be_said_takes_no_outcome_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `print("\\ud83d")` with `--capture=sys`."""
    said: list[str] = []
    result = SimpleNamespace(failure=None)

    def broken() -> None:
        "\ud83d".encode()

    async def play(plan: Any, *_: Any) -> Any:
        if plan.spec == "B":
            for say in (partial(said.append, "before"), broken, partial(said.append, "after")):
                assert keep(say)
            spoken.set()
        return result

    loop, stderr, spoken = LoopThread(), io.StringIO(), threading.Event()
    monkeypatch.setattr(parallel, "ended_as_declared", lambda _spec, _result: True)
    monkeypatch.setattr(sys, "stderr", stderr)
    tasks = ParallelRunner(cast("SyncHarness", SimpleNamespace(begin=loop.begin, play=play, slots=None)), 2)
    tasks.add((Job(name), partial(cast("Any", SimpleNamespace), spec=name)) for name in "AB")
    tasks.run("A", lambda _event: None)
    assert spoken.wait(30)
    assert cast("Any", tasks.run("B", lambda _event: None).result) is result
    assert said == ["before", "after"]
    assert stderr.getvalue().startswith("taskspec: some output of this task is missing here: UnicodeEncodeError: ")
    assert stderr.getvalue().isascii()
    loop.close()


def test_one_that_breaks_off_takes_nothing_of_the_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is over; of three that ran ahead, one has met a defect of ours."""
    result = SimpleNamespace(failure=None)

    begun = threading.Semaphore(0)

    async def play(plan: Any, *_: Any) -> Any:
        begun.release()
        if plan.spec == "C":
            raise NotADirectoryError("errors/.kept is a file")
        return result

    loop = LoopThread()
    monkeypatch.setattr(parallel, "ended_as_declared", lambda _spec, _result: True)
    tasks = ParallelRunner(cast("SyncHarness", SimpleNamespace(begin=loop.begin, play=play, slots=None)), 4)
    tasks.add((Job(name), partial(cast("Any", SimpleNamespace), spec=name)) for name in "ABCD")
    tasks.run("A", lambda _event: None)
    assert all(begun.acquire(timeout=30) for _ in "ABCD")
    loop.call(asyncio.sleep(0))  # what has begun has ended by then
    left = tasks.stop()
    assert [each.plan.spec for each in left if isinstance(each, Ran)] == ["B", "D"]
    assert [(each.name, str(each.error)) for each in left if isinstance(each, BrokenTask)] == [
        ("C", "errors/.kept is a file")
    ]
    loop.close()
