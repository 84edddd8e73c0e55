"""A site that is down is left alone, and comes back: with real tasks, sites and kills."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from harness.model.events import Event, StepStarted
from harness.model.record import TaskResult
from harness.recovery.failure import Failure
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.stream import Telemetry
from harness.resilience import SystemClock
from harness.resilience.events import CircuitChanged, InvariantBroken
from tests.acceptance.kills import Kills, write_project
from tests.browser.processes import words
from tests.conftest import FULL
from tests.ports import free_port, free_ports
from tests.unit.reporting.telemetry.stage import Kept

TASKS = 20
OUTAGE = 5
ON_A_DEAD_SITE = 12 if FULL else 4
SLOW = f"""
import os, pathlib, sys, time
starts = pathlib.Path("starts.txt")
again = starts.exists()
with starts.open("a") as file:
    file.write("x")
if again:
    time.sleep({OUTAGE})
os.execv(sys.executable, [sys.executable, "-m", "harness.demo", *sys.argv[1:]])
"""
"""The demo sites, which take their time when they are started again."""


def codes(result: TaskResult) -> list[str]:
    outcomes = [attempt.outcome for record in result.history for attempt in record.attempts]
    return [each.code for each in outcomes if isinstance(each, Failure)]


@pytest.mark.thorough
def test_a_site_that_dies_for_five_seconds_fails_none_of_twenty_tasks(tmp_path: Path, sites: dict[str, int]) -> None:
    write_project(tmp_path, dict(zip(sites, free_ports(len(sites)), strict=True)), own=True)
    (tmp_path / "slow.py").write_text(SLOW, "utf-8")
    file = tmp_path / "pyproject.toml"
    slow = (
        file.read_text("utf-8")
        .replace('"-m", "harness.demo"', '"slow.py"')
        .replace("\n[tool.harness.channels", f"ready_timeout = {OUTAGE + 15}\n\n[tool.harness.channels", 1)
    )
    file.write_text(slow, "utf-8")
    kept = Kept()
    stream = Telemetry("run", SystemClock(), Redactor((), ()), [kept])
    kills = Kills(tmp_path, stream.emit)
    shop = "http://shop.local/"
    spec = {
        "timeout": 120,
        "step_timeout": 30,
        "error_recovery": {"on_network_error": {"max_retries": 3, "retry_delay_ms": 1000}},
        "steps": [
            {"act": "open", "url": shop},
            {"act": "open", "url": f"{shop}search?q=mouse"},
            {"act": "open", "url": f"{shop}product/WM-5521"},
        ],
    }
    plans = [kills.plan(spec, f"T-{number}") for number in range(TASKS)]
    struck: list[float] = []

    def sink(event: Event) -> None:
        if isinstance(event, StepStarted) and event.index == 1 and not struck:
            struck.append(time.monotonic())
            _kill_the_sites()

    try:
        results = kills.together(*plans, sink=sink)
        recovered = time.monotonic() - struck[0]
    finally:
        kills.close()
    assert [result.failure for result in results] == [None] * TASKS
    assert (tmp_path / "starts.txt").read_text() == "xx"
    assert sum(bool(codes(result)) for result in results) >= 1
    assert OUTAGE <= recovered < 60
    calls = sum(code != "CIRCUIT_OPEN" for result in results for code in codes(result))
    assert calls < 3 * TASKS, "each alone would make four"
    told = kept.records
    assert [each for each in told if isinstance(each.event, InvariantBroken)] == []
    resets = [each for each in told if isinstance(each.event, CircuitChanged) and each.event.reason == "manual_reset"]
    assert {each.task_id for each in resets} <= {""}, "that a service is there again is no task's doing"


def _kill_the_sites() -> None:
    """Those of this test: the others live on."""
    for watchdog in psutil.Process().children():
        if "slow.py" in words(watchdog):
            for site in watchdog.children():
                site.kill()


class DeadSite:
    """Takes connections and breaks them off; how many there were."""

    def __init__(self) -> None:
        self.calls = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        await reader.read(1)
        writer.transport.abort()

    async def listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", port)


@pytest.mark.parametrize("enabled", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_dead_site_is_called_five_times_and_not_ten_times_by_each_task(tmp_path: Path, enabled: bool) -> None:
    port = free_port()
    (tmp_path / "pyproject.toml").write_text(f"[tool.harness.breaker]\nenabled = {str(enabled).lower()}\n", "utf-8")
    kills, site = Kills(tmp_path), DeadSite()
    spec = {
        "allowed_domains": [],
        "error_recovery": {"on_network_error": {"max_retries": 9, "retry_delay_ms": 0, "wait_for_circuit": False}},
        "steps": [{"act": "open", "url": f"http://127.0.0.1:{port}/"}],
    }
    with closing(kills), kills.serving(site.listen(port)):
        results = [kills.run(kills.plan(spec, f"T-{number}")) for number in range(ON_A_DEAD_SITE)]
    assert not any(result.ok for result in results)
    calls = sum(code != "CIRCUIT_OPEN" for result in results for code in codes(result))
    assert calls == (5 if enabled else 10 * ON_A_DEAD_SITE)
    assert site.calls <= (10 if enabled else 40 * ON_A_DEAD_SITE)
