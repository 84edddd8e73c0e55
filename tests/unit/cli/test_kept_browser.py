"""What a keeper has written of itself, and what is ended and removed once it has gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness.cli.kept_browser import Keeper, start
from harness.services.identity import Identity
from harness.warm_offer import FOLDER, KEPT, OFFER, TEMP

LOG = Path("browser.log")
GONE = {"pid": 2**22 + 1, "birth": 1.0}


@pytest.fixture
def server() -> Iterator[Identity]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = Identity.of(process.pid)
        assert identity is not None
        yield identity
        process.kill()


def keeper(folder: Path, **said: Any) -> Keeper:
    (folder / KEPT).write_text(json.dumps({"keeper": GONE, "state": "ready", "why": "", **said}))
    return Keeper(folder)


def test_why_it_failed_is_told_when_the_keeper_has_ended(tmp_path: Path) -> None:
    assert keeper(tmp_path, state="failed", why="no display").line(LOG).startswith("browser: failed: no display (")
    assert keeper(tmp_path).line(LOG).startswith("browser: gone: its keeper ended (browser.log); `harness")


def test_what_is_left_is_ended_and_removed(tmp_path: Path, server: Identity) -> None:
    temp = Path(tempfile.mkdtemp(prefix=TEMP))
    left = keeper(tmp_path, server=asdict(server), temp=str(temp))
    (tmp_path / "traces-1").mkdir()
    for name in (OFFER, "taken-1.json", "launch.json", f"{OFFER}.77"):
        (tmp_path / name).touch()
    left.sweep()
    assert not server.alive
    assert not temp.exists()
    assert [path.name for path in tmp_path.iterdir()] == [KEPT]


@pytest.mark.parametrize("temp", ["", ".", "kept"])
def test_what_is_somebody_elses_stays(tmp_path: Path, server: Identity, temp: str) -> None:
    (tmp_path / "kept").mkdir()
    keeper(tmp_path, server={**asdict(server), "birth": 1.0}, temp=temp and str(tmp_path / temp)).sweep()
    assert server.alive
    assert (tmp_path / "kept").exists()


def test_one_that_a_run_has_is_that_runs(tmp_path: Path, server: Identity) -> None:
    assert keeper(tmp_path, server=asdict(server)).taken()
    assert not keeper(tmp_path, server=asdict(server), state="starting").taken()
    assert not keeper(tmp_path, server=GONE).taken()
    (tmp_path / OFFER).touch()
    assert not keeper(tmp_path, server=asdict(server)).taken()


@pytest.mark.parametrize("taken", [False, True])
def test_a_new_keeper_begins_where_nothing_is_left(
    tmp_path: Path, server: Identity, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.kept_browser.KEEPER", "this")
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    keeper(folder, server=asdict(server))
    if not taken:
        (folder / OFFER).touch()
    start(tmp_path, tmp_path / "log")
    assert server.alive is taken
    assert not (folder / OFFER).exists()


def test_what_it_says_of_itself_outlives_its_appointment(tmp_path: Path) -> None:
    me = Identity.of(os.getpid())
    assert me is not None
    it = Keeper(tmp_path)
    it.say("starting", server=me)
    it.appoint(me)
    assert it.server() == me
    it.appoint(Identity(1, 1.0))
    assert (it.identity(), it.server()) == (Identity(1, 1.0), None)
