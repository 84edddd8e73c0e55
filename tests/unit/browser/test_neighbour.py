"""Whether a Playwright server is a program of this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.browser.endpoints import serves_here

LISTEN = """
import socket
with socket.create_server(("127.0.0.1", 0)) as held:
    print(held.getsockname()[1], flush=True)
    input()
"""


@contextmanager
def program(*words: str) -> Iterator[int]:
    """The port on which it listens; `words` stand in its command line."""
    command = [sys.executable, "-c", LISTEN, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        yield int(it.stdout.readline())
        it.kill()


def test_a_server_is_known_by_its_port() -> None:
    with program("run-server") as port, program("run-server"):
        assert serves_here(port)
        assert not serves_here(1)


def test_what_only_passes_on_to_one_is_none() -> None:
    with program("docker-proxy") as port:
        assert not serves_here(port)


def test_one_in_a_container_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.browser.endpoints.Path.samefile", lambda *_: False)
    with program("run-server") as port:
        assert not serves_here(port)
