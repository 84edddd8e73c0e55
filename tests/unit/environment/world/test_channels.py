"""Environment channels: over HTTP, in a file, in Python."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.environment.channels import Channels
from harness.model.channel_settings import ChannelSettings
from harness.recovery.failure import Failed, Failure
from tests.ports import free_port
from tests.unit.environment.world.conftest import EnvironmentServer

PYTHON = """
import asyncio
import threading
import time

DOCUMENTS = {}

def plain(world):
    return {"world": world, "pair": (1, 2)}

async def later(world):
    await asyncio.sleep(0)
    return {"later": world}

def broken(world):
    raise KeyError("no such table")

def unjson(world):
    return {"when": object()}

def slow(world):
    import threading
    threading.Event().wait(1)

class Kept:
    def read(self, world):
        return DOCUMENTS.get(world, {"items": [1, 2]})

    async def write(self, world, document):
        DOCUMENTS[world] = document

    def reset(self, world):
        DOCUMENTS.clear()


class Touchy:
    made = 0
    def __init__(self):
        type(self).made += 1
        self.inside, self.most = 0, 0

    def _used(self):
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.02)
        self.inside -= 1

    def read(self, world):
        self._used()
        return {"made": self.made, "most": self.most}

    def write(self, world, document):
        self._used()

    def reset(self, world):
        self._used()


class TouchyLater(Touchy):
    made = 0

    async def read(self, world):
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.02)
        self.inside -= 1
        return {"made": self.made, "most": self.most}


def leisurely(world):
    time.sleep(0.3)
    return {}


HANGS, RELEASED = threading.Event(), threading.Event()


def hangs_once(world):
    if world == "hangs":
        HANGS.set()
        RELEASED.wait(60)
    return {"world": world, "released": RELEASED.is_set()}
"""


def use(settings: dict[str, Any], act: Callable[[Channels], Awaitable[Any]], root: Path = Path(), port: int = 0) -> Any:
    """Open the channel `env`, act, close."""

    async def main() -> Any:
        channels = Channels({"env": ChannelSettings(**settings)}, hosts={"World.local": port}, root=root)
        try:
            return await act(channels)
        finally:
            await channels.close()

    return asyncio.run(main())


def failure(
    settings: dict[str, Any], act: Callable[[Channels], Awaitable[Any]], root: Path = Path(), port: int = 0
) -> Failure:
    with pytest.raises(Failed) as caught:
        use(settings, act, root, port)
    return caught.value.failure


def read(channels: Channels) -> Awaitable[Any]:
    return channels.read("env", "w1")


HTTP = {"url": "http://world.local/env"}


def writing(path: str, channels: Channels) -> Awaitable[Any]:
    return channels.write("env", "w1", path, 1)


def write(settings: dict[str, Any], port: int, path: str, value: Any) -> Any:
    async def act(channels: Channels) -> Any:
        await channels.write("env", "w1", path, value)
        return await channels.read("env", "w1")

    return use(settings, act, port=port)


@pytest.mark.parametrize(
    ("path", "value", "expected", "method"),
    [
        ("world.now", "10:00", {"world": {"now": "10:00"}}, "PATCH"),
        ("new.deep.key", 5, {"new": {"deep": {"key": 5}}}, "PATCH"),
        ("orders", [{"id": None}], {"orders": [{"id": None}]}, "PATCH"),
        ("orders[1].id", 7, {"orders": [{"id": 1}, {"id": 7}]}, "PUT"),
        ("orders.1.id", 7, {"orders": [{"id": 1}, {"id": 7}]}, "PUT"),
        ("orders[*].id", 0, {"orders": [{"id": 0}, {"id": 0}]}, "PUT"),
        ("cart", {"a": 9}, {"cart": {"a": 9}}, "PUT"),
        ("cart.a", None, {"cart": {"a": None, "b": 2}}, "PUT"),
    ],
)
def test_http_writes_exactly_one_value(
    environment: EnvironmentServer, path: str, value: Any, expected: dict[str, Any], method: str
) -> None:
    document = write(HTTP, environment.server_port, path, value)
    assert document == {**environment.seed, **expected}
    assert [call[0] for call in environment.calls if call[0] != "GET"] == [method]


def test_http_keeps_the_host_and_tells_the_world(environment: EnvironmentServer) -> None:
    async def act(channels: Channels) -> None:
        await channels.write("env", "w1", "cart.a", 5)
        assert await channels.read("env", "w2") == environment.seed
        await channels.restore("env", "w2", {"only": 1})
        assert await channels.read("env", "w2") == {"only": 1}
        await channels.reset("env", "w1")

    use({"url": "http://World.local:81/env?x=1"}, act, port=environment.server_port)
    assert environment.worlds == {"w1": environment.seed, "w2": {"only": 1}}
    assert set(environment.hosts) == {"world.local:81"}
    assert environment.calls[0] == ("PATCH", "/env?x=1")
    assert environment.calls[-1] == ("POST", "/env/reset?x=1")


def test_http_writes_of_one_process_do_not_lose_each_other(environment: EnvironmentServer) -> None:
    async def act(channels: Channels) -> Any:
        paths = [f"orders[{place}].id" for place in (0, 1)] + ["cart.a"]
        await asyncio.gather(*(channels.write("env", "w1", path, None) for path in paths))
        return await channels.read("env", "w1")

    document = use(HTTP, act, port=environment.server_port)
    assert (document["orders"], document["cart"]["a"]) == ([{"id": None}, {"id": None}], None)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ((503, b"out of order"), "GET http://world.local/env answered 503: out of order"),
        ((302, b""), "answered 302, without a body"),
        ((200, b"<html>"), "did not answer with JSON"),
        ((200, b"[" * 100_000), "did not answer with JSON"),
        ((200, b" " * 10_000_001), "larger than 10000000 bytes"),
    ],
)
def test_http_answers_that_are_no_document(
    environment: EnvironmentServer, broken: tuple[int, bytes], words: str
) -> None:
    environment.broken = broken
    found = failure(HTTP, read, port=environment.server_port)
    assert found.code == "CHANNEL_UNREADABLE"
    assert "channel `env`" in found.message
    assert words in found.message


def test_http_that_does_not_answer(environment: EnvironmentServer) -> None:
    environment.gate = threading.Event()
    found = failure({**HTTP, "timeout": 0.3}, read, port=environment.server_port)
    assert "no answer within 0.3 s" in found.message


def test_http_with_nothing_at_the_port() -> None:
    port = free_port()
    found = failure(HTTP, read, port=port)
    assert f"nothing listens on port {port}" in found.message
    assert found.retryable


def test_a_path_that_does_not_fit_is_the_tasks_mistake(environment: EnvironmentServer) -> None:
    for path in ("orders[9].id", "orders..id", "world[0]"):
        found = failure(HTTP, partial(writing, path), port=environment.server_port)
        assert found.code == "INVALID_INPUT"
        assert repr(path) in found.message


def test_file_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"a": {"b": [1, 2]}}')

    async def act(channels: Channels) -> Any:
        writes = [channels.write("env", "w", f"a.b[{place}]", "ü") for place in (0, 1)]
        await asyncio.gather(*writes)
        return await channels.read("env", "other world")

    assert use({"file": "state.json"}, act, tmp_path) == {"a": {"b": ["ü", "ü"]}}
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": {"b": ["ü", "ü"]}}
    assert list(tmp_path.iterdir()) == [path]


def test_file_failures(tmp_path: Path) -> None:
    settings = {"file": "state.json"}
    path = tmp_path / "state.json"
    assert "state.json cannot be read: No such file" in failure(settings, read, tmp_path).message
    path.write_text('{"half')
    assert "Unterminated string" in failure(settings, read, tmp_path).message
    path.write_text(" " * 10_000_001)
    assert "larger than" in failure(settings, read, tmp_path).message
    gone = failure({"file": "no/state.json"}, lambda channels: channels.restore("env", "w", {}), tmp_path)
    assert "cannot be written: No such file" in gone.message
    assert failure(settings, lambda channels: channels.reset("env", "w"), tmp_path).code == "INVALID_INPUT"


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("{}")
    with pytest.raises(TypeError):
        use({"file": "state.json"}, lambda channels: channels.restore("env", "w", object()), tmp_path)
    assert path.read_text() == "{}"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "channel_under_test.py").write_text(PYTHON)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "channel_under_test", raising=False)
    return tmp_path


def python(name: str, **more: Any) -> dict[str, Any]:
    return {"python": f"channel_under_test:{name}", **more}


def test_python_callables(project: Path) -> None:
    assert use(python("plain"), read, project) == {"world": "w1", "pair": [1, 2]}
    assert use(python("later"), read, project) == {"later": "w1"}


def test_python_object_that_can_be_written(project: Path) -> None:
    async def act(channels: Channels) -> Any:
        await channels.write("env", "w1", "items[-1]", 3)
        changed = await channels.read("env", "w1")
        await channels.reset("env", "w1")
        return changed, await channels.read("env", "w1")

    assert use(python("Kept"), act, project) == ({"items": [1, 3]}, {"items": [1, 2]})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "read failed with KeyError: 'no such table'"),
        ("unjson", "did not return JSON"),
        ("nothing", "import failed with AttributeError"),
        ("slow", "read took longer than 0.2 s"),
    ],
)
def test_python_failures(project: Path, name: str, words: str) -> None:
    async def act(channels: Channels) -> Any:
        return await channels.read("env", "w1")

    found = failure(python(name, timeout=0.2 if name == "slow" else 10), act, project)
    assert found.code == "CHANNEL_UNREADABLE"
    assert words in found.message


@pytest.mark.parametrize("name", ["Touchy", "TouchyLater"])
def test_python_is_called_once_at_a_time(project: Path, name: str) -> None:
    """As in a run that does one task after the other; a class is made once."""

    async def act(channels: Channels) -> Any:
        jobs = [channels.read("env", f"w{number}") for number in range(3)]
        await asyncio.gather(*jobs, channels.reset("env", "w1"), channels.restore("env", "w2", {}))
        return await channels.read("env", "w")

    assert use(python(name), act, project) == {"made": 1, "most": 1}


def test_waiting_for_other_calls_of_python_is_not_its_own_time(project: Path) -> None:
    async def act(channels: Channels) -> Any:
        return await asyncio.gather(*(channels.read("env", "w") for _ in range(8)), return_exceptions=True)

    assert use(python("leisurely", timeout=2), act, project) == [{}] * 8


def test_python_that_hangs_is_not_waited_for_by_others(project: Path) -> None:
    async def act(channels: Channels) -> Any:
        calls = channels.read("env", "hangs"), channels.read("env", "w")
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        sys.modules["channel_under_test"].RELEASED.set()
        return type(first).__name__, second

    assert use(python("hangs_once", timeout=2), act, project) == ("Failed", {"world": "w", "released": False})


async def given_up(channels: Channels) -> Any:
    """The module, when a call runs that its caller waits for no more."""
    await channels.read("env", "w")
    module: Any = sys.modules["channel_under_test"]
    call = asyncio.ensure_future(channels.read("env", "hangs"))
    assert await asyncio.to_thread(module.HANGS.wait, 30)
    call.cancel()
    await asyncio.wait([call])
    return module


def test_python_whose_caller_gave_up_is_still_called_once_at_a_time(project: Path) -> None:
    async def act(channels: Channels) -> Any:
        module = await given_up(channels)
        other = asyncio.ensure_future(channels.read("env", "w"))
        await asyncio.wait([other], timeout=0.2)  # time to do wrong
        module.RELEASED.set()
        return await other

    assert use(python("hangs_once", timeout=30), act, project) == {"world": "w", "released": True}


def test_python_whose_caller_gave_up_leaves_no_task_behind(project: Path) -> None:
    """asyncio tells of one that is there when its loop is closed."""

    async def act(channels: Channels) -> Any:
        module = await given_up(channels)
        await channels.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        module.RELEASED.set()
        return left

    assert use(python("hangs_once", timeout=30), act, project) == set()


def test_python_that_cannot_be_written(project: Path) -> None:
    found = failure(python("plain"), lambda channels: channels.restore("env", "w", {}), project)
    assert found.code == "INVALID_INPUT"
    assert "has no method `write`" in found.message


def test_an_unknown_channel_lists_the_known_ones() -> None:
    found = failure(HTTP, lambda channels: channels.read("envv", "w"))
    assert found.code == "INVALID_INPUT"
    assert "`envv`" in found.message
    assert "known channels: env" in found.message


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"url": "ftp://a/"},
        {"python": "module"},
        {"python": ":name"},
    ],
)
def test_settings_that_fit_no_kind(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="channel `env`"):
        Channels({"env": ChannelSettings(**settings)}, hosts={}, root=Path())


def test_a_channel_has_one_place() -> None:
    with pytest.raises(ValueError, match="`url` and `file` both say where it is"):
        ChannelSettings(url="http://a/", file="b")


async def _codes(channels: Channels, *documents: str, file: Path) -> list[str]:
    found = []
    for text in documents:
        file.write_text(text, "utf-8")
        try:
            await channels.read("env", "w")
            found.append("")
        except Failed as failed:
            found.append(f"{failed.failure.code}: {failed.failure.message}")
    return found


def test_a_document_that_is_damaged_is_data_corruption(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"total": {"type": "number"}}}
    (tmp_path / "env.schema.json").write_text(json.dumps(schema), "utf-8")
    table = {"env": ChannelSettings(file="env.json", schema="env.schema.json")}
    channels = Channels(table, hosts={}, root=tmp_path)
    texts = ('{"total": 1}', '{"total": "1,50"}', '{"total": 1', '{"total": 2}')
    fine, broken, half, again = asyncio.run(_codes(channels, *texts, file=tmp_path / "env.json"))
    assert (fine, again) == ("", "")
    assert broken == (
        "DATA_CORRUPTION: channel `env`: total does not conform to env.schema.json: '1,50' is not of type 'number'"
    )
    assert half.partition(":")[0] == "DATA_CORRUPTION"


@pytest.mark.parametrize("text", ["{", '{"type": "nonsense"}', None])
def test_a_schema_that_is_none_is_refused_at_the_start(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "s.json").write_text(text, "utf-8")
    table = {"env": ChannelSettings(file="env.json", schema="s.json")}
    with pytest.raises(ValueError, match="expected a file with a JSON Schema"):
        Channels(table, hosts={}, root=tmp_path)
