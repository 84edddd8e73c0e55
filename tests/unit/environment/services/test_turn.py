"""Many processes find at the same moment that nothing runs: one of them starts it, and only that one says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.environment import service as turn
from harness.environment.ownership import Ownership, ServiceState, read_held
from harness.environment.service import Diagnosis, StartAttempt
from harness.environment.services import Services
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from tests.ports import listens
from tests.unit.environment.services.conftest import PROGRAM, comes, settings, sites

Make = Callable[..., Services]

RACER = """
import asyncio, json, sys
from pathlib import Path
from harness.resilience import SystemClock
from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings

program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
# It binds late, and then serves beside the other: two that are started are both there to be seen.
site = ServiceSettings(command=("{python}", program, str(port), "site", "ok", "0.2"), hosts={"shop.local": port},
                       health="http://shop.local/health", ready_timeout=20)

async def main():
    services = Services({"site": site}, root=folder, logs=folder / "logs", clock=SystemClock(), kept=True)
    for line in sys.stdin:
        if line == "start\\n":
            await services.start()
        else:
            await services.stop()
        print(len(services.started), flush=True)

asyncio.run(main())
"""


def test_of_two_processes_at_once_one_starts_it_and_tells(port: int, tmp_path: Path, run: Any) -> None:
    arguments = ("-c", RACER, str(PROGRAM), str(port), str(tmp_path))
    racers = [run(*arguments, stdin=-1, stdout=-1, cwd=Path(__file__).parents[4]) for _ in range(2)]
    file = tmp_path / "logs" / "site.owner.json"

    def order(line: str) -> list[int]:
        for racer in racers:
            racer.stdin.write(f"{line}\n".encode())
            racer.stdin.flush()
        return [int(racer.stdout.readline()) for racer in racers]

    for count in range(1, 4):
        started = order("start")
        assert sorted(started) == [0, 1]
        held = read_held(file)
        assert held is not None
        assert held.owner.pid == racers[started.index(1)].pid
        assert len(sites(port)) == 1
        begun = (tmp_path / "logs" / "site.log").read_text("utf-8").count("line 0 of site")
        assert begun == count, "no other was begun"
        order("stop")
        assert sites(port) == []
        assert not listens(port)
        assert not list((tmp_path / "logs").glob("*.json*"))


async def test_who_was_outrun_at_the_port_tells_nothing_of_what_answers(
    make: Make, port: int, tmp_path: Path, run: Any
) -> None:
    """Somebody who does not look at the lock was faster: it is named, and not used."""
    services = make(settings(port, "site", "outrun"), kept=True)
    file = tmp_path / "logs" / "site.owner.json"
    starting = asyncio.create_task(services.start())
    assert await comes(file.exists)
    faster = run(str(PROGRAM), str(port), stdout=-3)
    with pytest.raises(Failed, match=rf"cannot use port {port}, which is taken by pid {faster.pid} "):
        await starting
    assert not file.exists()
    others = Ownership(file)
    others.record({"state": ServiceState.UP, "since": "", "restarts": 0}, None, {}, None)
    await services.stop()
    assert file.exists(), "what another says is not withdrawn"


def new_turn(folder: Path) -> tuple[StartAttempt, Ownership]:
    ownership = Ownership(folder / "site.owner.json")
    diagnosis = Diagnosis("site", {"shop.local": 1}, 1, folder / "site.log")
    return StartAttempt(ownership.other_owner, folder / "site.lock", diagnosis, SystemClock()), ownership


async def never() -> None:
    raise AssertionError("it was started a second time")


async def nothing() -> None:
    """It starts."""


def test_who_comes_second_sees_what_the_first_has_told(tmp_path: Path) -> None:
    (first, said), (second, _) = new_turn(tmp_path), new_turn(tmp_path)
    begun = list[str]()

    async def begin() -> None:
        said.record({"state": ServiceState.BOOTING, "since": "", "restarts": 0}, None, {}, None)
        begun.append("first")

    async def main() -> None:
        assert await first.take(begin)
        assert not await second.take(never)

    asyncio.run(main())
    assert begun == ["first"]


async def test_a_lock_that_is_never_let_go_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "LOCKED", 0.1)
    (mine, _), (other, _) = new_turn(tmp_path), new_turn(tmp_path)
    holding, let_go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with turn.start_lock(tmp_path / "site.lock", SystemClock()):
            holding.set()
            await let_go.wait()

    holder = asyncio.create_task(hold())
    await holding.wait()
    with pytest.raises(Failed, match=r"cannot be started: another process has held .*site\.lock for 0\.1 s"):
        await mine.take(never)
    let_go.set()
    await holder
    assert await other.take(nothing)
