"""`harness services`: real programs, started, kept, looked at and ended from the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner, Result

from harness.cli.main import app
from harness.environment.services import Services
from harness.model.settings import load_settings
from harness.resilience import SystemClock
from tests.acceptance.conftest import Project
from tests.acceptance.supervised import free_base, pyproject, site_pid
from tests.acceptance.warm import Forked, start_harness
from tests.ports import listens
from tests.unit.environment.services.conftest import PROGRAM, alive, eventually, programs, sites

SERVICE = """
[tool.harness.services.{name}]
command = ["{{python}}", "{program}", "{port}", "{name}", "{mode}", "{seconds}"]
hosts = {{ "{name}.local" = {port} }}
health = "http://{name}.local/health"
identity = {{ service = "{name}" }}
ready_timeout = 20
"""


class Desk:
    """A project, and the command in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.ports = root, list[int]()

    def add(self, name: str, port: int, mode: str = "ok", seconds: float = 0) -> None:
        text = SERVICE.format(name=name, port=port, program=PROGRAM, mode=mode, seconds=seconds)
        with (self.root / "pyproject.toml").open("a") as file:
            file.write(text)
        self.ports.append(port)

    def run(self, *args: str) -> Result:
        return CliRunner().invoke(app, ["services", *args])

    def says(self, *args: str, code: int = 0) -> str:
        result = self.run(*args)
        assert result.exit_code == code, result.output
        return result.output

    def status(self, *names: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("status", "--json", *names).output)
        return found

    def one(self) -> dict[str, Any]:
        (found,) = self.status()
        return found

    def process(self, *args: str) -> Forked:
        return start_harness("services", *args, cwd=self.root, stderr=subprocess.PIPE)

    def left(self) -> list[str]:
        """Processes, and files that say that somebody runs."""
        found = [str(each.pid) for port in self.ports for each in programs(port)] + self.keepers()
        return [*found, *map(str, (self.root / ".harness" / "logs").glob("*.json*"))]

    def keepers(self) -> list[str]:
        return [str(each.info) for each in psutil.process_iter(["pid", "cmdline"]) if str(self.root) in _line(each)]

    def nothing_is_left(self) -> bool:
        return eventually(lambda: not self.left() and not any(map(listens, self.ports)))


def _line(process: psutil.Process) -> list[str]:
    return process.info["cmdline"] or []


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path)
    yield desk
    if desk.ports:
        desk.run("stop")
    for port in desk.ports:
        for process in programs(port):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def port() -> int:
    return free_base()


def test_a_persisted_service_is_kept_used_and_ended(desk: Desk, port: int) -> None:
    desk.add("site", port)
    assert re.match(rf"site: not started, port {port}\n  hosts ", desk.says("status", code=3)), "that is no problem"
    shown = desk.says("start", "--persist")
    assert re.match(rf"site: up for \d+ s, port {port}, pid \d+, 0 restarts\n", shown)
    assert re.search(r"kept by  pid \d+, until `harness services stop`", shown)
    before = desk.one()
    assert (before["state"], before["persisted"], before["restarts"], before["hosts"]) == (
        "up", True, 0, {"site.local": port},
    )  # fmt: skip
    assert Path(before["log"]) == desk.root / ".harness" / "logs" / "site.log"
    desk.says("start", "--persist")
    assert (desk.one()["pid"], desk.one()["owner"]) == (before["pid"], before["owner"]), "it was there already"

    os.kill(before["pid"], signal.SIGKILL)
    assert eventually(lambda: desk.one()["restarts"] == 1 and desk.one()["state"] == "up")
    assert desk.one()["pid"] != before["pid"]
    assert desk.one()["owner"] == before["owner"]
    desk.says("status")

    assert desk.says("stop") == "site: stopped\n"
    assert desk.nothing_is_left()
    assert desk.says("stop") == "site: not stopped, because `start --persist` did not start it\n"
    assert json.loads(desk.says("stop", "--json")) == {"stopped": []}


def test_a_run_uses_what_is_persisted_and_leaves_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    base = free_base()
    (project.path / "pyproject.toml").write_text(pyproject(base), "utf-8")
    project.task("T-1")
    desk = Desk(project.path)
    desk.ports = [base]
    monkeypatch.chdir(project.path)
    try:
        desk.says("start", "--persist")
        pid = site_pid(base)
        assert pid is not None
        project.run("T-1.task.json").assert_outcomes(passed=1)
        assert site_pid(base) == pid
    finally:
        desk.says("stop")
    assert desk.nothing_is_left()


@pytest.mark.thorough
def test_a_run_that_finds_it_dead_waits_for_its_keeper(desk: Desk, port: int) -> None:
    desk.add("site", port)
    desk.says("start", "--persist")
    settings = load_settings(desk.root)
    services = Services(settings.services, root=desk.root, logs=desk.root / ".harness" / "logs", clock=SystemClock())

    async def main() -> None:
        await services.start()
        os.kill(desk_pid, signal.SIGKILL)
        while listens(port) and site_of(port) == desk_pid:
            await asyncio.sleep(0.01)
        await asyncio.gather(*(services.await_ready() for _ in range(5)))
        assert services.started == ()
        await services.stop()

    desk_pid = site_of(port)
    asyncio.run(main())
    assert listens(port)
    assert eventually(lambda: _restarts(desk) == 1)


def _restarts(desk: Desk) -> int:
    told = json.loads((desk.root / ".harness" / "logs" / "site.owner.json").read_text("utf-8"))
    return int(told["restarts"])


def site_of(port: int) -> int:
    return next((each.pid for each in sites(port)), 0)


@pytest.mark.parametrize("mode", ["family", pytest.param("stubborn", marks=pytest.mark.thorough)])
def test_nothing_is_left_of_a_keeper_that_is_killed(desk: Desk, port: int, mode: str) -> None:
    desk.add("site", port, mode)
    desk.says("start", "--persist")
    grandchild = int(re.findall(r"child (\d+)", desk.says("logs", "-n", "99"))[0])
    os.kill(desk.one()["owner"], signal.SIGKILL)
    assert desk.nothing_is_left()
    assert eventually(lambda: not alive(grandchild))
    assert desk.one()["state"] == "down"


@pytest.mark.thorough
def test_a_keeper_that_hangs_is_ended_too(desk: Desk, port: int) -> None:
    desk.add("site", port)
    desk.says("start", "--persist")
    os.kill(desk.one()["owner"], signal.SIGSTOP)
    assert desk.says("stop") == "site: stopped\n"
    assert desk.nothing_is_left()


@contextlib.contextmanager
def other(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of somebody else."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_others_have_started_is_shown_and_left_alone(desk: Desk, port: int) -> None:
    desk.add("site", port)
    with other(str(PROGRAM), str(port), "site") as running:
        assert eventually(lambda: listens(port))
        found = desk.one()
        assert (found["state"], found["pid"], found["owner"], found["persisted"]) == ("up", running.pid, None, False)
        assert "kept by  no process of this project; it was started by hand" in desk.says("status")
        taken = f"cannot use port {port}, which is taken by pid {running.pid} ("
        for order in (("start", "--persist"), ("start",)):
            assert taken in desk.says(*order, code=1), "it is not shared in silence"
        assert "not stopped, because `start --persist` did not start it" in desk.says("stop")
        assert running.poll() is None
    assert desk.nothing_is_left()


@pytest.mark.thorough
def test_a_stranger_on_the_port_is_named(desk: Desk, port: int) -> None:
    desk.add("site", port)
    with other(str(PROGRAM), str(port), "else") as stranger:
        assert eventually(lambda: listens(port))
        problem = "another program has its port: in its health answer service is 'else' instead of 'site'"
        found = desk.one()
        assert (found["state"], found["pid"], found["problem"]) == ("down", stranger.pid, problem)
        assert f"taken by pid {stranger.pid} (" in desk.says("start", "--persist", code=1)
        desk.says("stop")
        assert stranger.poll() is None
    assert desk.nothing_is_left()


@pytest.mark.thorough
def test_a_pid_that_came_again_is_not_the_keeper(desk: Desk, port: int) -> None:
    """What a keeper has left that died with its machine: its pid is somebody else's now."""
    desk.add("site", port)
    desk.says("start", "--persist")
    file = desk.root / ".harness" / "logs" / "site.owner.json"
    told = json.loads(file.read_text("utf-8"))
    desk.says("stop")
    with other("-c", "import time; time.sleep(60)") as stranger:
        again = {name: {**told[name], "pid": stranger.pid} for name in ("owner", "program")}
        file.write_text(json.dumps({**told, **again}))
        assert (desk.one()["state"], desk.one()["owner"]) == ("down", None)
        assert "not stopped, because `start --persist` did not start it" in desk.says("stop")
        assert stranger.poll() is None
    assert desk.nothing_is_left()


def test_a_start_that_fails_shows_why_and_leaves_nothing(desk: Desk, port: int) -> None:
    desk.add("site", port, "crash")
    desk.add("fine", port + 1)
    shown = desk.says("start", "--persist", code=1)
    assert "service `site` ended at start with exit code 3. The end of" in shown
    assert "line 29 of site" in shown
    assert [each["state"] for each in desk.status()] == ["down", "up"], "the other one was asked for, and runs"
    assert desk.says("stop", "fine") == "fine: stopped\n"
    assert desk.nothing_is_left()


@pytest.mark.thorough
def test_logs_show_no_secret(desk: Desk, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.add("site", port)
    monkeypatch.setenv("SITE_PASSWORD", "hunter2-and-more")
    log = desk.root / ".harness" / "logs" / "site.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"GET /?access_token=abc-4711\nlogin with hunter2-and-more in {desk.root}\n", "utf-8")
    assert desk.says("logs") == (f"GET /?access_token=[redacted]\nlogin with [redacted] in {desk.root}\n")
    assert "hunter2" not in desk.says("logs", "--json")


def test_what_has_failed_for_good_says_so_until_it_is_started_again(desk: Desk, port: int) -> None:
    desk.add("site", port)
    desk.says("start", "--persist")
    for crash in range(1, 4):
        os.kill(site_of(port), signal.SIGKILL)
        assert eventually(lambda crash=crash: _settled(desk, port, crash))  # type: ignore[misc]
    assert eventually(lambda: not desk.keepers()), "it has nothing more to do"
    assert "site: permanently_failed" in desk.says("status", code=3)
    assert "it crashed 3 times within 5 minutes" in desk.one()["problem"]
    assert desk.says("logs", "-n", "1") == "[harness] crash 3 of 3: permanently_failed\n"
    assert "site: up" in desk.says("start", "--persist")
    assert desk.says("stop") == "site: stopped\n"
    assert desk.nothing_is_left()


def _settled(desk: Desk, port: int, crash: int) -> bool:
    notes = (desk.root / ".harness" / "logs" / "site.log").read_text("utf-8")
    told = (desk.root / ".harness" / "logs" / "site.owner.json").read_text("utf-8")
    return f"crash {crash} of 3" in notes and ('"permanently_failed"' in told if crash == 3 else '"up"' in told)


def test_what_a_run_has_started_is_not_stopped(desk: Desk, port: int) -> None:
    desk.add("site", port)
    run = desk.process("start")
    assert run.stdout is not None
    assert re.match(rf"site: started, pid \d+ \(site\.local:{port}\)\n", run.stdout.readline())
    assert run.stdout.readline() == "Ctrl-C ends what was started here.\n"
    found = desk.one()
    assert (found["owner"], found["persisted"]) == (run.pid, False)
    assert f"kept by  pid {run.pid} (" in desk.says("status")
    assert "not stopped, because `start --persist` did not start it" in desk.says("stop")
    assert listens(port)
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 0
    _close(run)
    assert desk.nothing_is_left()


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [("start",), ("start", "--persist")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_start_that_is_broken_off_leaves_nothing(
    desk: Desk, port: int, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    desk.add("site", port, "ok", 1)
    run = desk.process(*arguments)
    assert eventually(lambda: programs(port))
    run.send_signal(number)
    run.wait(60)
    _close(run)
    if arguments == ("start", "--persist") and number is signal.SIGKILL:
        assert eventually(lambda: desk.one()["state"] == "up" or not programs(port)), "it goes on, or had not begun"
        desk.run("stop")
    assert desk.nothing_is_left()


def _close(process: Forked) -> None:
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def test_logs(desk: Desk, port: int) -> None:
    desk.add("site", port)
    assert "no log yet" in desk.says("logs", code=1)
    desk.add("other", port + 1)
    desk.says("start", "--persist")
    assert desk.says("logs", "site", "-n", "2") == "line 28 of site in plain\nline 29 of site in plain\n"
    assert desk.says("logs", "-n", "1") == "site | line 29 of site in plain\nother | line 29 of other in plain\n"
    following = desk.process("logs", "site", "-n", "1", "--follow", "--json")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline()) == {"service": "site", "line": "line 29 of site in plain"}
    os.kill(site_of(port), signal.SIGKILL)
    assert json.loads(following.stdout.readline())["line"] == "[harness] crash 1 of 3: started again"
    assert json.loads(following.stdout.readline())["line"] == "line 0 of site in plain"
    following.send_signal(signal.SIGINT)
    assert following.wait(60) == 130
    _close(following)


@pytest.mark.parametrize(
    ("toml", "args", "said"),
    [
        ("", ("status",), "there is no [tool.harness.services.<name>] in"),
        (SERVICE, ("status", "sitee"), "no service `sitee` in [tool.harness.services]; did you mean `site`?"),
        (SERVICE, ("logs", "x"), "no service `x` in [tool.harness.services]; there are: site"),
        (SERVICE + SERVICE.replace("{name}]", "b]"), ("start",), "host site.local is given twice"),
        (SERVICE.replace("hosts", "host"), ("stop",), "did you mean `hosts`?"),
    ],
)
@pytest.mark.sampled(1)
def test_what_cannot_be_is_one_clear_line(desk: Desk, toml: str, args: tuple[str, ...], said: str) -> None:
    text = toml.format(name="site", port=1, program="p", mode="ok", seconds=0)
    (desk.root / "pyproject.toml").write_text(text)
    result = desk.run(*args)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


@pytest.mark.parametrize("command", ["status", "start", "stop", "logs"])
@pytest.mark.sampled(1)
def test_every_command_shows_an_example_and_its_exit_codes(desk: Desk, command: str) -> None:
    shown = desk.says(command, "--help")
    assert f"Example: harness services {command}" in shown
    assert "Exit code: 0" in shown


def renamed(desk: Desk, text: str = "") -> None:
    (desk.root / "pyproject.toml").write_text(text)


def test_what_was_removed_from_the_settings_is_shown_and_stopped(desk: Desk, port: int) -> None:
    desk.add("site", port)
    desk.says("start", "--persist")
    (before,) = desk.status()
    renamed(desk)
    found = desk.one()
    assert (found["name"], found["state"], found["owner"], found["port"]) == ("site", "up", before["owner"], None)
    shown = desk.says("status")
    assert re.match(r"site: up for \d+ s, pid \d+, 0 restarts\n", shown)
    assert "it is not in [tool.harness.services] any more; `harness services stop site` ends it" in shown
    assert "there is no [tool.harness.services.<name>]" in desk.says("start", code=1), "only a keeper knows it"
    assert desk.says("stop") == "site: stopped\n"
    assert desk.nothing_is_left()
    assert "there is no [tool.harness.services.<name>]" in desk.says("stop", code=1)


@pytest.mark.thorough
def test_what_was_renamed_is_stopped_by_its_name_of_before(desk: Desk, port: int) -> None:
    desk.add("site", port)
    desk.says("start", "--persist")
    renamed(desk)
    desk.add("shop", port + 1)
    assert [each["name"] for each in desk.status()] == ["shop", "site"]
    assert "there are: shop, site" in desk.says("stop", "x", code=1)
    assert desk.says("stop", "site") == "site: stopped\n"
    assert desk.nothing_is_left()
    assert [each["name"] for each in desk.status()] == ["shop"]


def start_twice(desk: Desk) -> tuple[Result, int]:
    """The second when the first has told that it boots; the exit code of the first."""
    first = desk.process("start", "--persist")
    assert eventually((desk.root / ".harness" / "logs" / "site.owner.json").exists)
    second = desk.run("start", "--persist")
    code = first.wait(60)
    _close(first)
    return second, code


@pytest.mark.thorough
def test_a_second_start_waits_for_the_first(desk: Desk, port: int) -> None:
    desk.add("site", port, "ok", 1.5)
    second, first = start_twice(desk)
    assert (first, second.exit_code) == (0, 0), second.output
    assert second.output.startswith("site: up for "), second.output
    assert len(desk.keepers()) == 1
    assert desk.says("stop") == "site: stopped\n"
    assert desk.nothing_is_left()


@pytest.mark.thorough
def test_a_second_start_fails_with_the_first(desk: Desk, port: int) -> None:
    desk.add("site", port, "crash", 1.5)
    second, first = start_twice(desk)
    assert (first, second.exit_code) == (1, 1), second.output
    assert "service `site`, kept by another `start --persist`, did not come up, see " in second.output
    assert desk.nothing_is_left()


@pytest.mark.thorough
def test_starts_at_the_same_moment_leave_one_that_can_be_stopped(desk: Desk, port: int) -> None:
    desk.add("site", port, "ok", 0.2)
    for _ in range(2):
        both = [desk.process("start", "--persist") for _ in range(2)]
        for each in both:
            assert each.communicate(timeout=60)[1] == "", "both hear of one that is kept"
            assert each.returncode == 0
        assert eventually(lambda: len(desk.keepers()) == 1), "the second keeper has nothing to keep, and ends"
        assert desk.says("stop") == "site: stopped\n"
        assert desk.nothing_is_left()
