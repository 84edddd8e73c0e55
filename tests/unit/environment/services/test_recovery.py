"""Many tasks notice that a site is gone, one restart comes of it; what has failed for good is told at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from harness.environment.ownership import Ownership, read_held
from harness.environment.services import Services
from harness.recovery.failure import Failed, Failure, suspect_of
from harness.resilience.events import ResilienceEvent, ServiceChanged
from harness.resilience.owner import Owner
from harness.values import replace
from tests.unit.environment.services.conftest import (
    comes,
    listens,
    play,
    programs,
    settings,
    site,
    sites,
)

Make = Callable[..., Services]


def starts(logs: Path) -> int:
    """How often the program was started, as its log shows."""
    return (logs / "site.log").read_text("utf-8").count("line 0 of site")


def test_twenty_callers_one_restart(make: Make, port: int, tmp_path: Path) -> None:
    events: list[ResilienceEvent] = []
    services = make(settings(port), emit=events.append)

    async def main() -> None:
        os.kill(site(port).pid, signal.SIGKILL)
        assert await comes(lambda: not listens(port))
        callers = [services.recover("site") if number % 2 else services.await_ready() for number in range(20)]
        await asyncio.gather(*callers)
        assert listens(port)
        assert len(sites(port)) == 1

    play(services, main)
    assert starts(tmp_path / "logs") == 2
    assert [each.after for each in events if isinstance(each, ServiceChanged)].count("restarting") == 1


def test_a_caller_that_is_cancelled_does_not_take_the_restart_with_it(make: Make, port: int) -> None:
    services = make(settings(port, environment={"READY_AFTER": "0.5"}))

    async def main() -> None:
        os.kill(site(port).pid, signal.SIGKILL)
        assert await comes(lambda: not listens(port))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(services.recover("site"), 0.2)
        await services.recover("site")
        assert services.states == {"site": "up"}

    play(services, main)


def test_what_has_failed_for_good_fails_its_tasks_at_once(make: Make, port: int, tmp_path: Path) -> None:
    services = make(settings(port))

    def crashes() -> int:
        return (tmp_path / "logs" / "site.log").read_text("utf-8").count("[harness] crash")

    async def main() -> None:
        for count in range(1, 4):
            # The crash is logged a moment before the state changes; the loop must be free to start the next program.
            assert await comes(lambda: sites(port))
            os.kill(site(port).pid, signal.SIGKILL)
            state = "permanently_failed" if count == 3 else "up"
            assert await comes(lambda state=state, count=count: services.states["site"] == state and crashes() == count)
        begun = time.monotonic()
        found = await asyncio.gather(
            *(each for _ in range(10) for each in (services.await_ready(), services.recover("site"))),
            return_exceptions=True,
        )
        seconds = time.monotonic() - begun
        assert all(isinstance(each, Failed) and "permanently_failed" in each.failure.message for each in found)
        assert seconds < 5, "twenty tasks learn it at once"
        assert await comes(lambda: not programs(port))

    play(services, main)


async def test_stopping_ends_a_recovery(make: Make, port: int) -> None:
    services = make(settings(port, environment={"READY_AFTER": "15"}, ready_timeout=20))
    starting = asyncio.create_task(services.recover("site"))
    assert await comes(lambda: sites(port))
    await services.stop()
    with pytest.raises(Failed, match="is being stopped"):
        await starting
    assert programs(port) == []


def test_what_was_reused_and_is_nobodys_is_started_here(make: Make, port: int) -> None:
    kept = make(settings(port), kept=True)
    asyncio.run(kept.start())
    events: list[ResilienceEvent] = []
    services = make(settings(port), emit=events.append)

    async def main() -> None:
        kept.kill()
        assert await comes(lambda: not listens(port)), "its watchdog ends the program a moment later"
        await asyncio.gather(*(services.await_ready() for _ in range(5)))
        assert services.started == ("site",)
        assert len(sites(port)) == 1

    play(services, main)
    changes = [each.after for each in events if isinstance(each, ServiceChanged)]
    assert changes == ["up", "down", "booting", "up", "stopped"]


def test_what_was_reused_and_cannot_be_started_fails_for_good_the_third_time(make: Make, port: int) -> None:
    kept = make(settings(port), kept=True)
    asyncio.run(kept.start())
    services = make(settings(port, "site", "crash"))

    async def main() -> None:
        kept.kill()
        for _ in range(2):
            with pytest.raises(Failed, match="ended at start with exit code 3"):
                await services.recover("site")
        with pytest.raises(Failed, match="permanently_failed") as down:
            await services.recover("site")
        assert suspect_of(down.value.failure) == "project", "it never ran here"

    play(services, main)


def test_what_another_run_keeps_is_left_to_it(make: Make, port: int, tmp_path: Path) -> None:
    owner, other = make(settings(port)), make(settings(port))

    async def main() -> None:
        await other.start()
        os.kill(site(port).pid, signal.SIGKILL)
        assert await comes(lambda: not listens(port))
        await asyncio.gather(*(other.await_ready() for _ in range(5)))
        assert other.started == ()
        assert owner.started == ("site",)

    play(owner, main)
    assert starts(tmp_path / "logs") == 2


def test_what_the_dead_have_written_means_nothing(make: Make, port: int, tmp_path: Path, run: Any) -> None:
    """A file of an owner that was killed, whose pid somebody else has now."""
    stranger = run("-c", "import time; time.sleep(60)")
    who = Owner.of(stranger.pid)
    assert who is not None
    assert who.alive
    file = tmp_path / "logs" / "site.owner.json"
    file.parent.mkdir()
    text = (
        '{"state": "up", "since": "", "restarts": 0, "persisted": true, "failure": null, "program": null, '
        '"ports": {"shop.local": 1}, "owner": %s}'
    )
    file.write_text(text % json.dumps(asdict(who)))
    assert Ownership(file).other_owner() is not None
    file.write_text(text % json.dumps(asdict(replace(who, birth=who.birth - 1))))
    assert Ownership(file).other_owner() is None
    services = make(settings(port), kept=True)

    async def main() -> None:
        assert services.started == ("site",)

    play(services, main)
    assert not file.exists()
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    assert not who.alive


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '{"owner": 1}', '{"state": "odd"}'])
def test_a_file_that_says_nothing_is_no_owner(tmp_path: Path, text: str) -> None:
    file = tmp_path / "site.owner.json"
    file.write_text(text)
    assert read_held(file) is None
    Ownership(file).withdraw()
    assert file.exists()


def test_a_circuit_that_is_open_does_not_hide_that_the_service_is_down_for_good(
    make: Make, port: int, tmp_path: Path
) -> None:
    services = make(settings(port))

    async def main() -> None:
        for count in range(1, 4):
            os.kill(site(port).pid, signal.SIGKILL)
            state, crash = ("permanently_failed" if count == 3 else "up"), f"crash {count} of 3"
            log = tmp_path / "logs" / "site.log"
            assert await comes(lambda crash=crash, log=log: crash in log.read_text("utf-8"))
            assert await comes(lambda state=state: services.states["site"] == state)
        details = {"url": f"http://{next(iter(services.hosts))}/", "circuit": {"state": "open"}}
        told = services.explain(Failure("CIRCUIT_OPEN", "nothing was sent", details=details))
        assert (told.code, told.details["circuit"]) == ("SERVICE_DOWN", {"state": "open"})

    play(services, main)


def test_a_host_that_is_nearly_one_of_ours_was_misspelt(make: Make, port: int) -> None:
    services = make(settings(port))
    (host,) = services.hosts
    for name, advised in ((f"{host[0]}{host}", True), ("quite-another.example", False)):
        told = services.explain(Failure("NET_DNS", "no such host", details={"url": f"http://{name}/"}))
        assert (f"Did you mean `{host}`?" in told.hint) is advised
        assert told.code == "NET_DNS"
