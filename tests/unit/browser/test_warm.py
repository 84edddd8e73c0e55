"""Whether the browser that waits is taken."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.browser.certificate import ThrowAwayKey
from harness.browser.warm import Warm, wanted
from harness.settings import BrowserSettings
from harness.warm_offer import KEEPER, KEPT, OFFER, TEMP, Offer

PROGRAM = Path(sys.executable)
HOSTS = {"shop.local": 80}
ENVIRON = {"TZ": "UTC", "LC_ALL": "C", "HTTPS_PROXY": "http://p", "PATH": "/bin", "PYTEST_CURRENT_TEST": "x"}

DRIVER: Any = SimpleNamespace(playwright=SimpleNamespace(chromium=SimpleNamespace(executable_path="/nowhere")))


def offer(server: int, **changes: Any) -> Offer:
    settings = BrowserSettings(executable=str(PROGRAM))
    fits = {**wanted(settings, HOSTS, PROGRAM, os.environ), **changes}
    return Offer("ws://127.0.0.1:9/x", "--mark=1", "pem", {"shop.local": 9}, "traces", "", server, fits, "sandbox on")


def take(folder: Path, hosts: dict[str, int] = HOSTS) -> Warm:
    """One that must not get as far as a connection."""
    guarded: list[int] = []
    warm = Warm(BrowserSettings(executable=str(PROGRAM)), folder, guarded.append)

    def no_front(*_: Any) -> Any:
        raise AssertionError

    assert asyncio.run(warm.browser(DRIVER, hosts, no_front)) is None
    assert not guarded
    return warm


def test_only_what_chromium_reads_of_the_environment_counts() -> None:
    found = wanted(BrowserSettings(), {}, PROGRAM, ENVIRON)["environment"]
    assert found == {"TZ": "UTC", "LC_ALL": "C", "HTTPS_PROXY": "http://p"}


def test_where_none_is_kept_nothing_is_said(tmp_path: Path) -> None:
    assert take(tmp_path).refusal == ""


@pytest.mark.parametrize(
    ("state", "word", "why"),
    [
        ("ready", KEEPER, "another run has it"),
        ("starting", KEEPER, "it is just starting"),
        ("ready", "stranger", "what keeps it has ended"),
        ("failed", "stranger", "it did not start: no display"),
    ],
)
def test_where_one_is_kept_and_none_offered_it_is_said_why(tmp_path: Path, state: str, word: str, why: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()", word], stdin=subprocess.PIPE) as keeper:
        kept = {"keeper": {"pid": keeper.pid, "birth": 1.0}, "state": state, "why": "no display"}
        (tmp_path / KEPT).write_text(json.dumps(kept))
        assert take(tmp_path).refusal.endswith(f": {why}")


def test_another_one_in_the_moment_between_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()", "launch-server"], stdin=subprocess.PIPE) as server:
        found = iter([offer(server.pid), offer(server.pid, hosts="other")])
        monkeypatch.setattr(Offer, "read", lambda _: next(found))
        (tmp_path / OFFER).touch()
        assert "another one" in take(tmp_path).refusal
        assert server.wait(10) == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("temp", "left"), [(f"{TEMP}1", []), ("somebody-elses", ["somebody-elses"])])
def test_the_run_removes_what_the_one_it_took_has_left(tmp_path: Path, temp: str, left: list[str]) -> None:
    left_by = {name: str(tmp_path / folder) for name, folder in (("traces", "traces"), ("temp", temp))}
    for path in left_by.values():
        Path(path).mkdir()

    def no_port(*_: Any) -> Any:
        raise OSError

    with subprocess.Popen([sys.executable, "-c", "input()", "launch-server"], stdin=subprocess.PIPE) as server:
        replace(offer(server.pid), key=ThrowAwayKey.new().pem.decode(), **left_by).write(tmp_path)
        warm = Warm(BrowserSettings(executable=str(PROGRAM)), tmp_path, lambda _: None)
        assert asyncio.run(warm.browser(DRIVER, HOSTS, no_port)) is None
        assert "a port of its https is taken" in warm.refusal
        assert server.wait(10) == -signal.SIGKILL
    asyncio.run(warm.close())
    assert [path.name for path in tmp_path.iterdir()] == left


@pytest.mark.parametrize("changed", ["playwright", "executable", "args", "headed", "hosts", "environment"])
def test_one_that_differs_is_left_to_others(tmp_path: Path, changed: str) -> None:
    offer(os.getpid(), **{changed: "other"}).write(tmp_path)
    assert take(tmp_path).refusal.endswith(f"it differs in {changed}")
    assert (tmp_path / OFFER).exists()


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        offer(stranger.pid).write(tmp_path)
        assert take(tmp_path).refusal.endswith("it has ended")
        assert stranger.poll() is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_can_read_or_write_is_no_offer(tmp_path: Path, mode: int) -> None:
    offer(os.getpid()).write(tmp_path)
    assert (tmp_path / OFFER).stat().st_mode & 0o777 == 0o600
    assert Offer.read(tmp_path / OFFER) is not None
    (tmp_path / OFFER).chmod(mode)
    assert Offer.read(tmp_path / OFFER) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"url": 1, "more": 2}'])
def test_a_file_that_is_none_of_ours_is_no_offer(tmp_path: Path, text: str) -> None:
    (tmp_path / OFFER).write_text(text)
    (tmp_path / OFFER).chmod(0o600)
    assert Offer.read(tmp_path / OFFER) is None


def test_a_key_that_was_written_is_the_same_key() -> None:
    key = ThrowAwayKey.new()
    assert ThrowAwayKey.of(key.pem.decode()).spki == key.spki
