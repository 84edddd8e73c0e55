"""The file of circuits: kept, recognized, refused, shared by processes, and no burden when it cannot be used."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from harness.resilience.breaker import BreakerSettings, CircuitOpen, CircuitSnapshot, CircuitState
from harness.resilience.circuit_store import KIND, CircuitStore, CircuitStoreError, open_file
from harness.resilience.circuits import SharedBreaker
from harness.resilience.clock import SystemClock
from tests.unit.fakes import START, FakeClock
from tests.unit.resilience.callers import NAME, lines, note

ROOT = Path(__file__).parents[3]
AT = START.timestamp()
OPENED = CircuitSnapshot(CircuitState.OPEN, 5, 0, 9, "it's down", AT - 3.25, None, 7, "consecutive_failures_5", AT)
PROBED = CircuitSnapshot(CircuitState.HALF_OPEN, 6, 1, 10, "", AT - 40, AT + 20.5, 9, "reset_timeout_elapsed", AT)


class Store(CircuitStore):
    """Closed with its test."""

    made: ClassVar[list[CircuitStore]] = []

    def __init__(self, path: Path, clock: FakeClock | SystemClock | None = None, **given: object) -> None:
        super().__init__(path, clock or FakeClock(), **given)  # type: ignore[arg-type]
        self.made.append(self)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while Store.made:
        Store.made.pop().close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "circuits.sqlite3"


@contextlib.contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def keep(store: CircuitStore, name: str, circuit: CircuitSnapshot) -> None:
    with store.exclusive() as held:
        assert held
        store.save(name, circuit)


# Kept ----------------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded_by_anybody(path: Path) -> None:
    store = Store(path)
    keep(store, NAME, OPENED)
    keep(store, "agent:builder", PROBED)
    for each in (store, Store(path)):
        assert (each.load(NAME), each.load("agent:builder"), each.load("agent:x")) == (OPENED, PROBED, None)
        assert each.names() == ("agent:builder", NAME)
    keep(store, NAME, PROBED)
    assert Store(path).load(NAME) == PROBED


def test_what_is_raised_inside_undoes_what_was_saved_inside(path: Path) -> None:
    store = Store(path)
    with pytest.raises(KeyError), store.exclusive():
        store.save(NAME, OPENED)
        raise KeyError
    assert store.load(NAME) is None
    keep(store, NAME, OPENED)


def test_a_circuit_that_nobody_used_for_a_week_is_forgotten(path: Path) -> None:
    keep(Store(path), NAME, OPENED)
    clock = FakeClock()
    clock.time = 7 * 86400
    assert Store(path, clock).names() == (NAME,)
    clock.time += 1
    assert Store(path, clock).names() == ()


def test_the_file_says_what_it_is(path: Path) -> None:
    Store(path)
    with database(path) as plain:
        found = [
            plain.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version", "journal_mode")
        ]
    assert found == [KIND.application, KIND.schema, "wal"]


def test_a_closed_store_is_opened_again_when_it_is_used(path: Path) -> None:
    store = Store(path)
    keep(store, NAME, OPENED)
    store.close()
    store.close()
    assert store.load(NAME) == OPENED


# Refused -------------------------------------------------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(b"circuits: {}\n" * 1000)


def damaged(path: Path) -> None:
    store = CircuitStore(path, FakeClock())
    for number in range(400):
        keep(store, f"agent:{number:04}", OPENED)
    store.close()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"\xff" * 4096 + content[len(content) // 2 + 4096 :])


def cut_off(path: Path) -> None:
    CircuitStore(path, FakeClock()).close()
    path.write_bytes(path.read_bytes()[:5000])


def of_something_else(path: Path) -> None:
    with database(path) as plain:
        plain.execute("CREATE TABLE memory (world TEXT)")


def numbered_by_something_else(path: Path) -> None:
    with database(path) as plain:
        plain.execute("PRAGMA user_version = 1")


def newer(path: Path) -> None:
    CircuitStore(path, FakeClock()).close()
    with database(path) as plain:
        plain.execute("PRAGMA user_version = 3")


@pytest.mark.parametrize(
    ("spoil", "found", "remedy"),
    [
        (garbage, "file is not a database", "Name another file"),
        (damaged, "it is damaged", "only the memory of open circuits is lost"),
        (cut_off, "malformed|damaged", "only the memory of open circuits is lost"),
        (of_something_else, "it is a database of something else", "Name another file for the circuits$"),
        (numbered_by_something_else, "it is a database of something else", "Name another file for the circuits$"),
        (newer, "it has schema 3 and this version of the program knows 2", "Use the version that wrote it"),
        (Path.mkdir, "unable to open database file", "Name another file"),
    ],
)
def test_a_file_that_is_no_store_is_refused_with_its_name_and_a_remedy(
    spoil: Callable[[Path], None], found: str, remedy: str, path: Path
) -> None:
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(CircuitStoreError, match=f"(?s)circuits.sqlite3: expected a store.*({found}).*{remedy}"):
        CircuitStore(path, FakeClock())
    assert (path.read_bytes() if path.is_file() else b"") == before, "it is left as it was"


def test_an_empty_file_is_a_new_store(path: Path) -> None:
    path.touch()
    keep(Store(path), NAME, OPENED)
    assert Store(path).names() == (NAME,)


def test_who_comes_while_another_makes_the_file_waits_for_it(path: Path) -> None:
    """SQLite itself does not wait for the change of mode."""
    with database(path) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        opened = pool.submit(open_file, path, 30.0, START)
        with pytest.raises(FutureTimeout):
            opened.result(0.2)
        other.execute("ROLLBACK")
        opened.result(30).close()


# In use, and spoilt or locked ----------------------------------------------------------------------------------------


def breaker(store: CircuitStore, clock: FakeClock | SystemClock, **settings: float) -> SharedBreaker:
    return SharedBreaker(NAME, BreakerSettings(**settings), clock, lambda _: None, store)  # type: ignore[arg-type]


@contextlib.contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    with database(path) as other:
        if how == "for_good":
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        if how == "for_good":
            other.execute("UPDATE circuits SET failures = failures")
        yield
        other.execute("ROLLBACK")


@pytest.mark.parametrize("how", ["to_write", "for_good"])
def test_a_lock_of_somebody_else_holds_nobody_up_and_is_said_once(how: str, path: Path) -> None:
    CircuitStore(path, FakeClock()).close()
    with locked(path, how):
        said: list[str] = []
        clock = FakeClock()
        started = time.monotonic()
        store = Store(path, clock, say=said.append)
        mine = breaker(store, clock)
        took = [time.monotonic() - started]
        for _ in range(5):
            clock.time += 1
            started = time.monotonic()
            mine.admit().failed("down")
            took.append(time.monotonic() - started)
        assert max(took) < 5
        assert min(took) < 1
        assert mine.state is CircuitState.OPEN, "it goes on with what it knows"
        started = time.monotonic()
        for _ in range(100):
            mine.reset()
        assert time.monotonic() - started < 10, "not everybody pays for the lock"
    assert len(said) == 1
    assert f"{path}: another process holds its lock; going on with what this process knows" in said[0]
    clock.time += 1
    mine.admit().failed("down")
    kept = Store(path).load(NAME)
    assert kept
    assert (kept.failures, kept.reason) == (1, "manual_reset"), "and shares again when it can"


def test_a_probe_is_held_back_for_a_moment_and_then_made_alone(path: Path) -> None:
    clock = FakeClock()
    mine = breaker(Store(path, clock, say=lambda _: None), clock, failure_threshold=1)
    mine.admit().failed("down")
    clock.time += 30
    with locked(path, "to_write"):
        for _ in range(4):
            with pytest.raises(CircuitOpen, match=r"tried again in 0\.5 s"):
                mine.admit()
            clock.time += 0.5
        mine.admit().succeeded()
    assert [t.reason for t in mine.history] == ["consecutive_failures_1", "reset_timeout_elapsed"]


def test_a_row_that_says_nonsense_is_said_and_done_without(path: Path) -> None:
    clock, said = FakeClock(), list[str]()
    store = Store(path, clock, say=said.append)
    keep(store, NAME, OPENED)
    with database(path) as plain:
        plain.execute("UPDATE circuits SET state = 'ajar'")
    assert breaker(store, clock).state is CircuitState.CLOSED
    assert len(said) == 1
    assert "'ajar' is not a valid " in said[0]


# Between processes ---------------------------------------------------------------------------------------------------


def start(what: str, path: Path, log: Path, *numbers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.unit.resilience.callers", what, str(path), str(log), *map(str, numbers)]
    return subprocess.Popen(command, cwd=ROOT)


def until(log: Path, line: str, times: int) -> None:
    end = time.monotonic() + 50
    while lines(log).count(line) < times:
        assert time.monotonic() < end, f"{times} times {line!r}: {lines(log)}"
        time.sleep(0.01)


class Later(SystemClock):
    """The machine's clock, and some seconds on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.ahead)


def opened_a_minute_ago(path: Path) -> None:
    clock = Later()
    clock.ahead = -60
    mine = breaker(Store(path, clock), clock)
    for _ in range(5):
        mine.admit().failed("down")
    assert mine.state is CircuitState.OPEN


def test_of_fifty_callers_in_three_processes_exactly_one_goes_through(path: Path, tmp_path: Path) -> None:
    opened_a_minute_ago(path)
    log = tmp_path / "log"
    processes = [start("callers", path, log, count, 50) for count in (17, 17, 16)]
    until(log, "ready", 3)
    note(log, "go")
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (lines(log).count("through"), lines(log).count("refused")) == (1, 49)
    kept = Store(path).load(NAME)
    assert kept
    assert (kept.state, kept.successes, kept.probe_until) == (CircuitState.HALF_OPEN, 1, None)


def test_a_prober_that_is_killed_does_not_block_for_ever(path: Path, tmp_path: Path) -> None:
    opened_a_minute_ago(path)
    log = tmp_path / "log"
    prober = start("hang", path, log)
    until(log, "probing", 1)
    prober.kill()
    prober.wait(10)
    clock = Later()
    mine = breaker(Store(path, clock), clock)
    assert 20 < mine.rests_for() <= 60, "its place is kept for probe_seconds"
    clock.ahead = 60
    mine.admit().succeeded()
    mine.admit().succeeded()
    assert mine.state is CircuitState.CLOSED


def test_processes_that_write_at_once_lose_nothing(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [start("fail", path, log, 100) for _ in range(3)]
    until(log, "ready", 3)
    note(log, "go")
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    store = Store(path)
    kept = [store.load(name) for name in store.names()]
    assert sorted(each.failures for each in kept if each) == [100, 100, 100, 300]
