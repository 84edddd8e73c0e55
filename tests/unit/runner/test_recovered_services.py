"""Circuits of a service that is there again close, whichever process has started it; and that is no task's doing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.environment.services import Services
from harness.model.settings import Settings
from harness.recovery.failure import Failure
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.stream import Telemetry, in_task
from harness.resilience.breaker import CircuitState
from harness.resilience.events import CircuitChanged, Emit, ServiceChanged
from harness.runner.harness import Harness
from tests.unit.environment.services.conftest import settings
from tests.unit.fakes import FakeClock
from tests.unit.reporting import sample
from tests.unit.reporting.telemetry.stage import Kept

PLAIN = cast("Any", SimpleNamespace(faults=(), spec=SimpleNamespace(expect=None)))


class Told(Services):
    """Services of which a test says what becomes of them; none of them is started."""

    def __init__(self, *args: Any, emit: Emit, **options: Any) -> None:
        super().__init__(*args, emit=emit, **options)
        self.emit = emit

    async def begin(self, slots: int = 1) -> list[Failure]:
        """They are as they are."""
        return []


@pytest.mark.parametrize(
    ("before", "started", "state"),
    [
        ("restarting", True, CircuitState.CLOSED),
        ("down", True, CircuitState.CLOSED),
        ("booting", True, CircuitState.CLOSED),
        ("unhealthy", True, CircuitState.OPEN),
        ("down", False, CircuitState.OPEN),
    ],
)
def test_circuits_close_when_their_service_was_gone_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, started: bool, state: CircuitState
) -> None:
    """A worker of xdist sees what its controller restarts go `down` and come `up`. At the start nothing was gone."""
    monkeypatch.setattr("harness.runner.shared_services.Services", Told)
    kept = Kept()
    stream = Telemetry("run", FakeClock(), Redactor((), ()), [kept])

    async def main() -> CircuitState:
        harness = Harness(Settings(root=tmp_path, services={"site": settings(9)}), "run", stream.emit)
        if started:
            await harness.start()
        breaker = harness.circuits.of(PLAIN)("http://shop.local/cart")
        assert breaker is not None
        for _ in range(5):
            breaker.admit().failed("gone")
        with in_task(sample.plan(task_id="T-1")):
            cast("Told", harness.services).emit(ServiceChanged("site", before, "up", "already_running"))
        await harness.close()
        return breaker.state

    assert asyncio.run(main()) is state
    told = kept.records
    resets = [each for each in told if isinstance(each.event, CircuitChanged) and each.event.reason == "manual_reset"]
    assert [each.task_id for each in resets] == [""] * (state is CircuitState.CLOSED)
    assert told[-1].event == ServiceChanged("site", before, "up", "already_running")
