"""A world is saved, changed, put back, and compared."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.environment.channels import Channels
from harness.environment.memory import MemoryStore
from harness.environment.world import TaskWorld
from harness.model.channel_settings import ChannelSettings
from harness.model.plan import Plan
from harness.model.ports import World, WorldCheckpoint
from harness.recovery.failure import Failed
from tests.unit.conftest import examples
from tests.unit.environment.world.conftest import EnvironmentServer
from tests.unit.environment.world.test_memory import JSON
from tests.unit.environment.world.test_task_world import START, Stage

PYTHON = """
DOCUMENTS = {}

def read(world):
    return DOCUMENTS.setdefault(world, {"items": [1, 2]})

def put(world, document):
    DOCUMENTS[world] = document

async def later(world, document):
    DOCUMENTS[world] = document

def broken(world, document):
    raise TimeoutError("the database is busy")

def slow(world, document):
    import threading
    threading.Event().wait(1)

class Table:
    read = staticmethod(read)
    write = staticmethod(put)
"""
HTTP = ChannelSettings(url="http://world.local/env")
Act = Callable[[TaskWorld], Awaitable[Any]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tables_under_test.py").write_text(PYTHON)
    (tmp_path / "state.json").write_text('{"stock": {"A": 1}}')
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "tables_under_test", raising=False)
    return tmp_path


def python(restore: str | None = None, name: str = "read", **more: Any) -> ChannelSettings:
    target = f"tables_under_test:{restore}" if restore else None
    return ChannelSettings(python=f"tables_under_test:{name}", restore=target, **more)


def file(project: Path, **more: Any) -> ChannelSettings:
    return ChannelSettings(file=str(project / "state.json"), **more)


def play(channels: dict[str, ChannelSettings], act: Act, port: int = 0, *, put_back: bool = True, **plan: Any) -> Any:
    stage = Stage(settings=channels, port=port, put_back=put_back)
    try:
        return stage.play(act, **plan)
    finally:
        stage.store.close()


async def saved(world: TaskWorld) -> WorldCheckpoint:
    return await world.save()


def changing(name: str, path: str, value: Any) -> Act:
    """Save, change one value, put back; returns the differences and the document."""

    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        await world.merge(name, path, value)
        assert await world.channel(name) != kept.environment[name]
        return await world.restore(kept), await world.channel(name)

    return act


def test_memory_is_exactly_what_was_saved() -> None:
    stage = Stage()

    async def act(world: World) -> None:
        stage.clock.time += 5
        world.remember("order", {"id": 1}, "B1")
        kept = await world.save()
        before = world.entries()
        stage.clock.time += 60
        for key in ("order", "late"):
            world.remember(key, "changed", "B2")
        assert await world.restore(kept) == ()
        assert world.entries() == before == kept.entries
        assert list(world.entries()) == ["user", "order"]
        assert await world.restore(kept) == ()
        world.remember("now", 1, "B3")
        assert world.entries()["now"]["ts"] == "2025-11-16T09:01:05Z"

    stage.play(act, memory={"user": 1}, start=START)
    stage.store.close()


def test_every_kind_of_channel_goes_back(project: Path, environment: EnvironmentServer) -> None:
    kinds = {
        "http": (HTTP, "orders[0].id", environment.seed),
        "file": (file(project), "stock.A", {"stock": {"A": 1}}),
        "callable": (python("put"), "items[0]", {"items": [1, 2]}),
        "async": (python("later"), "items[1]", {"items": [1, 2]}),
        "object": (python(name="Table"), "items", {"items": [1, 2]}),
    }
    for name, (channel, path, before) in kinds.items():
        found = play({name: channel}, changing(name, path, 77), environment.server_port)
        assert found == ((), before), name
        assert play({name: channel}, saved, environment.server_port).whole, name


@pytest.mark.parametrize("names", [(), ("http",), ("file",), ("python",), ("http", "file"), ("http", "python")])
def test_only_channels_that_can_be_written_are_kept(
    project: Path, environment: EnvironmentServer, names: tuple[str, ...]
) -> None:
    known = {"http": HTTP, "file": file(project, readonly=True), "python": python()}
    kept = play({name: known[name] for name in names}, saved, environment.server_port)
    assert set(kept.environment) == {"http"} & set(names)
    assert kept.whole == (names == ("http",))


@pytest.mark.parametrize("status", [404, 405, 501, 500])
def test_a_put_that_is_refused_is_a_difference(environment: EnvironmentServer, status: int) -> None:
    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        world.remember("late", 1, "t")
        await world.merge("env", "cart.a", 7)
        environment.broken, environment.breaks = (status, b"no"), ("PUT", "PATCH")
        found = await world.restore(kept)
        assert world.memory() == {}
        return kept.whole, found

    whole, found = play({"env": HTTP}, act, environment.server_port)
    assert whole
    assert found == (f"env: was not restored: PUT http://world.local/env answered {status}: no",)


def test_only_what_the_task_changed_is_written(environment: EnvironmentServer) -> None:
    """By a patch of these places; what nobody changed is not written at all."""

    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        await world.merge("env", "cart.a", 7)
        environment.calls.clear()
        return await world.restore(kept), await world.restore(kept)

    assert play({"env": HTTP}, act, environment.server_port) == ((), ())
    assert [method for method, _ in environment.calls] == ["GET", "PATCH", "GET", "GET"]


def test_a_site_that_merges_the_top_level_alone_gets_the_whole_document(environment: EnvironmentServer) -> None:
    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        await world.merge("env", "cart.a", 7)
        environment.shallow = True
        return await world.restore(kept), await world.channel("env")

    assert play({"env": HTTP}, act, environment.server_port) == ((), environment.seed)
    assert [method for method, _ in environment.calls[-3:]] == ["PUT", "GET", "GET"]


def test_without_isolation_nothing_is_put_back(environment: EnvironmentServer) -> None:
    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        await world.merge("env", "cart.a", 7)
        return kept, await world.restore(kept), await world.channel("env")

    kept, found, document = play({"env": HTTP}, act, environment.server_port, put_back=False)
    assert not kept.whole
    assert kept.environment == {}
    assert found == (kept.refused,)
    assert 'isolation = "none"' in kept.refused
    assert document["cart"]["a"] == 7


def test_what_the_site_made_of_the_document_is_named(environment: EnvironmentServer) -> None:
    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        document = kept.environment["env"]
        await world.merge("env", "orders", [])
        environment.broken, environment.breaks = (405, b"no"), ("PATCH",)
        environment.after_put = {**document, "cart": {"a": 1}, "world": {"now": "later"}, "new": 1}
        return await world.restore(kept)

    settings = {"env": ChannelSettings(url="http://world.local/env", clock="world.now")}
    assert play(settings, act, environment.server_port) == (
        "env: cart.b: was saved as 2, is missing",
        "env: new: was missing when saved, is 1",
    )


def test_a_document_that_cannot_be_read_again_is_a_difference(environment: EnvironmentServer) -> None:
    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        environment.broken = (200, b"<html>")
        return await world.restore(kept)

    (line,) = play({"env": HTTP}, act, environment.server_port)
    why = "GET http://world.local/env did not answer with JSON"
    assert line.startswith(f"env: was not restored, because it cannot be read: {why}")
    assert [method for method, _ in environment.calls] == ["GET", "GET"]


def test_python_code_that_fails_is_a_difference(project: Path) -> None:
    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        sys.modules["tables_under_test"].DOCUMENTS["w1"]["items"].append("changed")
        return await world.restore(kept)

    (line,) = play({"env": python("broken")}, act)
    expected = "env: was not restored: tables_under_test:broken: restore failed with TimeoutError: the database is busy"
    assert line == expected
    with pytest.raises(Failed, match=r"tables_under_test:slow: restore took longer than 0\.2 s"):
        play({"env": python("slow", timeout=0.2)}, act)


def test_a_file_that_cannot_be_written_is_a_difference(project: Path) -> None:
    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        (project / "state.json").unlink()
        (project / "state.json").mkdir()
        return await world.restore(kept)

    (line,) = play({"env": file(project)}, act)
    assert "was not restored, because it cannot be read" in line
    assert "state.json cannot be read: Is a directory" in line
    assert sorted(path.name for path in project.iterdir()) == ["state.json", "tables_under_test.py"]


def test_a_channel_that_does_not_answer_raises_in_time(environment: EnvironmentServer, project: Path) -> None:
    slow = ChannelSettings(url="http://world.local/env", timeout=0.3)

    async def act(world: TaskWorld) -> None:
        kept = await world.save()
        await world.merge("file", "stock.A", 9)
        world.remember("late", 1, "t")
        environment.gate = threading.Event()
        with pytest.raises(Failed, match=r"GET .*no answer within 0\.3 s") as caught:
            await world.save()
        assert caught.value.failure.code == "CHANNEL_UNREADABLE"
        with pytest.raises(Failed, match=r"GET .*no answer within 0\.3 s"):
            await world.restore(kept)
        assert world.memory() == {}
        assert await world.channel("file") == {"stock": {"A": 1}}

    play({"env": slow, "file": file(project)}, act, environment.server_port)


@pytest.mark.parametrize("fails", ["write", "reset", "restore"])
async def test_a_readonly_channel_is_never_written(environment: EnvironmentServer, fails: str) -> None:
    calls: dict[str, Callable[[Channels], Awaitable[None]]] = {
        "write": lambda channels: channels.write("env", "w", "cart.a", 2),
        "reset": lambda channels: channels.reset("env", "w"),
        "restore": lambda channels: channels.restore("env", "w", {}),
    }
    settings = {"env": ChannelSettings(url="http://world.local/env", readonly=True)}
    channels = Channels(settings, hosts={"world.local": environment.server_port}, root=Path())
    with pytest.raises(Failed, match=r"read-only: `readonly = true` in \[tool.harness.channels.env\]") as caught:
        await calls[fails](channels)
    assert caught.value.failure.code == "INVALID_INPUT"
    assert await channels.read("env", "w") == environment.seed
    await channels.close()
    assert [method for method, _ in environment.calls] == ["GET"]


def test_a_python_channel_without_a_way_to_write_says_how_to_give_one(project: Path) -> None:
    async def act(world: TaskWorld) -> None:
        await world.merge("env", "items", [])

    with pytest.raises(Failed, match="has no method `write`; name a callable for that in the channel's `restore`"):
        play({"env": python()}, act)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "http://a/", "restore": "a:b"}, "`restore` belongs to a channel with `python`"),
        ({"python": "a:b", "restore": "a:c", "readonly": True}, "contradicts `restore`"),
        ({"url": "http://a/", "clock": "now", "readonly": True}, "contradicts `clock`"),
        ({"python": "a:b", "restore": "c"}, "'c' must be written `package.module:callable`"),
        ({"python": "a:b", "restore": ""}, "must be written `package.module:callable`"),
    ],
)
def test_settings_that_contradict_themselves(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Channels({"env": ChannelSettings(**given)}, hosts={}, root=Path())


def test_foreign_code_cannot_change_what_was_saved(project: Path) -> None:
    async def act(world: TaskWorld) -> None:
        kept = await world.save()
        await world.restore(kept)
        sys.modules["tables_under_test"].DOCUMENTS["w1"]["items"].append("meddled")
        assert kept.environment == {"env": {"items": [1, 2]}}
        assert await world.restore(kept) == ()
        assert await world.channel("env") == {"items": [1, 2]}

    play({"env": python("put")}, act)


PATHS = ["whole", "deep.er", "['x.y'].z", "cart.a"]
WRITES = st.lists(
    st.tuples(st.just("memory"), st.sampled_from(["a", "b", "c.d"]), JSON)
    | st.tuples(st.sampled_from(["http", "file", "python"]), st.sampled_from(PATHS), JSON),
    max_size=6,
)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(before=WRITES, after=WRITES)
def test_whatever_is_written_is_undone(
    project: Path, environment: EnvironmentServer, before: list[Any], after: list[Any]
) -> None:
    async def write(world: World, target: str, path: str, value: Any) -> None:
        if target == "memory":
            world.remember(path, value, "t")
        else:
            await world.merge(target, path, value)

    async def act(world: World) -> None:
        for each in before:
            await write(world, *each)
        kept, environment_then = await world.save(), await world.snapshot()
        for each in after:
            await write(world, *each)
        assert await world.restore(kept) == ()
        assert world.entries() == kept.entries
        assert await world.snapshot() == environment_then == kept.environment
        assert kept.whole

    environment.worlds.clear()
    play({"http": HTTP, "file": file(project), "python": python("put")}, act, environment.server_port)


@pytest.mark.thorough
def test_large_documents(project: Path, environment: EnvironmentServer) -> None:
    """5 MB; in the file as dense as it can be, which line breaks would make too large to be read again."""
    text = {f"key {number}": "grün und blau " * 10 for number in range(32_000)}
    dense = {"stock": {"A": 1}, "numbers": [1] * 2_400_000}
    environment.seed = {**text, "lone": "\ud800"}
    (project / "state.json").write_text(json.dumps(dense))

    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        await world.merge("http", "key 7", [1])
        await world.merge("file", "stock.A", 2)
        assert (await world.channel("file"))["stock"] == {"A": 2}
        return await world.restore(kept)

    channels = {
        "http": ChannelSettings(url="http://world.local/env", timeout=60),
        "file": file(project, timeout=60),
    }
    assert play(channels, act, environment.server_port) == ()
    assert environment.worlds["w1"] == environment.seed
    assert json.loads((project / "state.json").read_text()) == dense


def test_tasks_at_once_go_back_each_in_its_own_world(tmp_path: Path, environment: EnvironmentServer) -> None:
    store = MemoryStore(tmp_path / "memory.sqlite")
    clock = Stage().clock

    async def task(channels: Channels, number: int) -> None:
        spec = SimpleNamespace(episode_id=None, memory={"own": number})
        plan = cast("Plan", SimpleNamespace(spec=spec, world=f"w{number}", start=None, fresh=True))
        world = TaskWorld(plan, store, channels, clock)
        await world.begin()
        await world.merge("env", "orders[0].id", number)
        kept = await world.save()
        for count in range(5):
            world.remember(f"late.{count}", count, "t")
            await world.merge("env", "orders[1].id", count + 100)
            assert await world.restore(kept) == ()
            assert world.memory() == {"own": number}
            assert (await world.channel("env"))["orders"] == [{"id": number}, {"id": 2}]

    async def main() -> None:
        hosts = {"world.local": environment.server_port}
        slow = ChannelSettings(url="http://world.local/env", timeout=60)
        channels = Channels({"env": slow}, hosts=hosts, root=Path())
        await asyncio.gather(*(task(channels, number) for number in range(12)))
        await channels.close()

    asyncio.run(main())
    store.close()


def test_a_change_in_flight_does_not_undo_going_back(environment: EnvironmentServer) -> None:
    """A fault may write while the task goes back: reading, changing and writing is one thing."""

    async def act(world: TaskWorld) -> Any:
        kept = await world.save()
        await world.merge("env", "cart.a", 50)
        late = asyncio.create_task(world.merge("env", "orders[0].id", 9))
        await asyncio.sleep(0)
        await world.restore(kept)
        await late
        return (await world.channel("env"))["cart"]

    assert play({"env": HTTP}, act, environment.server_port) == {"a": 1, "b": 2}


def test_a_link_to_the_file_stays_a_link(project: Path) -> None:
    link = project / "link.json"
    link.symlink_to(project / "state.json")
    found = play({"env": ChannelSettings(file=str(link))}, changing("env", "stock.B", 2))
    assert found == ((), {"stock": {"A": 1}})
    assert link.is_symlink()
