"""An application with one state that knows nothing of worlds: what `isolation` makes of it (docs/own-site.md)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FULL

APP = Path(__file__).with_name("stranger_app.py")
SETTINGS = """
[tool.harness]
base_url = "http://127.0.0.1:{port}"
{isolation}

[tool.harness.channels.state]
url = "http://127.0.0.1:{port}/test-state"
"""
SERVICE = """
[tool.harness.services.todo]
command = ["{{python}}", "{app}", "--port", "{{port}}"]
hosts = ["todo.test"]
health = "http://todo.test/health"
ready_timeout = 60
instances = 4
"""
LOGIN = [
    {"act": "open", "url": "/login"},
    {"act": "type", "selector": "#user", "value": "ann"},
    {"act": "type", "selector": "#password", "value": "s3cret-pass"},
    {"act": "click", "selector": "#login"},
    {"act": "wait", "selector": "#who"},
]
"""Steps that log in."""


def added(text: str) -> list[dict[str, Any]]:
    return [
        {"act": "type", "selector": "#text", "value": text},
        {"act": "click", "selector": "#add"},
        {"act": "wait", "selector": f"text={text}"},
    ]


def first_is(text: str) -> list[str]:
    """The task has added this, and nobody has before it."""
    return [f"json('state', 'todos[2].text') == '{text}'"]


FORM = {"content-type": "application/x-www-form-urlencoded"}
SLOW: dict[str, Any] = {
    "checkpoints": [1],
    "error_recovery": {"on_timeout": {"strategy": "retry_from_checkpoint"}},
    "step_timeout": 3,
    "steps": [
        {"act": "open", "url": "/login"},
        {"act": "api", "method": "POST", "url": "/todo", "headers": FORM, "value": "text=slow",
         "done_when": "json('state', 'todos[2].text') == 'slow'"},
        {"act": "open", "url": "/late?seconds=3.8"},
        {"act": "wait", "selector": "#late"},
    ],
    "success_criteria": first_is("slow"),
}  # fmt: skip
"""Goes back to a checkpoint once, over a write of its own."""
REPAIR: dict[str, Any] = {
    "preconditions": ["json('state', 'todos[1].done') == true"],
    "error_recovery": {"on_precondition_fail": {"strategy": "attempt_repair"}},
    "repairs": [{"steps": [{"act": "api", "method": "POST", "url": "/todo/1/done"}]}],
    "steps": [{"act": "open", "url": "/late?seconds=1"}, {"act": "wait", "selector": "#late"}],
    "success_criteria": ["json('state', 'todos[1].done') == true"],
}
"""Writes while another task goes back."""
TASKS: dict[str, dict[str, Any]] = {
    "T1-LOGIN": {"episode_id": "E", "steps": LOGIN, "success_criteria": ["text('#who') == 'ann'"]},
    "T2-OTHER": {"steps": [*LOGIN, *added("other")], "success_criteria": first_is("other")},
    "T3-SLOW": SLOW,
    "T4-STILL-IN": {
        "episode_id": "E",
        "dependencies": ["T1-LOGIN"],
        "steps": [{"act": "open", "url": "/"}, *added("again")],
        "success_criteria": ["text('#who') == 'ann'", *first_is("again")],
    },
    "T5-REPAIR": REPAIR,
    "T6-ORDER": {
        "steps": [{"act": "open", "url": "/shop"}, {"act": "click", "selector": "#post-order"}],
        "success_criteria": ["text('#order') == 'order 1'"],
    },
    "T7-ORDER": {
        "steps": [{"act": "open", "url": "/order?item=ink", "effect": "write"}],
        "success_criteria": ["text('#order') == 'order 1'", "json('state', 'orders[0].item') == 'ink'"],
    },
    "T8-WRONG": {
        "steps": [*LOGIN[:2], {"act": "type", "selector": "#password", "value": "no"}, LOGIN[3]],
        "expect": {"final_state": "aborted", "error_type": "authentication_failed", "step_index": 3},
    },
}
if not FULL:  # others log in and order, too
    del TASKS["T2-OTHER"], TASKS["T7-ORDER"]


OUTCOME: dict[str, tuple[str, list[str]]] = {
    **dict.fromkeys(TASKS, ("completed", [])),
    "T3-SLOW": ("completed", ["checkpoint_restored", "restore_incomplete", "timeout_escalated", "write_repeated"]),
    "T5-REPAIR": ("completed", ["precondition_repaired"]),
    "T8-WRONG": ("aborted", []),
}
"""How each task ends, and the types of its warnings, whatever runs beside it."""


@pytest.fixture
def port() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, str(APP)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield int(json.loads(process.stdout.readline())["port"])
    process.kill()
    process.wait(10)


def prepare(root: Path, port: int, isolation: str, tasks: dict[str, dict[str, Any]]) -> None:
    (root / "pyproject.toml").write_text(SETTINGS.format(port=port, isolation=isolation), "utf-8")
    for task_id, spec in tasks.items():
        document = {"task_id": task_id, "goal": task_id, "timeout": 60, "step_timeout": 20, **spec}
        (root / f"{task_id}.task.json").write_text(json.dumps(document), "utf-8")


def state(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/test-state", timeout=10) as answer:
        return dict(json.load(answer))


def records(root: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((root / ".harness" / "last-run.json").read_text("utf-8"))
    return {each["task_id"]: each for each in document["results"]}


def outcome(root: Path) -> dict[str, tuple[str, list[str]]]:
    """Task -> how it ended, and the types of its warnings."""
    found = sorted(records(root).items())
    return {name: (each["final_state"], sorted(known["type"] for known in each["warnings"])) for name, each in found}


def overlapping(root: Path) -> list[tuple[str, str]]:
    """Pairs of tasks that ran at the same time."""
    spans = []
    for name, each in records(root).items():
        begun = datetime.fromisoformat(each["started"])
        spans.append((begun, begun + timedelta(seconds=each["seconds"]), name))
    spans.sort()
    return [(one[2], two[2]) for one, two in pairwise(spans) if two[0] < one[1]]


@pytest.mark.parametrize(
    "options",
    [
        ("--task-workers", "4"),
        pytest.param((), marks=pytest.mark.thorough),
        pytest.param(("-n", "2"), marks=pytest.mark.thorough),
    ],
)
def test_reset_in_parallel_is_as_in_a_row(pytester: pytest.Pytester, port: int, options: tuple[str, ...]) -> None:
    prepare(pytester.path, port, 'isolation = "reset"', TASKS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)
    result.assert_outcomes(passed=len(TASKS))
    assert overlapping(pytester.path) == []
    assert state(port)["resets"] == len(TASKS) - 1, "the second task of the episode goes on"
    assert "isolation is not declared" not in result.stdout.str()
    assert outcome(pytester.path) == OUTCOME


@pytest.mark.thorough
def test_with_instances_as_many_run_at_once_each_on_its_own(pytester: pytest.Pytester) -> None:
    prepare(pytester.path, 0, 'isolation = "reset"', TASKS)
    service = SERVICE.format(app=APP)
    text = SETTINGS.format(port=0, isolation='isolation = "reset"').replace("127.0.0.1:0", "todo.test")
    (pytester.path / "pyproject.toml").write_text(text + service, "utf-8")
    seen: list[Any] = []
    for options in (("--task-workers", "4"), ("-n", "2")):
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)
        result.assert_outcomes(passed=len(TASKS))
        assert overlapping(pytester.path), "with an instance each, tasks need not wait for each other"
        seen.append(outcome(pytester.path))
    assert seen[0] == seen[1]


@pytest.mark.thorough
def test_undeclared_stays_in_a_row_and_says_what_to_declare(pytester: pytest.Pytester, port: int) -> None:
    """TODO-SLOW went back to its checkpoint, and undid what TODO-REPAIR had done meanwhile."""
    prepare(pytester.path, port, "", {"A-SLOW": SLOW, "B-REPAIR": REPAIR})
    result = pytester.runpytest_subprocess("--task-workers", "4")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([
        "isolation is not declared, so tasks run one at a time, because channel `state` can be written.",
        '*isolation = "world"*', '*isolation = "reset"*', '*isolation = "none"*',
    ])  # fmt: skip
    assert overlapping(pytester.path) == []
    assert state(port)["todos"][1:] == [{"text": "Call Eve", "done": True}, {"text": "slow", "done": False}]
    again = pytester.runpytest_subprocess("B-REPAIR.task.json")
    again.assert_outcomes(passed=1)
    assert "isolation is not declared" not in again.stdout.str(), "said once, where it changed nothing"


@pytest.mark.thorough
def test_without_isolation_nothing_of_another_task_is_put_back(pytester: pytest.Pytester, port: int) -> None:
    tasks = {"A-SLOW": SLOW, "B-REPAIR": REPAIR}
    prepare(pytester.path, port, 'isolation = "none"\nparallel = true', tasks)
    result = pytester.runpytest_subprocess("--task-workers", "2")
    result.assert_outcomes(passed=2)
    found = records(pytester.path)
    assert overlapping(pytester.path) == [("A-SLOW", "B-REPAIR")]
    assert "restore_incomplete" in str(found["A-SLOW"]["warnings"])
    left = state(port)
    assert left["todos"][1]["done"] is True, "the write of B-REPAIR stands"
    assert [line for line in left["log"] if line == "POST /todo"] == ["POST /todo"], "and A-SLOW wrote once"


@pytest.mark.thorough
def test_a_reset_that_fails_ends_the_task_before_its_first_step(pytester: pytest.Pytester, port: int) -> None:
    code = "print('the database is locked'); raise SystemExit(3)"
    isolation = f'isolation = "reset"\nreset = ["{{python}}", "-c", "{code}"]'
    prepare(pytester.path, port, isolation.replace("{python}", "{{python}}").format(), {"T6-ORDER": TASKS["T6-ORDER"]})
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RESET_FAILED*", "*ended with 3: the database is locked*", "*hint:*reset*"])
    assert state(port)["orders"] == []


@pytest.mark.thorough
def test_verify_and_execute_task_reset_too(pytester: pytest.Pytester, port: int) -> None:
    prepare(pytester.path, port, 'isolation = "reset"', {"T2-OTHER": TASKS["T2-OTHER"]})
    command = [str(Path(sys.executable).with_name("harness")), "verify", "T2-OTHER.task.json"]
    found = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    verified = state(port)["resets"]
    assert verified >= 2, "before each run with no steps, and before the one as written"
    code = "from harness import execute_task, load_task\nassert execute_task(load_task('T2-OTHER.task.json')).ok\n" * 2
    subprocess.run([sys.executable, "-c", code], cwd=pytester.path, check=True, timeout=120)
    assert state(port)["resets"] == verified + 2


class Listening(BaseHTTPRequestHandler):
    """Keeps the headers of every request."""

    seen: list[dict[str, str]]

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
        body = b'{"a": 1}' if self.path == "/state" else b"<h1>Hello</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if self.path == "/state" else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def listening() -> Iterator[tuple[int, list[dict[str, str]]]]:
    seen: list[dict[str, str]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Listening,), {"seen": seen}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1], seen
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("setting", "header"), [('world_header = "X-Test-World"', "x-test-world"), ('world_cookie = "tenant"', "cookie")]
)
@pytest.mark.sampled(1)
def test_the_world_is_named_as_the_project_says(
    pytester: pytest.Pytester, listening: tuple[int, list[dict[str, str]]], setting: str, header: str
) -> None:
    """To the page, to an `api` step and by the channel, alike."""
    port, seen = listening
    steps = [{"act": "open", "url": "/"}, {"act": "api", "url": "/api"}]
    prepare(pytester.path, port, f'isolation = "world"\n{setting}', {"T": {"steps": steps}})
    path = pytester.path / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace("/test-state", "/state"), "utf-8")
    task = json.loads((pytester.path / "T.task.json").read_text("utf-8"))
    task["success_criteria"] = ["json('state', 'a') == 1"]
    (pytester.path / "T.task.json").write_text(json.dumps(task), "utf-8")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    told = {each["path"]: each[header] for each in seen if each["path"] in ("/", "/api", "/state")}
    assert set(told) == {"/", "/api", "/state"}
    assert len({value.removeprefix("tenant=") for value in told.values()}) == 1
    assert told["/"].endswith(".T")
