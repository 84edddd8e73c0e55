"""One task's world: initial memory, the world's clock, snapshots."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.environment.channels import Channels
from harness.environment.memory import MemoryStore
from harness.environment.world import TaskWorld
from harness.model.channel_settings import ChannelSettings
from harness.model.plan import Plan
from harness.model.ports import World
from harness.recovery.failure import Failed
from tests.unit.environment.world.conftest import EnvironmentServer

START = datetime(2025, 11, 16, 9, tzinfo=UTC)
WALL = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class StillClock:
    time: float = 0.0

    def now(self) -> float:
        return self.time

    def wall(self) -> datetime:
        return WALL + timedelta(seconds=self.time)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class Stage:
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: StillClock = field(default_factory=StillClock)
    settings: dict[str, ChannelSettings] = field(default_factory=dict)
    port: int = 0
    memory_channel: str | None = None
    put_back: bool = True

    def play(self, act: Callable[[TaskWorld], Awaitable[Any]], **plan: Any) -> Any:
        spec = SimpleNamespace(episode_id=plan.pop("episode_id", None), memory=plan.pop("memory", {}))
        given = cast("Plan", SimpleNamespace(**{"spec": spec, "world": "w1", "start": None, "fresh": True, **plan}))

        async def main() -> Any:
            channels = Channels(self.settings, hosts={"world.local": self.port}, root=Path())
            made = TaskWorld(given, self.store, channels, self.clock, self.memory_channel, put_back=self.put_back)
            world: World = made
            try:
                await world.begin()
                return await act(made)
            finally:
                await channels.close()

        return asyncio.run(main())


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.store.close()


@pytest.fixture
def served(stage: Stage, environment: EnvironmentServer) -> Stage:
    stage.port = environment.server_port
    stage.settings = {
        "env": ChannelSettings(url="http://world.local/env", clock="world.now"),
        "lost": ChannelSettings(file="there/is/none.json"),
    }
    return stage


async def memory(world: TaskWorld) -> Any:
    return dict(world.memory())


def test_memory_is_flat_and_entries_are_whole(stage: Stage) -> None:
    async def act(world: TaskWorld) -> None:
        stage.clock.time += 23
        world.remember("orders.last.id", "O-1", "B1-2025-001")
        assert world.memory() == {"user": {"name": "Ada"}, "orders.last.id": "O-1"}
        entries = world.entries()
        assert entries["user"]["source"] == "initial"
        assert entries["orders.last.id"] == {
            "key": "orders.last.id",
            "value": "O-1",
            "ts": "2025-11-16T09:00:23Z",
            "source": "B1-2025-001",
            "confidence": 1.0,
        }

    stage.play(act, memory={"user": {"name": "Ada"}}, start=START)


def test_without_a_time_entries_bear_the_time_of_day(stage: Stage) -> None:
    async def act(world: TaskWorld) -> Any:
        return world.entries()["a"]["ts"]

    assert stage.play(act, memory={"a": 1}) == "2030-01-01T00:00:00Z"


def test_a_task_of_its_own_starts_anew(stage: Stage) -> None:
    async def act(world: TaskWorld) -> None:
        world.remember("a", 2, "t")
        world.remember("b", 2, "t")

    stage.play(act, memory={"a": 1})
    assert stage.play(memory, memory={"a": 1}) == {"a": 1}


def test_an_episode_goes_on_where_it_was(stage: Stage) -> None:
    async def act(world: TaskWorld) -> None:
        world.remember("a", 2, "t")

    stage.play(act, memory={"a": 1}, episode_id="E")
    assert stage.play(memory, memory={"a": 1, "b": 1}, episode_id="E") == {"a": 2, "b": 1}


def test_a_task_in_the_middle_of_another_one_adds_what_is_not_known(stage: Stage) -> None:
    async def act(world: TaskWorld) -> None:
        world.remember("a", 2, "outer")

    stage.play(act, memory={"a": 1})
    assert stage.play(memory, memory={"a": 1, "b": 1}, fresh=False) == {"a": 2, "b": 1}


def test_begin_sets_the_clock_of_the_environment(served: Stage, environment: EnvironmentServer) -> None:
    async def act(world: TaskWorld) -> Any:
        return await world.channel("env")

    assert served.play(act, start=START)["world"] == {"now": "2025-11-16T09:00:00Z"}
    assert list(environment.worlds) == ["w1"]
    environment.worlds.clear()
    assert served.play(act)["world"] == {"now": ""}


def test_merge_and_snapshot(served: Stage) -> None:
    async def act(world: TaskWorld) -> Any:
        await world.merge("env", "cart.a", 5)
        return await world.snapshot()

    snapshot = served.play(act)
    assert snapshot["env"]["cart"] == {"a": 5, "b": 2}
    assert list(snapshot) == ["env", "lost"]
    assert "cannot be read: No such file" in snapshot["lost"]["error"]


def test_unknown_and_unreachable_channels_raise(served: Stage, environment: EnvironmentServer) -> None:
    async def unknown(world: TaskWorld) -> Any:
        return await world.channel("nope")

    with pytest.raises(Failed, match="known channels: env, lost"):
        served.play(unknown)
    environment.broken = (500, b"")
    with pytest.raises(Failed, match="answered 500"):
        served.play(unknown, start=START)


def at_the_site(stage: Stage, tmp_path: Path, document: dict[str, Any], *, readonly: bool = False) -> Path:
    """The memory is kept by the system under test, in a file; the file."""
    file = tmp_path / "memory.json"
    file.write_text(json.dumps(document), "utf-8")
    stage.settings = {"kv": ChannelSettings(file=str(file), readonly=readonly)}
    stage.memory_channel = "kv"
    return file


def test_memory_is_read_and_written_where_the_system_under_test_keeps_it(stage: Stage, tmp_path: Path) -> None:
    entry = {"key": "b", "value": 2, "ts": "2025-01-01T00:00:00Z", "source": "site", "confidence": 0.5}
    file = at_the_site(stage, tmp_path, {"orders.last[0].id": "O-1", "b": entry})

    async def act(world: TaskWorld) -> None:
        assert world.memory() == {"orders.last[0].id": "O-1", "b": 2, "a.b": 1}
        assert world.entries()["b"] == entry
        world.remember("c[0]", {"x": 1}, "T#1")
        await world.synchronize()
        document = json.loads(file.read_text("utf-8"))
        assert document == {"orders.last[0].id": "O-1", "b": entry, "a.b": 1, "c[0]": {"x": 1}}
        file.write_text(json.dumps({**document, "b": 3}), "utf-8")
        await world.synchronize()
        assert world.memory()["b"] == 3

    stage.play(act, memory={"a.b": 1})


def test_what_a_task_remembers_stays_its_own_beside_a_memory_that_is_only_read(stage: Stage, tmp_path: Path) -> None:
    file = at_the_site(stage, tmp_path, {"a": 1, "b": 2}, readonly=True)

    async def act(world: TaskWorld) -> None:
        world.remember("b", 5, "T#1")
        await world.synchronize()
        assert world.memory() == {"a": 1, "b": 5}

    stage.play(act)
    assert json.loads(file.read_text("utf-8")) == {"a": 1, "b": 2}


def test_going_back_puts_the_memory_back_where_it_is_kept(stage: Stage, tmp_path: Path) -> None:
    file = at_the_site(stage, tmp_path, {"a": 1})

    async def act(world: TaskWorld) -> None:
        kept = await world.save()
        world.remember("a", 2, "T#1")
        await world.synchronize()
        assert await world.restore(kept) == ()
        assert world.memory() == {"a": 1}

    stage.play(act)
    assert json.loads(file.read_text("utf-8")) == {"a": 1}


def test_a_memory_that_is_no_object_is_refused(stage: Stage, tmp_path: Path) -> None:
    at_the_site(stage, tmp_path, {})
    (tmp_path / "memory.json").write_text("[1]", "utf-8")
    with pytest.raises(Failed, match="not an object of key -> value"):
        stage.play(memory)
