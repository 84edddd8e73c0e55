"""A suite in parts on a small application, whose processes are taken away: what the tests of `--task-store` share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.reporting.history.reading import load_run
from harness.reporting.history.record import RunRecord
from tests.acceptance.warm import Forked, warm

BOUND = 90.0
PROJECT = """
[tool.harness.channels.env]
url = "{url}/test-state"
readonly = true
"""
QUIET = ("-p", "no:cacheprovider", "-q", "--tracing", "off")


class Suite:
    """The application, running, and a project with tasks for it. Tasks with an even number place an order."""

    def __init__(self, folder: Path, tasks: int, seconds: float = 0.2) -> None:
        command = [sys.executable, str(Path(__file__).with_name("stranger_app.py"))]
        self.app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.app.stdout is not None
        self.url = f"http://127.0.0.1:{json.loads(self.app.stdout.readline())['port']}"
        self.folder = folder
        self.ids = [f"T-{number}" for number in range(tasks)]
        self.started: list[Forked] = []
        (folder / "tasks").mkdir(parents=True)
        (folder / "pyproject.toml").write_text(PROJECT.format(url=self.url), "utf-8")
        for number in range(tasks):
            self.write(number, seconds)

    def write(self, number: int, seconds: float) -> None:
        """Write a task; it takes a little longer than so many seconds."""
        steps: list[dict[str, Any]] = [{"act": "open", "url": f"{self.url}/buy?item=i{number}&more="}]
        if number % 2 == 0:
            steps += [{"act": "click", "selector": "#post", "effect": "write"}, {"act": "wait", "selector": "#order"}]
        steps.append({"act": "open", "url": f"{self.url}/slow?seconds={seconds}"})
        document = {"task_id": f"T-{number}", "goal": "g", "timeout": 60, "step_timeout": 20, "steps": steps}
        (self.folder / "tasks" / f"T-{number}.task.json").write_text(json.dumps(document), "utf-8")

    def start(self, *arguments: str, environ: Mapping[str, str] = os.environ) -> Forked:
        """pytest as a process of its own; it is to be ended with `end`."""
        options = ("tasks/", *QUIET, *arguments)
        process = warm().start("pytest", *options, cwd=self.folder, environment=environ, start_new_session=True)
        self.started.append(process)
        return process

    def run(self, *arguments: str, environ: Mapping[str, str] = os.environ) -> tuple[int, str]:
        """Run to the end: exit status and output."""
        return end(self.start(*arguments, environ=environ))

    def placed(self) -> dict[str, int]:
        """How often each item was ordered."""
        found: dict[str, int] = self._state()["placed"]
        return found

    def asked(self, path: str) -> bool:
        """Whether a page was asked for."""
        return f"GET {path}" in self._state()["log"]

    def _state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/test-state", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def merge(self, place: str, output: Path, *more: str) -> tuple[RunRecord, str]:
        """The merged run, and what the command said."""
        return merged_store(place, output, *more)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.app.kill()
        self.app.communicate(timeout=BOUND)


def merged_store(place: object, output: Path, *more: str) -> tuple[RunRecord, str]:
    """The merged run of a store, and what the command said."""
    status, said = merging(place, output, *more)
    assert status == 0, said
    return load_run(output), said


def merging(place: object, output: Path, *more: str) -> tuple[int, str]:
    """The exit status of `harness merge`, and what it said."""
    done = CliRunner().invoke(app, ["merge", str(place), "--output", str(output), *more])
    return done.exit_code, done.stderr


def end(process: Forked) -> tuple[int, str]:
    """Wait for the end of a process: exit status and output."""
    try:
        output, _ = process.communicate(timeout=BOUND)
    finally:
        process.kill()
    return process.returncode, output


def until(holds: Callable[[], object]) -> None:
    """Wait until it holds; raises AssertionError if that takes too long."""
    stop = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < stop, "it took too long"
        time.sleep(0.02)


def ends_in(place: Path, task_id: str = "") -> int:
    """How many ends of tasks are in a store, or of this task."""
    lines = (line for file in place.rglob("*.jsonl") for line in file.read_text().splitlines())
    return sum(line.startswith('{"ended"') and f'"task_id":"{task_id}' in line for line in lines)


@contextmanager
def storage_of_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket. It is of moto, on this machine: nothing leaves it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        given = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "y", "DEFAULT_REGION": "us-east-1"}
        url = "http://{}:{}".format(*server.get_host_and_port())
        for name, value in {**given, "ENDPOINT_URL": url, "EC2_METADATA_DISABLED": "true"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        import boto3

        boto3.client("s3").create_bucket(Bucket="my-results")
        yield "s3://my-results"
    finally:
        server.stop()
