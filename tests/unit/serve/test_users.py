"""The last user of a server that was started in the background ends it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from harness.resilience.owner import Owner
from harness.serve.address import ADDRESS, ServeAddress, keep_address
from harness.serve.users import STARTED, ServerUse, is_used
from harness.values import replace


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServeAddress]:
    """A process whose address is that of the project's server."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    own = keep_address(tmp_path, "127.0.0.1", 1, secure=False)
    owner = Owner.of(process.pid)
    assert owner is not None
    address = replace(own, owner=owner)
    (tmp_path / ADDRESS).write_bytes(msgspec.json.encode(address))
    yield address
    process.kill()
    process.wait()


def runs(address: ServeAddress) -> bool:
    try:
        psutil.Process(address.pid).wait(0.5)
    except psutil.TimeoutExpired:
        return True
    return False


def test_the_last_one_ends_the_server_that_one_of_them_started(tmp_path: Path, server: ServeAddress) -> None:
    first, second = ServerUse(tmp_path), ServerUse(tmp_path)
    first.started(server)
    assert first.leave() is None
    assert runs(server)
    assert second.leave() == server.pid
    assert not runs(server)


def test_a_server_that_a_person_started_stays(tmp_path: Path, server: ServeAddress) -> None:
    assert ServerUse(tmp_path).leave() is None
    assert runs(server)


def test_a_server_stays_if_one_of_its_users_wants_that(tmp_path: Path, server: ServeAddress) -> None:
    first, second = ServerUse(tmp_path), ServerUse(tmp_path)
    first.started(server)
    second.persist()
    assert (first.leave(), second.leave()) == (None, None)
    assert runs(server)


def test_a_server_finds_out_by_itself_that_nobody_uses_it(tmp_path: Path) -> None:
    assert not is_used(tmp_path), "nobody has used it yet"
    first, second = ServerUse(tmp_path), ServerUse(tmp_path)
    assert is_used(tmp_path)
    first.leave()
    assert is_used(tmp_path)
    second.leave()
    assert not is_used(tmp_path)
    ServerUse(tmp_path).persist()
    assert is_used(tmp_path)
    assert not is_used(tmp_path / "gone")


@pytest.mark.parametrize("content", ["", "{", '{"pid": 1, "started": 0.0, "host": "127.0.0.1", "port": 1}'])
def test_a_file_that_names_another_server_ends_none(tmp_path: Path, server: ServeAddress, content: str) -> None:
    (tmp_path / STARTED).write_text(content, "utf-8")
    assert ServerUse(tmp_path).leave() is None
    assert runs(server)
