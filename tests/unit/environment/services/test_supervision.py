"""A service that dies is started again by its owner, until it is permanent; deaths on purpose do not count."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.environment.services import Services
from harness.recovery.failure import Failed
from tests.unit.environment.services.conftest import (
    PROGRAM,
    comes,
    eventually,
    listens,
    play,
    programs,
    reborn,
    settings,
    site,
    sites,
)

Make = Callable[..., Services]


def test_what_dies_is_started_again_twice_and_then_no_more(make: Make, port: int, tmp_path: Path) -> None:
    services = make(settings(port))

    async def main() -> None:
        for _ in range(2):
            pid = site(port).pid
            os.kill(pid, signal.SIGKILL)
            assert await reborn(port, pid)
            await services.await_ready()
        site(port).kill()
        with pytest.raises(Failed) as caught:
            await asyncio.wait_for(ready_until_it_fails(services), 20)
        failure = caught.value.failure
        assert failure.code == "SERVICE_DOWN"
        first, *log = failure.message.splitlines()
        assert "`site` is permanently_failed: it crashed 3 times within 5 minutes and is not started again" in first
        assert re.search("ended (at start )?with exit code 137", first)
        assert f"The end of {tmp_path / 'logs' / 'site.log'}:" in first
        assert log
        assert programs(port) == []

    play(services, main)
    log = (tmp_path / "logs" / "site.log").read_text("utf-8")
    assert [line for line in log.splitlines() if line.startswith("[harness]")] == [
        "[harness] crash 1 of 3: started again",
        "[harness] crash 2 of 3: started again",
        "[harness] crash 3 of 3: permanently_failed",
    ]
    assert not (tmp_path / "logs" / "site.owner.json").exists()


async def ready_until_it_fails(services: Services) -> None:
    while True:
        await services.await_ready()
        await asyncio.sleep(0.05)


def test_a_start_by_order_forgets_the_crashes(make: Make, port: int) -> None:
    services = make(settings(port))

    async def main() -> None:
        for _ in range(3):
            pid = site(port).pid
            os.kill(pid, signal.SIGKILL)
            assert await comes(lambda pid=pid: not psutil.pid_exists(pid) or not listens(port))
            await services.start()
            assert listens(port)
        pid = site(port).pid
        site(port).kill()
        assert await reborn(port, pid)

    play(services, main)


@pytest.mark.parametrize("orderly", [False, True])
def test_deaths_on_purpose_do_not_count(make: Make, port: int, tmp_path: Path, orderly: bool) -> None:
    services = make(settings(port))

    async def main() -> None:
        for _ in range(4):
            pid = site(port).pid
            await services.end("site", orderly=orderly)
            assert not listens(port)
            assert await reborn(port, pid)

    play(services, main)
    assert (tmp_path / "logs" / "site.log").read_text("utf-8").count("[harness] ended on purpose: started again") == 4


@pytest.mark.thorough
def test_what_ignores_sigterm_is_killed_with_its_children(make: Make, port: int, tmp_path: Path) -> None:
    services = make(settings(port, "site", "stubborn"))

    async def main() -> None:
        pid = site(port).pid
        await services.end("site", orderly=True)
        assert await reborn(port, pid)

    play(services, main)


def test_a_stranger_on_the_port_is_no_crash(make: Make, port: int) -> None:
    services = make(settings(port))

    async def main() -> None:
        await services.end("site", orderly=False)
        with socket.create_server(("127.0.0.1", port)) as stranger:
            stranger.settimeout(20)
            for _ in range(8):  # as many looks of the supervision, each answered with nonsense
                client, _ = await asyncio.to_thread(stranger.accept)
                client.sendall(b"220 no site\r\n")
                client.close()
        assert await comes(lambda: programs(port) and listens(port))
        await services.await_ready()

    play(services, main)


def test_what_others_have_started_is_not_ended(make: Make, port: int, run: Any) -> None:
    running = run(str(PROGRAM), str(port), stdout=-3)
    assert eventually(lambda: listens(port))
    services = make(settings(port, command=None))

    async def main() -> None:
        with pytest.raises(Failed) as caught:
            await services.end("site", orderly=False)
        assert caught.value.failure.code == "INVALID_INPUT"
        assert f"this run did not start it: it is pid {running.pid} (" in caught.value.failure.message

    play(services, main)
    assert running.poll() is None
    assert listens(port)


def test_another_harness_of_this_process_may_end_it(make: Make, port: int) -> None:
    owner, other = make(settings(port)), make(settings(port))

    async def main() -> None:
        await other.start()
        assert "reused" in other.status()[0]
        pid = site(port).pid
        await other.end("site", orderly=False)
        assert await reborn(port, pid)

    play(owner, main)


def test_an_unknown_name(make: Make, port: int) -> None:
    services = make(settings(port))
    assert services.ports("site") == (port,)
    with pytest.raises(Failed, match=r"no service `shop` .* known services: site"):
        services.ports("shop")
    with pytest.raises(Failed, match="no service `shop`"):
        asyncio.run(services.end("shop", orderly=True))


async def test_kill_ends_the_supervision_too(make: Make, port: int) -> None:
    services = make(settings(port))
    await services.start()
    await asyncio.to_thread(services.kill)
    await asyncio.sleep(0.5)
    assert programs(port) == []


WORKER = """
import asyncio, sys
from pathlib import Path
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings

program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
site = ServiceSettings(command=("{python}", program, str(port)), hosts={"shop.local": port},
                       health="http://shop.local/health", ready_timeout=20)
services = Services({"site": site}, root=folder, logs=folder / "logs", clock=SystemClock())

async def main():
    await services.start()
    print(services.status()[0].split()[1], flush=True)
    for line in sys.stdin:
        try:
            if line == "kill\\n":
                await services.end("site", orderly=False)
            await services.await_ready()
            print("up", flush=True)
        except Failed as failed:
            print(failed.failure.code, failed.failure.message.splitlines()[0], flush=True)
    await services.stop()

asyncio.run(main())
"""


def test_a_worker_ends_what_its_controller_keeps_and_hears_of_its_permanent_failure(
    make: Make, port: int, tmp_path: Path, run: Any
) -> None:
    services = make(settings(port))
    arguments = ("-c", WORKER, str(PROGRAM), str(port), str(tmp_path))

    async def main() -> None:
        worker = run(*arguments, stdin=-1, stdout=-1, cwd=Path(__file__).parents[4])

        async def ask(line: bytes) -> bytes:
            worker.stdin.write(line)
            worker.stdin.flush()
            answer: bytes = await asyncio.to_thread(worker.stdout.readline)
            return answer

        assert await asyncio.to_thread(worker.stdout.readline) == b"reused\n"
        for _ in range(4):
            pid = site(port).pid
            assert await ask(b"kill\n") == b"up\n"
            assert site(port).pid != pid
        for _ in range(2):
            site(port).kill()
            assert await comes(lambda: not listens(port))
            assert await ask(b"look\n") == b"up\n"
        site(port).kill()
        assert await comes(lambda: not listens(port))
        assert (await ask(b"look\n")).startswith(b"SERVICE_DOWN service `site` is permanently_failed")
        late = run(*arguments, stdin=-1, stdout=-1, stderr=-1, cwd=Path(__file__).parents[4])
        assert await asyncio.to_thread(late.wait) == 1  # it starts none of its own
        assert "permanently_failed" in late.stderr.read().decode()
        late.stderr.close()
        assert sites(port) == []

    play(services, main)
