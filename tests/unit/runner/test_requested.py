"""Runs that agents ask a server for, when the server ends in the middle."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.bridge.session import BridgeLimits, BridgeSession
from harness.bridge.turns import Desk
from harness.reporting.history.reading import recent_runs
from harness.reporting.telemetry.sinks import begun_stream
from harness.reporting.telemetry.stream import Telemetry
from harness.resilience import SystemClock
from harness.runner import requested
from harness.runner.requested import KeptRun, RequestedRuns


def test_a_server_that_ends_while_a_run_is_written_down_leaves_no_run_that_goes_on_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "t.task.yaml").write_text("task_id: T\ngoal: g\n", "utf-8")
    begins, may_go_on, begun, begin = threading.Event(), threading.Event(), threading.Event(), KeptRun.begin

    def slow(kept: KeptRun) -> str:
        begins.set()
        may_go_on.wait(10)
        try:
            return begin(kept)
        finally:
            begun.set()

    monkeypatch.setattr(KeptRun, "begin", slow)

    async def main() -> None:
        runs = RequestedRuns(tmp_path, 1)
        hub = SimpleNamespace(desk=Desk(()), sessions={})
        runs.serve(cast("Any", SimpleNamespace(hub=hub, redactors=[])))
        await runs.start(BridgeSession(SystemClock(), BridgeLimits()), "T")
        await asyncio.to_thread(begins.wait, 10)
        asyncio.get_running_loop().call_later(0.1, may_go_on.set)
        await runs.close()

    asyncio.run(main())
    may_go_on.set()
    assert begun.wait(10)
    assert recent_runs(tmp_path) == ()  # nothing was done in it


def test_an_output_that_fails_is_said_with_the_end_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "t.task.yaml").write_text("task_id: T\ngoal: g\n", "utf-8")
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness" / "events").write_text("in the way", "utf-8")
    said: list[str] = []
    streams: list[Telemetry] = []

    def begun(*given: Any) -> Telemetry:
        streams.append(begun_stream(*given))
        return streams[0]

    monkeypatch.setattr(requested, "begun_stream", begun)

    async def main() -> None:
        runs = RequestedRuns(tmp_path, 1, said.append)
        hub = SimpleNamespace(desk=Desk(()), sessions={})
        runs.serve(cast("Any", SimpleNamespace(hub=hub, redactors=[])))
        await runs.start(BridgeSession(SystemClock(), BridgeLimits()), "T")
        async with asyncio.timeout(20):
            while not streams or not streams[0].problems:
                await asyncio.sleep(0.01)
        await runs.close()

    asyncio.run(main())
    (line,) = [each for each in said if each.startswith("output failed: ")]
    assert line.startswith("output failed: events.jsonl: ")
