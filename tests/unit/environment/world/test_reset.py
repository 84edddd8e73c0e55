"""What `isolation = "reset"` runs before a task, and how it says that this failed."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.environment.channels import Channels
from harness.environment.reset import StateReset
from harness.model.channel_settings import ChannelSettings
from harness.model.settings import WorldMark
from harness.recovery.failure import Failed
from tests.unit.environment.world.conftest import EnvironmentServer

CODE = """
import json, os, sys

def plain():
    open("plain.txt", "a").write("reset ")

async def later(hosts):
    open("later.txt", "w").write(json.dumps(hosts))

def broken():
    raise KeyError("no table")

def sleepy():
    import threading
    threading.Event().wait(1)

async def blocking():
    import threading
    threading.Event().wait(3)

async def endless():
    import asyncio
    await asyncio.Event().wait()

def leaving():
    raise SystemExit(2)

async def leaving_later():
    raise SystemExit(2)

class Table:
    def read(self, world):
        return {}
    def reset(self, world):
        open("table.txt", "w").write(world)
"""
COMMAND = """
import json, os
open("command.txt", "w").write(json.dumps([os.environ["TASKSPEC_SLOT"], json.loads(os.environ["TASKSPEC_HOSTS"])]))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "resetting_under_test.py").write_text(CODE)
    (tmp_path / "command.py").write_text(COMMAND)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "resetting_under_test", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(project: Path, target: Any, channels: dict[str, ChannelSettings] | None = None, **more: Any) -> Channels:
    async def main() -> Channels:
        hosts = {"world.local": more.get("port", 1)}
        made = Channels(channels or {}, hosts=hosts, root=project, starts=project / "starts")
        reset = StateReset(target, more.get("timeout", 5), project)
        try:
            await reset.run(made, 3, hosts, "w1")
        finally:
            await made.close()
        return made

    return asyncio.run(main())


def test_a_command_is_told_slot_and_ports(project: Path) -> None:
    run(project, ("{python}", "command.py"), port=8080)
    assert json.loads((project / "command.txt").read_text()) == ["3", {"world.local": 8080}]


def test_the_interpreter_is_named_anywhere_in_a_command(project: Path) -> None:
    run(project, ("sh", "-c", "rm -f command.txt && {python} command.py && echo '{{python}} ${python}' > said.txt"))
    assert json.loads((project / "command.txt").read_text())[0] == "3"
    assert (project / "said.txt").read_text() == "{python} ${python}\n"


def test_a_callable_is_given_the_ports_if_it_wants_them(project: Path) -> None:
    run(project, "resetting_under_test:plain")
    run(project, "resetting_under_test:later", port=8080)
    assert (project / "plain.txt").read_text() == "reset "
    assert json.loads((project / "later.txt").read_text()) == {"world.local": 8080}


def test_without_a_way_of_its_own_every_channel_that_can_be_is_reset(
    project: Path, environment: EnvironmentServer
) -> None:
    (project / "state.json").write_text('{"a": 1}')
    environment.worlds["w1"] = {"changed": True}
    channels = {
        "http": ChannelSettings(url="http://world.local/env"),
        "read": ChannelSettings(url="http://world.local/other", readonly=True),
        "file": ChannelSettings(file="state.json"),
        "table": ChannelSettings(python="resetting_under_test:Table"),
        "plain": ChannelSettings(python="resetting_under_test:plain"),
    }
    run(project, None, channels, port=environment.server_port)
    (project / "state.json").write_text('{"a": 2}')
    run(project, None, channels, port=environment.server_port)
    assert environment.calls == [("POST", "/env/reset")] * 2
    assert environment.worlds["w1"] == environment.seed
    assert json.loads((project / "state.json").read_text()) == {"a": 1}, "as the first reset of the run met it"
    assert (project / "table.txt").read_text() == "w1"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            ("{python}", "-c", "print('no database'); raise SystemExit(3)"),
            "ended with exit status 3. Its last lines:\nno database",
        ),
        (("no-such-program",), "cannot be started: No such file or directory"),
        (("{python}", "-c", "import threading; threading.Event().wait(9)"), "took longer than 0.3 s"),
        ("resetting_under_test:broken", "failed with KeyError: 'no table'"),
        ("resetting_under_test:absent", "failed with AttributeError"),
        ("resetting_under_test:sleepy", "`resetting_under_test:sleepy` took longer than 0.3 s"),
        ("resetting_under_test:blocking", "`resetting_under_test:blocking` took longer than 0.3 s"),
        ("resetting_under_test:endless", "`resetting_under_test:endless` took longer than 0.3 s"),
        ("resetting_under_test:leaving", "`resetting_under_test:leaving` failed with SystemExit: 2"),
        ("resetting_under_test:leaving_later", "`resetting_under_test:leaving_later` failed with SystemExit: 2"),
        (None, "there is nothing to reset: no channel can be reset (channels: none), and `reset` is not set"),
    ],
)
def test_a_reset_that_fails_says_why(project: Path, target: Any, words: str) -> None:
    limit = 0.3 if "0.3" in words else 20
    began = time.monotonic()
    with pytest.raises(Failed) as caught:
        run(project, target, timeout=limit)
    assert limit == 20 or time.monotonic() - began < 2.5
    assert caught.value.failure.code == "RESET_FAILED"
    assert ("POST <url>/reset" in caught.value.failure.hint) == (target is None)
    assert words in caught.value.failure.message


def test_a_channel_that_does_not_know_reset_is_a_failure(project: Path, environment: EnvironmentServer) -> None:
    environment.broken = (404, b"not found")
    with pytest.raises(Failed, match=r"POST http://world.local/env/reset answered 404") as caught:
        run(project, None, {"env": ChannelSettings(url="http://world.local/env")}, port=environment.server_port)
    assert caught.value.failure.code == "RESET_FAILED"


@pytest.mark.parametrize(
    ("mark", "name", "value"),
    [(WorldMark(header="X-World"), "X-World", "w7"), (WorldMark(cookie="tenant"), "Cookie", "tenant=w7")],
)
async def test_a_channel_names_the_world_as_the_project_says(
    environment: EnvironmentServer, mark: WorldMark, name: str, value: str
) -> None:
    seen: list[dict[str, str]] = []
    reply = environment.reply
    environment.reply = lambda *given: (seen.append(given[2]), reply(*given))[1]  # type: ignore[method-assign]
    settings = {"env": ChannelSettings(url="http://world.local/env")}
    channels = Channels(settings, hosts={"world.local": environment.server_port}, root=Path(), mark=mark)
    await channels.read("env", "w7")
    await channels.close()
    assert [headers[name] for headers in seen] == [value]
