"""What the first task needs is started before it: once, without an error of its own, and it ends with the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.browser import SessionRequest
from harness.model.settings import Settings
from harness.recovery.failure import Failed, Failure
from harness.runner.harness import Harness
from harness.spec.task import TaskSpec
from tests.unit.environment.services.conftest import settings

STEPS = [{"act": "wait", "value": 0}]
FAULT = {"kind": "page_crash", "step": 0}


class Starting:
    """A harness whose services and browsers are not started, and what was asked of them."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Failure | None = None, **more: Any
    ) -> None:
        self.services = 0
        self.browsers: list[SessionRequest | None] = []
        self.error = error
        self.slow = asyncio.Event()
        self.slow.set()
        self.cancelled = False
        self.harness = Harness(Settings(root=folder, services={"site": settings(9)}, **more), "run")
        monkeypatch.setattr(self.harness.services, "begin", self.begin)
        monkeypatch.setattr(self.harness.browsers, "prepare", self.prepare)

    async def begin(self) -> list[Failure]:
        self.services += 1
        try:
            await self.slow.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return [self.error] if self.error else []

    async def prepare(self, request: SessionRequest | None) -> None:
        self.browsers.append(request)


def spec(**fields: Any) -> TaskSpec:
    return TaskSpec.model_validate({"task_id": "T-1", "goal": "g", "steps": STEPS, **fields})


@pytest.mark.parametrize(("fields", "begun"), [({}, 2), ({"faults": [FAULT]}, 1)])
def test_services_driver_and_browser_are_started_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], begun: int
) -> None:
    """A task with faults has other hosts, and so perhaps a browser of its own."""

    async def main() -> Starting:
        it = Starting(tmp_path, monkeypatch)
        await it.harness.prepare(spec(**fields))
        await it.harness.start()
        await it.harness.prepare(spec())  # all is there
        await asyncio.sleep(0.01)
        await it.harness.close()
        return it

    it = asyncio.run(main())
    assert it.services == 1
    assert [request and dict(request.hosts) for request in it.browsers] == [None, {"shop.local": 9}][:begun]


def test_a_fault_plan_may_give_the_task_another_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> Starting:
        it = Starting(tmp_path, monkeypatch, faults=(tmp_path / "a.faults.yaml",))
        await it.harness.prepare(spec())
        await it.harness.start()
        await asyncio.sleep(0.01)
        await it.harness.close()
        return it

    assert asyncio.run(main()).browsers == [None]


def test_a_service_that_does_not_start_ends_only_what_may_need_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> Starting:
        it = Starting(tmp_path, monkeypatch, Failure("SERVICE_DOWN", "it is gone"))
        await it.harness.prepare(spec())
        with pytest.raises(Failed, match="it is gone"):
            await it.harness.start_all()
        assert not await it.harness.start()
        await asyncio.sleep(0.01)
        await it.harness.close()
        return it

    it = asyncio.run(main())
    assert it.services == 1
    assert len(it.browsers) == 2, "the tasks that do not need it begin"


def test_a_run_that_ends_first_stops_what_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> Starting:
        it = Starting(tmp_path, monkeypatch)
        it.slow.clear()
        await it.harness.prepare(spec())
        await asyncio.sleep(0.01)
        await it.harness.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return it

    assert asyncio.run(main()).cancelled
