"""A project of its own for each test, on demo sites that all of them share."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest

from tests.acceptance.warm import UNUSED, Forked, Warm, shared_driver, warm

PYPROJECT = """
[tool.harness]
isolation = "world"

[tool.harness.services.demo]
hosts = {{ {hosts} }}
health = "http://world.local/health"
identity = {{ service = "taskspec-demo" }}

[tool.harness.channels.env]
url = "http://world.local/env"
clock = "world.now"
"""

collect_ignore = ["pairs"]
"""Its task files are run by test_pairs.py, on a site of theirs."""
T = TypeVar("T")
INI = f"[pytest]\naddopts = {' '.join(f'-p no:{name}' for name in UNUSED)}\n"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the runs of a test share one driver of Playwright, unless it is marked `own_driver`."""
    Warm.own_driver = item.get_closest_marker("own_driver") is not None


def pytest_unconfigure() -> None:
    """End the shared driver of this process, if there is one: a forked worker calls nothing at its own end."""
    shared_driver(os.getpid()).close()


@pytest.fixture(scope="session")
def sites() -> Iterator[dict[str, int]]:
    """Host -> port of the demo sites, running."""
    with warm().start("harness.demo", "--port", "0", stderr=2) as process:
        assert process.stdout is not None
        hosts = json.loads(process.stdout.readline())["hosts"]
        yield hosts
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def becomes(condition: Callable[[], bool]) -> bool:
    """Wait for something that comes by itself, half a minute at most; returns whether it has."""
    return any(condition() or time.sleep(0.05) for _ in range(600))


Wanted = Callable[[Mapping[str, T], str], dict[str, T]]


@pytest.fixture(scope="module")
def wanted(request: pytest.FixtureRequest) -> Wanted[Any]:
    """Choose from cases those whose `name` the tests of one function ask for: no other need be played."""

    def choose(cases: Mapping[str, T], test: str) -> dict[str, T]:
        items = (item for item in request.session.items if isinstance(item, pytest.Function))
        here = [item for item in items if item.path == request.path and item.originalname == test]
        names = {item.callspec.params["name"] for item in here}
        return {name: case for name, case in cases.items() if name in names}

    return choose


class Project:
    """A folder with tasks, and pytest run in it as a user would."""

    def __init__(self, pytester: pytest.Pytester, sites: dict[str, int]) -> None:
        self.pytester = pytester
        self.path = Path(pytester.path)
        hosts = ", ".join(f'"{host}" = {port}' for host, port in sites.items())
        (self.path / "pyproject.toml").write_text(PYPROJECT.format(base=min(sites.values()), hosts=hosts), "utf-8")
        (self.path / "pytest.ini").write_text(INI, "utf-8")

    def task(self, task_id: str, **spec: Any) -> Path:
        """Write a task; without steps it opens the shop."""
        document = {
            "task_id": task_id,
            "goal": f"goal of {task_id}",
            "timeout": 60,
            "step_timeout": 10,
            "error_recovery": {"on_element_not_found": {"wait_seconds": 1}},
            "steps": [{"act": "open", "url": "http://shop.local/"}],
            **spec,
        }
        path = self.path / f"{task_id}.task.json"
        path.write_text(json.dumps(document, indent=1), "utf-8")
        return path

    def run(self, *args: str, timeout: float = 120) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess("-p", "no:cacheprovider", *args, timeout=timeout)

    def play(self, *args: str) -> str:
        """The same without a pytester, for runs that several tests look at; what was written."""
        return warm().run("pytest", "-p", "no:cacheprovider", *args, cwd=self.path, timeout=600).stdout

    def start(self, *args: str) -> Forked:
        """pytest as a process that can be interrupted, and leads a process group of its own."""
        return warm().start("pytest", *args, cwd=self.path, start_new_session=True)

    def report(self, task_id: str, root: str = "errors") -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.path / root / task_id / "error_report.json").read_text("utf-8"))
        return document


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """One whose runs begin where the imports end."""

    def popen(command: list[str], stdin: object, stdout: IO[str], stderr: IO[str]) -> Forked:
        assert command[1] == "-mpytest"
        return warm().start("pytest", *command[2:], stdout=stdout, stderr=stderr)

    monkeypatch.setattr(pytester, "popen", popen)
    return pytester


@pytest.fixture
def project(pytester: pytest.Pytester, sites: dict[str, int]) -> Project:
    return Project(pytester, sites)
