"""Services of a project that knows nothing of worlds: ports of their own for each run, instances, ordinary tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import INI
from tests.acceptance.warm import Forked, warm

APP = Path(__file__).with_name("stranger_app.py")
SETTINGS = """
[tool.harness]
isolation = "none"
services_for = "{services_for}"

[tool.harness.services.todo]
command = ["{{python}}", "{app}", "--port", "{{port}}", "--state", "{{folder}}/state.json"]
hosts = ["todo.test", "www.todo.test"]
health = "http://todo.test/health"
identity = {{ service = "todo" }}
ready_timeout = 60
{more}

[tool.harness.channels.state]
url = "http://todo.test/test-state"
"""
TASK = {
    "task_id": "ORDER",
    "goal": "one order",
    "timeout": 120,
    "steps": [
        {"act": "open", "url": "http://www.todo.test/shop"},
        {"act": "click", "selector": "#post-order", "effect": "write"},
        {"act": "wait", "selector": "#order"},
    ],
    "success_criteria": ["json('state', 'orders.0.number') == 1", "text('#order') == 'order 1'"],
}
KILL = """
import os, signal
import psutil, pytest

@pytest.fixture(autouse=True)
def lost(request, taskspec_services):
    port = taskspec_services.hosts["todo.test"]
    for each in psutil.process_iter():
        try:
            line = " ".join(each.cmdline())
            if f"--port {port}" in line and "watchdog.py" not in line:
                os.kill(each.pid, signal.SIGKILL)
                each.wait(20)
        except psutil.Error:
            pass
"""
PAGE = """
def test_page(page, taskspec_services):
    page.goto("http://todo.test/shop")
    assert page.title() == "Shop"
    assert taskspec_services.url("todo.test").startswith("http://127.0.0.1:")
    assert set(taskspec_services.hosts) == {"todo.test", "www.todo.test"}
"""


def checkout(folder: Path, more: str = "", services_for: str = "tasks", **changes: object) -> Path:
    (folder / "tasks").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(SETTINGS.format(app=APP, more=more, services_for=services_for), "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    (folder / "tasks" / "order.task.json").write_text(json.dumps({**TASK, **changes}), "utf-8")
    return folder


def start(folder: Path, *args: str) -> Forked:
    return warm().start("pytest", "-p", "no:cacheprovider", "-v", *(args or ("tasks",)), cwd=folder)


def ended(run: Forked) -> str:
    said = run.communicate(timeout=240)[0]
    assert run.returncode == 0, said
    return said


def left(folder: Path) -> list[Path]:
    return list((folder / ".harness" / "services").iterdir())


@pytest.mark.thorough
def test_two_checkouts_and_two_runs_of_one_project_at_once_have_services_of_their_own(tmp_path: Path) -> None:
    """Each places the first order of its site: nobody else has placed one there."""
    one, other = checkout(tmp_path / "one"), checkout(tmp_path / "other")
    runs = [start(one), start(other), start(one, "tasks", "--task-artifacts", "errors-2")]
    for run in runs:
        assert "1 passed" in ended(run)
    assert left(one) == left(other) == [], "the folders of runs end with them"


@pytest.mark.thorough
def test_a_service_that_is_lost_before_a_channel_is_read_is_started_again(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "one", preconditions=["json('state', 'resets') == 0"])
    (folder / "conftest.py").write_text(KILL, "utf-8")
    assert "1 passed" in ended(start(folder))
    (events,) = (folder / ".harness" / "events").glob("*.jsonl")
    assert '"restarting"' in events.read_text("utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize("order", [("tests", "tasks"), ("tasks", "tests")])
@pytest.mark.sampled(1)
def test_page_tests_and_tasks_share_the_services_whichever_runs_first(tmp_path: Path, order: tuple[str, str]) -> None:
    folder = checkout(tmp_path / "one", services_for="session")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_page.py").write_text(PAGE, "utf-8")
    assert "2 passed" in ended(start(folder, *order))


ALONE = """
import json, time, urllib.request
import pytest

def state(url):
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)

@pytest.mark.parametrize("number", range(3))
def test_alone(taskspec_slot, number):
    url = taskspec_slot.url("todo.test") + "/test-state"
    first = state(url)
    assert first["orders"] == []
    order = {"item": "pen", "number": number}
    change = json.dumps({"orders": [order]}).encode()
    urllib.request.urlopen(urllib.request.Request(url, change, method="PATCH")).close()
    time.sleep(1)
    last = state(url)
    assert (last["orders"], last["resets"]) == ([order], first["resets"])
"""


@pytest.mark.parametrize("options", [("-n", "2"), ("--task-workers", "2")])
@pytest.mark.thorough
def test_an_ordinary_test_may_have_the_one_state_to_itself(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Reset for it, and by no task while it goes on, which another process may be running."""
    folder = checkout(tmp_path / "one", goal="${param.n}", parametrize={"n": ["a", "b", "c", "d"]})
    settings = folder / "pyproject.toml"
    settings.write_text(settings.read_text("utf-8").replace('isolation = "none"', 'isolation = "reset"'), "utf-8")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_alone.py").write_text(ALONE, "utf-8")
    assert "7 passed" in ended(start(folder, "tests", "tasks", *options))


def test_a_port_that_somebody_else_has_is_an_error_that_names_him(tmp_path: Path) -> None:
    taken = subprocess.Popen([sys.executable, str(APP), "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert taken.stdout is not None
        port = json.loads(taken.stdout.readline())["port"]
        run = start(checkout(tmp_path / "one"), "tasks", "--task-port", f"todo={port}")
        said = run.communicate(timeout=240)[0]
        assert run.returncode == 1
        assert f"cannot use port {port}, which is taken by pid {taken.pid} (" in " ".join(said.split())
    finally:
        taken.kill()
        taken.communicate()


HOOK = """
import os, signal, urllib.request
import psutil

def site(folder):
    for each in psutil.process_iter():
        try:
            words = each.cmdline()
            if "--port" in words and any(word.startswith(folder) for word in words) and "watchdog.py" not in str(words):
                return each, words[words.index("--port") + 1]
        except psutil.Error:
            pass

def kill(folder):
    process, _ = site(folder)
    process.kill()
    process.wait(20)

def pytest_taskspec_repair(config, task_id, precondition, memory):
    folder = str(config.rootpath)
    if "first" in precondition:
        kill(folder)
        return {"first": 1}
    if "second" in precondition:
        urllib.request.urlopen(f"http://127.0.0.1:{site(folder)[1]}/order", data=b"item=pen", timeout=10).close()
        kill(folder)
        return {"second": 1}
"""


@pytest.mark.thorough
def test_a_service_that_is_lost_is_there_again_for_the_repair_hook_and_for_the_steps_of_a_repair(
    tmp_path: Path,
) -> None:
    """The hook kills it by its process id; the hook's next call and a repair's `api` step place an order each."""
    order = {"act": "api", "method": "POST", "url": "http://todo.test/order", "value": "item=cup"}
    folder = checkout(
        tmp_path / "one",
        preconditions=["mem('first') == 1", "mem('second') == 1", "mem('third') == 1"],
        repairs=[{"precondition": "mem('third') == 1", "memory": {"third": 1}, "steps": [order]}],
        error_recovery={"on_precondition_fail": {"strategy": "attempt_repair"}},
        steps=[{"act": "open", "url": "http://todo.test/shop"}],
        success_criteria=["json('state', 'orders.1.number') == 2", "json('state', 'orders.0.item') == 'pen'"],
    )
    (folder / "conftest.py").write_text(HOOK, "utf-8")
    assert "1 passed" in ended(start(folder))
