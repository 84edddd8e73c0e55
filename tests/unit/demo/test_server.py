"""The process: listeners, ready line, stop, taken ports."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.demo.server import PortTakenError, bind

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "harness.demo")


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """Start the sites, yield the process and the ports it announced."""
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout
            yield process, json.loads(process.stdout.readline())["hosts"]
        finally:
            process.kill()


def test_every_host_has_its_own_listener() -> None:
    with running("--port", "0") as (process, ports):
        assert len(set(ports.values())) == len(ports) == 10
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['world.local']}/health") as answer:
            health = json.load(answer)
        assert (health["pid"], health["hosts"]) == (process.pid, ports)
        shop = urllib.request.Request(f"http://127.0.0.1:{ports['shop.local']}/", headers={"Host": "bank.local"})
        with urllib.request.urlopen(shop) as answer:
            assert "Shop Local" in answer.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_although_connections_are_open(number: signal.Signals) -> None:
    with running("--port", "0") as (process, ports):
        address = ("127.0.0.1", ports["shop.local"])
        with socket.create_connection(address), socket.create_connection(address) as half:
            half.sendall(b"POST /cart/items HTTP/1.1\r\nHost: shop.local\r\nContent-Length: 9\r\n\r\nsku")
            process.send_signal(number)
            assert process.wait(timeout=5) == 0


def test_a_taken_port_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run([*COMMAND, "--port", str(port)], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"harness.demo: cannot listen on 127.0.0.1:{port} for world.local: Address already in use\n"
    assert ended.stdout == ""


def test_an_unusable_state_file_is_told_in_one_line(tmp_path: Path) -> None:
    command = [*COMMAND, "--port", "0", "--state", str(tmp_path / "no" / "such.db")]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("harness.demo: cannot use ")
    assert ended.stderr.count("\n") == 1


def test_a_refused_bind_leaves_no_listener_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[socket.socket] = []
    create = socket.create_server

    def recorded(*address: Any, **more: Any) -> socket.socket:
        bound.append(create(*address, **more))
        return bound[-1]

    with create(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(socket, "create_server", recorded)
        with pytest.raises(PortTakenError, match=r"shop\.local"):
            bind({"world.local": 0, "shop.local": taken.getsockname()[1]})
    assert [listener.fileno() for listener in bound] == [-1]
