"""Start, reuse, strangers, failures at start, races, and what is left afterwards."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.environment.services import Services
from harness.recovery.failure import Failed, Failure
from harness.resilience import SystemClock
from tests.ports import listens
from tests.unit.environment.services.conftest import PROGRAM, alive, eventually, programs, settings

Make = Callable[..., Services]


def failure(services: Services) -> Failure:
    with pytest.raises(Failed) as caught:
        asyncio.run(services.start())
    return caught.value.failure


async def test_starts_and_stops_and_leaves_nothing(make: Make, port: int, tmp_path: Path) -> None:
    services = make(settings(port, "site", "family", environment={"FLAVOUR": "vanilla"}))
    assert services.hosts == {"shop.local": port}
    assert services.status() == (f"site: not started (shop.local:{port})",)
    await services.start()
    assert listens(port)
    assert re.fullmatch(rf"site: started, pid \d+ \(shop\.local:{port}\)", services.status()[0])
    await services.stop()
    log = (tmp_path / "logs" / "site.log").read_text()
    assert "line 29 of site in vanilla" in log
    grandchild = int(re.findall(r"child (\d+)", log)[0])
    assert not listens(port)
    assert programs(port) == []
    assert eventually(lambda: not alive(grandchild))


async def test_a_service_that_ignores_sigterm_is_killed_with_its_children(
    make: Make, port: int, tmp_path: Path
) -> None:
    services = make(settings(port, "site", "stubborn"))
    await services.start()
    await services.stop()
    grandchild = int(re.findall(r"child (\d+)", (tmp_path / "logs" / "site.log").read_text())[0])
    assert programs(port) == []
    assert eventually(lambda: not alive(grandchild))


def test_kill_needs_no_loop(make: Make, port: int) -> None:
    services = make(settings(port, "site", "stubborn"))
    asyncio.run(services.start())
    services.kill()
    assert eventually(lambda: not programs(port)), "killed at once, and gone as soon as the machine comes to it"
    services.kill()
    asyncio.run(services.stop())


def test_what_others_start_is_waited_for_and_left_alone(make: Make, port: int, run: Any) -> None:
    """A service without a command."""
    services = make(settings(port, command=None))

    async def main() -> None:
        starting = asyncio.create_task(services.start())
        await asyncio.sleep(0.2)
        assert not starting.done()
        running.append(run(str(PROGRAM), str(port), stdout=-3))
        await starting
        assert services.status() == (f"site: reused (shop.local:{port})",)
        assert services.kept_lines() == ()
        await services.stop()

    running: list[Any] = []
    asyncio.run(main())
    assert running[0].poll() is None
    assert listens(port)


def test_what_others_should_have_started_and_have_not(make: Make, port: int) -> None:
    found = failure(make(settings(port, command=None, ready_timeout=0.2)))
    assert found.message == (
        f"service `site` is started by others (it has no `command`), but on port {port}: nothing listens"
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("other",), "service is 'other' instead of 'site'"),
        (("site", "sick"), "it answers 503"),
        ((), "it answers as this service, but this project did not start it"),
    ],
)
def test_a_stranger_is_named(make: Make, port: int, run: Any, arguments: tuple[str, ...], problem: str) -> None:
    stranger = run(str(PROGRAM), str(port), *arguments, stdout=-3)
    assert eventually(lambda: listens(port))
    found = failure(make(settings(port, ready_timeout=1)))
    assert found.code == "SERVICE_DOWN"
    for part in ("`site`", str(port), f"pid {stranger.pid} (", "program.py", problem):
        assert part in found.message
    assert '`port = "auto"` in [tool.harness.services.site]' in found.advice
    assert stranger.poll() is None


def test_a_stranger_without_http_is_named(make: Make, port: int, run: Any) -> None:
    code = (
        "import socket, sys\n"
        "listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "while True:\n    client, _ = listener.accept(); client.sendall(b'220 mail ready\\r\\n'); client.close()\n"
    )
    stranger = run("-c", code, str(port))
    assert eventually(lambda: listens(port))
    found = failure(make(settings(port)))
    assert f"pid {stranger.pid} (" in found.message
    assert "does not answer in HTTP" in found.message


def test_a_listener_that_says_nothing_is_given_the_time_to_get_ready(make: Make, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        found = failure(make(settings(port, ready_timeout=0.6)))
    assert "no answer within 500 ms" in found.message
    assert str(port) in found.message


def test_a_crash_at_start_shows_the_end_of_the_log(make: Make, port: int) -> None:
    found = failure(make(settings(port, "site", "crash")))
    assert found.code == "SERVICE_DOWN"
    assert "ended at start with exit code 3" in found.message
    lines = found.message.splitlines()[1:]
    assert lines == [f"line {number} of site in plain" for number in range(10, 30)]


def test_a_command_that_does_not_exist(make: Make, port: int) -> None:
    found = failure(make(settings(port, command=("no-such-program-anywhere",))))
    assert "cannot start no-such-program-anywhere: No such file or directory" in found.message


@pytest.mark.parametrize(("mode", "problem"), [("unready", ""), ("sick", "it answers 503")])
@pytest.mark.sampled(1)
def test_not_ready_in_time(make: Make, port: int, mode: str, problem: str) -> None:
    found = failure(make(settings(port, "site", mode, ready_timeout=1.5)))
    assert "was not ready within 1.5 s" in found.message
    assert problem in found.message
    assert "line 29 of site" in found.message
    assert "raise `ready_timeout` in [tool.harness.services.site]" in found.hint
    assert programs(port) == []


def test_what_answers_otherwise_at_its_health_address_is_told_where_to_mend_it(make: Make, port: int) -> None:
    identity = {"service": "other"}
    found = failure(make(settings(port, "site", ready_timeout=1.5, identity=identity)))
    assert "Check that `health` in [tool.harness.services.site] is a URL that answers 200" in found.hint


def test_a_taken_second_port_is_named(make: Make, port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        second = listener.getsockname()[1]
        hosts = {"shop.local": port, "bank.local": second}
        found = failure(make(settings(port, "site", "crash", hosts=hosts)))
    assert re.search(rf"port {second} is taken by pid \d+", found.message)


def test_one_failure_stops_the_others(make: Make, port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = listener.getsockname()[1]
    bad = settings(other, "site", "crash", hosts={"bank.local": other}, health="http://bank.local/health")
    found = failure(make(settings(port), bad))
    assert "`other`" in found.message
    assert programs(port) == []
    assert not listens(port)


async def test_a_cancelled_start_leaves_nothing(make: Make, port: int) -> None:
    services = make(settings(port, "site", "unready"))
    task = asyncio.create_task(services.start())
    while not programs(port):
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert eventually(lambda: not programs(port))


async def test_two_harnesses_at_once_share_one_service(make: Make, port: int) -> None:
    quick, slow = make(settings(port)), make(settings(port, "site", "ok", "0.7"))
    await asyncio.gather(quick.start(), slow.start())
    states = sorted(line.split()[1].rstrip(",") for line in (*quick.status(), *slow.status()))
    assert states == ["reused", "started"]
    assert len([p for p in programs(port) if "watchdog.py" not in " ".join(p.cmdline())]) == 1
    loser = quick if "reused" in quick.status()[0] else slow
    await loser.stop()
    assert listens(port)
    await quick.stop()
    await slow.stop()
    assert not listens(port)


async def test_start_again_revives_what_has_ended(make: Make, port: int) -> None:
    services = make(settings(port))
    await services.start()
    first = services.status()
    await services.start()
    assert services.status() == first
    for process in programs(port):
        if "watchdog.py" not in " ".join(process.cmdline()):
            process.kill()
            assert await asyncio.to_thread(eventually, lambda pid=process.pid: not psutil.pid_exists(pid))
    await services.start()
    assert listens(port)
    assert services.status() != first
    await services.stop()


def test_no_services_is_fine() -> None:
    services = Services({}, root=Path(), logs=Path("logs"), clock=SystemClock())
    asyncio.run(services.start())
    assert services.hosts == {}
    assert services.status() == ()


def build(**each: Any) -> None:
    Services(each, root=Path(), logs=Path("logs"), clock=SystemClock())


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"host shop\.local is given twice"):
        build(one=settings(1), two=settings(2))
    with pytest.raises(ValueError, match="port 1 is given twice"):
        build(one=settings(1), two=settings(1, hosts={"bank.local": 1}, health="http://bank.local/"))
    with pytest.raises(ValueError, match=r"`one`: health 'http://x\.local/' must be an http:// URL of: shop\.local"):
        build(one=settings(1, health="http://x.local/"))
    with pytest.raises(ValueError, match="`one`: its command is empty"):
        build(one=settings(1, command=()))
