"""However a run ends: no process, no port and no temporary folder of it is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.cli.demo import settings_text
from tests.acceptance.conftest import INI
from tests.browser.processes import words
from tests.ports import free_ports, listens

TASKS = Path(__file__).parents[2] / "tasks"
HOSTS = ("world", "shop", "bank", "gov", "util", "food", "transport", "stream", "travel", "models")
GONE_WITHIN = 30.0
BEGUN_WITHIN = 60.0
ENDED_WITHIN = 60.0


class Run:
    """pytest in a project with services of its own, and everything that comes of it."""

    def __init__(self, root: Path) -> None:
        self.root, self.temp = root, root / "tmp"
        self.temp.mkdir()
        self.ports = free_ports(len(HOSTS))
        hosts = {f"{host}.local": port for host, port in zip(HOSTS, self.ports, strict=True)}
        settings = settings_text(hosts).replace("health =", "ready_timeout = 30\nhealth =")
        (root / "pyproject.toml").write_text(settings, "utf-8")
        (root / "pytest.ini").write_text(INI, "utf-8")
        (root / "tasks").mkdir()
        self.seen: set[psutil.Process] = set()

    def ship(self, *names: str) -> None:
        shutil.copytree(TASKS / "files", self.root / "tasks" / "files")
        for name in names:
            shutil.copy(TASKS / f"{name}.task.yaml", self.root / "tasks")

    def write(self, name: str, *steps: dict[str, Any]) -> None:
        spec = {"task_id": name, "goal": "g", "timeout": 120, "step_timeout": 90, "steps": list(steps)}
        (self.root / "tasks" / f"{name}.task.json").write_text(json.dumps(spec), "utf-8")

    def start(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                f"--basetemp={self.root / 'base'}",
                "tasks",
                *options,
            ],
            cwd=self.root,
            env={**os.environ, "TMPDIR": str(self.temp), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.root_process = psutil.Process(self.process.pid)

    def in_a_step(self, count: int = 1) -> None:
        """Wait until so many tasks have taken their screenshot: they are in the long step after it."""
        limit = time.monotonic() + BEGUN_WITHIN
        while len(list(self.root.glob("errors/.tmp/*/*/screenshots/*.png"))) < count:
            assert self.process.poll() is None, self.end()
            assert time.monotonic() < limit
            time.sleep(0.02)
        self.look()

    def look(self) -> None:
        """All processes of the run as they are now; none of them writes elsewhere than it is told."""
        self.seen |= {self.root_process, *self.root_process.children(recursive=True), *self._with_its_folder()}
        elsewhere = (tempfile.gettempdir(), "/dev/shm")
        for process in self.seen:
            with contextlib.suppress(psutil.Error):
                for file in process.open_files():
                    assert not file.path.startswith(elsewhere) or file.path.startswith(str(self.root)), file.path

    def end(self) -> str:
        """Wait for its end; what it wrote."""
        return self.process.communicate(timeout=ENDED_WITHIN)[0]

    def nothing_is_left(self) -> None:
        limit = time.monotonic() + GONE_WITHIN
        while (left := self._left()) and time.monotonic() < limit:
            time.sleep(0.05)
        assert not left
        assert not [port for port in self.ports if listens(port)]

    def _left(self) -> list[str]:
        running = {each for each in (*self.seen, *self._with_its_folder()) if _runs(each)}
        folders = [*self.temp.iterdir(), *self.root.glob("errors/.tmp")]
        return [*map(_described, running), *map(str, folders)]

    def _with_its_folder(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("TMPDIR", "").startswith(str(self.temp)):
                    yield process


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _described(process: psutil.Process) -> str:
    return f"{process.pid} {' '.join(words(process))[:200]}"


OPEN = {"act": "open", "url": "http://shop.local/"}
HERE = {"act": "screenshot", "screenshot_id": "here"}
LONG = {"act": "wait", "value": 60}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    for process in run.seen:
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.fixture
def long(run: Run) -> Run:
    """A run of two tasks that take a long time."""
    for name in ("T-1", "T-2"):
        run.write(name, OPEN, HERE, LONG)
    return run


@pytest.mark.thorough
def test_after_shipped_tasks_that_pass_and_fail(run: Run) -> None:
    run.ship("B1-2025-001", "B1-2025-001-ERROR-TIMEOUT", "C2-2025-002-ERROR-ASSERTION", "H3-2025-004-ERROR-CHECKPOINT")
    run.write("Z-FAILS", OPEN, {"act": "assert", "selector": "h1", "value": "something else"})
    run.start()
    text = run.end()
    assert run.process.returncode == 1, text
    assert "1 failed, 4 passed" in text
    run.nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.thorough
def test_after_an_interruption(long: Run, number: signal.Signals) -> None:
    long.start()
    long.in_a_step()
    long.process.send_signal(number)
    long.end()
    report = json.loads((long.root / "errors" / "T-1" / "error_report.json").read_text("utf-8"))
    assert report["code"] == "INTERRUPTED"
    long.nothing_is_left()


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.thorough)])
def test_after_ctrl_c_for_the_whole_group_five_times(long: Run, workers: tuple[str, ...]) -> None:
    """As a terminal sends it: to every process of the group; and again, by who is impatient."""
    long.start(*workers)
    long.in_a_step(2 if workers else 1)
    for _ in range(5):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(long.process.pid, signal.SIGINT)
        time.sleep(0.2)
    _is_told_once(long, long.end())
    assert (long.root / "errors" / "T-1" / "error_report.json").is_file()
    long.nothing_is_left()


@pytest.mark.thorough
def test_five_times_ctrl_c_while_tasks_are_collected_end_the_run_with_one_line(long: Run) -> None:
    (long.root / "conftest.py").write_text(IMPATIENT, "utf-8")
    long.start()
    text = long.end()
    assert long.process.returncode == pytest.ExitCode.INTERRUPTED, text
    assert "Traceback" not in text
    assert text.count("the run is already ending") == 1, text
    assert "no tests ran" in text
    long.nothing_is_left()


IMPATIENT = """
import os, signal, threading, time

def press():
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)

def pytest_collection_modifyitems():
    threading.Thread(target=press, daemon=True).start()
    time.sleep(30)

def pytest_sessionfinish():
    time.sleep(1.2)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.sampled(1)
def test_a_second_signal_at_once_breaks_nothing_off(long: Run, second: signal.Signals) -> None:
    long.start()
    long.in_a_step()
    long.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    long.process.send_signal(second)
    text = long.end()
    _is_told_once(long, text)
    long.nothing_is_left()


@pytest.mark.thorough
def test_signals_while_the_reports_are_written_break_nothing_off(long: Run) -> None:
    """The conftest.py sends them: before pytest's summary, and while pytest is being unconfigured."""
    (long.root / "conftest.py").write_text(LATE, "utf-8")
    long.start("--task-workers", "2")
    long.in_a_step(2)
    long.process.send_signal(signal.SIGTERM)
    text = long.end()
    _is_told_once(long, text)
    assert (long.root / "errors" / "T-2" / "error_report.json").is_file()
    long.nothing_is_left()


@pytest.mark.thorough
def test_an_end_that_hangs_is_cut_off_after_a_second_signal(long: Run) -> None:
    hangs = "import time\nfrom harness.pytest_plugin import signals\nsignals.BOUND = 1.0\n"
    (long.root / "conftest.py").write_text(
        f"{hangs}def pytest_sessionfinish():\n    open('hangs', 'w').close()\n    time.sleep(300)\n", "utf-8"
    )
    long.start()
    long.in_a_step()
    long.process.send_signal(signal.SIGINT)
    limit = time.monotonic() + ENDED_WITHIN
    while not (long.root / "hangs").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    long.process.send_signal(signal.SIGINT)
    text = long.end()
    assert long.process.returncode == pytest.ExitCode.INTERRUPTED, text
    assert "had not ended 1 s later and was stopped" in text
    assert "Traceback" not in text
    assert (long.root / "errors" / "T-1" / "error_report.json").is_file()
    long.nothing_is_left()


LATE = """
import os, signal, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary():
    os.kill(os.getpid(), signal.SIGINT)

@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure():
    os.kill(os.getpid(), signal.SIGTERM)
"""


def _is_told_once(run: Run, text: str) -> None:
    assert run.process.returncode == pytest.ExitCode.INTERRUPTED, text
    assert "Traceback" not in text
    assert text.count("the run is already ending") == 1, text
    assert "interrupted: T-1; its report: errors/T-1" in text
    assert (run.root / ".harness" / "last-run.json").is_file()


@pytest.mark.parametrize("kill", [os.kill, os.killpg])
@pytest.mark.sampled(1)
def test_after_a_kill(long: Run, kill: Callable[[int, int], None]) -> None:
    """Of pytest alone, and of its whole process group."""
    long.start()
    long.in_a_step()
    kill(long.process.pid, signal.SIGKILL)
    long.end()
    long.nothing_is_left()


@pytest.mark.thorough
def test_after_a_kill_while_browser_and_driver_are_stopped(long: Run) -> None:
    """Nothing ends by itself: the reaper ends it."""
    long.start()
    long.in_a_step()
    for process in long.root_process.children(recursive=True):
        line = words(process)
        if "run-driver" in line or any("chrom" in part for part in line[:1]):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
    long.process.kill()
    long.end()
    long.nothing_is_left()


def _workers(run: Run) -> list[psutil.Process]:
    return [each for each in run.root_process.children() if "-c" in words(each)]


@pytest.mark.thorough
def test_after_a_kill_of_the_controller_of_xdist(long: Run) -> None:
    long.start("-n", "2")
    long.in_a_step(2)
    long.process.kill()
    long.end()
    long.nothing_is_left()


@pytest.mark.thorough
def test_after_a_kill_of_a_worker_of_xdist(run: Run) -> None:
    for name in ("T-1", "T-2"):
        run.write(name, OPEN, HERE, {**LONG, "value": 4})
    run.start("-n", "2")
    run.in_a_step(2)
    _workers(run)[0].kill()
    assert "1 failed, 1 passed" in run.end()
    run.nothing_is_left()
