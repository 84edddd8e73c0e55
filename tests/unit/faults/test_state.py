"""Memory, environment and databases: struck, and put back."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.environment.channels import Channels
from harness.environment.memory import MemoryStore
from harness.environment.world import TaskWorld
from harness.faults.state import StateTarget
from harness.model.channel_settings import ChannelSettings
from harness.model.plan import Plan
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed
from harness.spec.faults import Fault
from tests.unit.fakes import FakeClock, Theatre

FAULT: TypeAdapter[Any] = TypeAdapter(Fault)


class Stage:
    """A real world over a file channel."""

    def __init__(self, root: Path) -> None:
        (root / "env.json").write_text('{"shop": {"stock": 3, "lines": [1, 2]}}', "utf-8")
        clock, plan = FakeClock(), Theatre().plan()
        assert isinstance(plan, Plan)
        channels = Channels({"env": ChannelSettings(file="env.json")}, hosts={}, root=root)
        self.world = TaskWorld(plan, MemoryStore(), channels, clock)
        self.hands = StateTarget(self.world, root, lambda name: root / name)
        self.met = 0

    async def strike(self, **fault: Any) -> Undo | None:
        def met() -> None:
            self.met += 1

        return await self.hands.strike(Injection(FAULT.validate_python(fault), Random(0), met, lambda _: False))

    async def stock(self) -> Any:
        return (await self.world.channel("env"))["shop"].get("stock")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_an_environment_value_is_altered_and_put_back(stage: Stage) -> None:
    heal = await stage.strike(kind="environment_altered", path="shop.stock", value=0, seconds=1)
    assert (await stage.stock(), stage.met) == (0, 1)
    assert heal is not None
    await heal()
    assert await stage.stock() == 3


async def test_what_the_task_has_written_meanwhile_is_not_undone(stage: Stage) -> None:
    heal = await stage.strike(kind="environment_altered", path="shop.stock", value=0)
    await stage.world.merge("env", "shop.stock", 2)
    assert heal is not None
    await heal()
    assert await stage.stock() == 2


async def test_a_place_that_was_not_there_is_null_again(stage: Stage) -> None:
    heal = await stage.strike(kind="environment_altered", path="shop.sold.today", value={"count": 1})
    assert (await stage.world.channel("env"))["shop"]["sold"] == {"today": {"count": 1}}
    assert heal is not None
    await heal()
    assert (await stage.world.channel("env"))["shop"]["sold"] == {"today": None}


@pytest.mark.parametrize(
    ("path", "words"),
    [("shop.lines.*", "names 2 places"), ("shop..stock", "is not a path"), ("shop[0]", "cannot write")],
)
def test_a_path_that_does_not_fit(stage: Stage, path: str, words: str) -> None:
    with pytest.raises(Failed, match=words) as caught:
        asyncio.run(stage.strike(kind="environment_altered", path=path, value=0))
    assert caught.value.failure.code == "INVALID_INPUT"
    assert stage.met == 0


async def test_memory_is_altered_and_put_back_as_it_was(stage: Stage) -> None:
    stage.world.remember("order", "O-1", "T-1#3")
    before = stage.world.entries()
    heal = await stage.strike(kind="memory_altered", key="order", value="O-2", seconds=1)
    fresh = await stage.strike(kind="memory_altered", key="new", value=[1])
    assert stage.world.memory() == {"order": "O-2", "new": [1]}
    assert stage.world.entries()["order"]["source"] == "fault"
    stage.world.remember("other", 1, "T-1#4")
    assert heal is not None
    assert fresh is not None
    await heal()
    await fresh()
    other = stage.world.entries().pop("other")
    assert stage.world.entries() == {**before, "other": other}
    assert stage.met == 2


async def test_an_entry_that_the_task_has_written_meanwhile_stays(stage: Stage) -> None:
    stage.world.remember("order", "O-1", "T-1#3")
    heal = await stage.strike(kind="memory_altered", key="order", value="O-2")
    stage.world.remember("order", "O-3", "T-1#5")
    assert heal is not None
    await heal()
    assert stage.world.memory() == {"order": "O-3"}


async def test_a_late_value_and_what_stands_meanwhile(stage: Stage) -> None:
    late = {"kind": "delayed_state", "path": "shop.stock", "value": 9}
    heal = await stage.strike(**late, meanwhile=1, seconds=3)
    assert await stage.stock() == 1
    assert heal is not None
    await heal()
    assert await stage.stock() == 9
    assert await stage.strike(**{**late, "value": 7}, seconds=0) is None
    assert await stage.stock() == 7
    assert stage.met == 2


def test_a_channel_that_is_not_there(stage: Stage) -> None:
    with pytest.raises(Failed, match="no channel `nowhere`"):
        asyncio.run(stage.strike(kind="environment_altered", channel="nowhere", path="a", value=0))
    assert stage.met == 0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    (tmp_path / "data").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "shop.db", timeout=0)) as connection:
        connection.execute("CREATE TABLE orders (id)")
        connection.commit()
        yield connection


@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_a_database_is_locked_for_everybody_else(stage: Stage, database: sqlite3.Connection, mode: str) -> None:
    database.execute(f"PRAGMA journal_mode = {mode}")
    heal = await stage.strike(kind="database_locked", path="data/shop.db", seconds=1)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        database.execute("INSERT INTO orders VALUES (1)")
    if mode == "delete":
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            database.execute("SELECT * FROM orders").fetchall()
    assert heal is not None
    await heal()
    database.execute("INSERT INTO orders VALUES (1)")
    assert stage.met == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nothing.db", "there is no such file"),
        ("data", "there is no such file"),
        ("../outside.db", "leads out of the project's folder"),
        ("data/../../outside.db", "leads out of the project's folder"),
        ("/etc/hosts", "leads out of the project's folder"),
        ("link.db", "leads out of the project's folder"),
        ("notes.txt", "cannot be locked: file is not a database"),
        ("a\0b", "embedded null"),
    ],
)
def test_a_file_that_cannot_be_locked(
    stage: Stage, database: sqlite3.Connection, tmp_path: Path, path: str, words: str
) -> None:
    outside = tmp_path.parent / "outside.db"
    sqlite3.connect(outside).close()
    outside.touch()
    (tmp_path / "link.db").symlink_to(outside)
    (tmp_path / "notes.txt").write_text("no database, but long enough to look at" * 10)
    with pytest.raises(Failed, match=words) as caught:
        asyncio.run(stage.strike(kind="database_locked", path=path, seconds=1))
    assert caught.value.failure.code == "INVALID_INPUT"
    assert stage.met == 0


def test_a_database_that_others_keep_locked(
    stage: Stage, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.faults.state.PATIENCE", 0.1)
    database.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Failed, match="database is locked"):
        asyncio.run(stage.strike(kind="database_locked", path="data/shop.db", seconds=1))


async def test_a_late_value_that_is_there_already_is_null_until_it_arrives(stage: Stage) -> None:
    arrive = await stage.strike(kind="delayed_state", path="shop.stock", value=3, seconds=1)
    assert await stage.stock() is None
    assert arrive is not None
    await arrive()
    assert await stage.stock() == 3
    await stage.strike(kind="delayed_state", path="shop.stock", value=4, seconds=1)
    assert await stage.stock() == 3


async def test_a_place_is_looked_for(stage: Stage) -> None:
    def late(path: str) -> Any:
        return FAULT.validate_python({"kind": "delayed_state", "path": path, "value": 1, "seconds": 1})

    found = [await stage.hands.has(late(path)) for path in ("shop.stock", "shop.lines[1]", "shop.sold", "shop..x")]
    assert found == [True, True, False, True]  # the strike says what is wrong with the last one
