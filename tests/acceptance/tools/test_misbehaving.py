"""Servers that die, freeze, chatter, fall silent or do not want to end: the next step runs, and no process is left."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.tools.counting import books_of, stdio_command, stranger

BIG = 10_000_000
LONG = 60.0
"""Seconds after which a wait has failed, on the slowest machine."""
LIMIT = 1.5
"""Seconds of a call."""
SPARE = 2.0
"""Seconds that a step may take beyond its limit on a busy machine; to end a server that is frozen takes 4."""
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "killed": ("", {"does": "kill"}),
    "exits": ("", {"does": "lose"}),
    "frozen": ("", {"does": "stop"}),
    "chatters": ("", {"does": "junk"}),
    "floods": ("", {"size": BIG}),
    "deaf": ("deaf", {}),
    "stubborn": ("stubborn", {}),
}
"""Server -> its habit, and the arguments of a call of its `place_order`."""
ANSWERED = {"chatters", "floods", "stubborn"}


def processes(folder: Path) -> list[psutil.Process]:
    """The processes of servers of this folder."""
    found = []
    for each in psutil.process_iter():
        try:
            if str(folder) in " ".join(each.cmdline()):
                found.append(each)
        except psutil.Error:
            continue
    return found


def tables(folder: Path) -> str:
    servers = {"well": "", **{name: habit for name, (habit, _) in CALLS.items()}}
    return "".join(
        f"[tool.harness.tools.{name}]\n"
        f"command = {json.dumps(stdio_command(folder, 'new', *filter(None, (habit,))))}\n"
        f"timeout = {LIMIT}\nready_timeout = 1\nhealth_interval = 0\n"
        for name, habit in servers.items()
    )


def step(server: str, **keys: Any) -> dict[str, Any]:
    return {"act": "tool", "server": server, "tool": "place_order", **keys}


def wait_for(met: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not met():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.thorough
def test_the_next_step_runs_and_no_process_is_left(tmp_path: Path) -> None:
    project = stranger(tmp_path, tables(tmp_path))
    for name, (_, arguments) in CALLS.items():
        struck = step(name, arguments={"case": name, **arguments}, optional=True)
        after = step("well", arguments={"case": f"after-{name}"}, expect="result('status') == 'confirmed'")
        project.task(name, steps=[struck, after], error_recovery={"on_network_error": "abort"})
    project.play("--task-workers", "4")
    document = json.loads((tmp_path / ".harness" / "last-run.json").read_text("utf-8"))
    books = books_of(tmp_path)
    codes = {each["task_id"]: each["code"] for each in document["results"]}
    assert codes == dict.fromkeys(CALLS), "each task goes on after its optional step"
    assert {name: books.count("effect", f"after-{name}") for name in CALLS} == dict.fromkeys(CALLS, 1)
    assert {name for name in CALLS if books.count("effect", name) == 1} == set(CALLS) - {"deaf"}
    struck = {each["task_id"]: each["steps"][0] for each in document["results"]}
    assert {name for name, each in struck.items() if each["passed"]} == ANSWERED
    slow = {
        name: each["seconds"] for name, each in struck.items() if name != "deaf" and each["seconds"] > LIMIT + SPARE
    }
    assert not slow, "ending a server is on no step's path"
    wait_for(lambda: not processes(tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("habit", ["", "stubborn"])
def test_a_run_that_is_killed_leaves_no_server(tmp_path: Path, habit: str) -> None:
    books = books_of(tmp_path)
    command = stdio_command(tmp_path, "new", *filter(None, (habit,)))
    project = stranger(tmp_path, f"[tool.harness.tools.shop]\ncommand = {json.dumps(command)}\n")
    project.task("HANGS", steps=[step("shop", arguments={"case": "all", "does": "hang"})])
    run = project.start()
    try:
        wait_for(lambda: books.count("effect", "all") == 1)
        assert processes(tmp_path)
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
    wait_for(lambda: not processes(tmp_path))


@pytest.mark.thorough
def test_a_large_answer_is_kept_in_a_bounded_form(tmp_path: Path) -> None:
    project: Project = stranger(tmp_path, tables(tmp_path))
    project.task("FLOODS", steps=[step("floods", arguments={"case": "a", "size": BIG}, expect="result('case') == 'b'")])
    project.play()
    assert project.report("FLOODS")["code"] == "ASSERTION_FAILED"
    largest = max(file.stat().st_size for file in (tmp_path / "errors" / "FLOODS").rglob("*.json"))
    assert largest < 1_000_000
