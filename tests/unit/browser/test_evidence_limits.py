"""The limits of evidence grow with `--task-timeout-scale`, and what was not taken says which limit was over."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.browser import SessionRequest
from harness.browser.evidence import EvidenceCollector, late
from harness.browser.failures.scene import LOOK_SECONDS, OVERTIME
from harness.engine import result
from harness.model.settings import Settings
from harness.resilience import Deadline, SystemClock
from harness.values import replace
from tests.unit.browser.test_liveness import World
from tests.unit.fakes import FakeWorld, Theatre


def taken(tmp_path: Path, scale: float) -> tuple[str, str]:
    """The status and the reason of a file that needs 0.2 seconds and may take 0.05."""
    clock = SystemClock()

    async def make(path: Path) -> str:
        await asyncio.sleep(0.2)
        return ""

    scene = cast("Any", SimpleNamespace(clock=clock))
    nothing, until = cast("Any", None), Deadline.after(600, clock.now())
    request = SessionRequest("world", tmp_path, tmp_path, scale=scale)
    collector = EvidenceCollector(scene, nothing, tmp_path, until, nothing, request)
    asyncio.run(collector.file("x", 0.05, make))
    (item,) = collector.items
    return item.status, item.reason


def test_a_file_has_its_time_times_the_scale(tmp_path: Path) -> None:
    assert taken(tmp_path, 1.0) == ("missed", "no answer within 0.05 s")
    assert taken(tmp_path, 2000.0) == ("taken", "")
    assert late(0) == "the time for the evidence was over"


@pytest.mark.parametrize(("given", "scale"), [(3.0, 3.0), (0.2, 1.0)])
def test_a_session_knows_the_scale_which_never_cuts_evidence_short(given: float, scale: float) -> None:
    theatre = Theatre(settings=Settings(timeout_scale=given))
    assert SessionRequest.of(theatre.plan(), theatre.settings, Path()).scale == scale


def test_hints_have_their_time_times_the_scale() -> None:
    scene = World().scene(until=Deadline(0.0))
    assert scene.look == pytest.approx(OVERTIME)
    assert replace(scene, scale=3.0).look == pytest.approx(3 * OVERTIME)
    assert replace(scene, scale=3.0, until=Deadline(60.0)).look == pytest.approx(3 * LOOK_SECONDS)


def test_the_environment_has_its_time_times_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeWorld):
        async def snapshot(self) -> dict[str, Any]:
            await asyncio.sleep(0.2)
            return await super().snapshot()

    monkeypatch.setattr(result, "SNAPSHOT_LIMIT", 0.05)
    found: dict[float, Any] = {}
    for scale in (1.0, 100.0):
        theatre = Theatre(world=Slow(environment={"a": 1}), settings=Settings(timeout_scale=scale))
        steps = [{"act": "assert", "expr": "url() == 'x'"}]
        asyncio.run(theatre.play(steps=steps))
        found[scale] = theatre.archive.kept[0][3].environment
    assert found == {1.0: {"error": "the environment did not answer within 0.05 s"}, 100.0: {"env": {"a": 1}}}
