"""Runs documented commands in their projects: to their end, or until they have answered and Ctrl-C ends them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.documented_project import write_projects, write_runs
from tests.acceptance.warm import Forked, harness, warm

PREPARED = (
    "pytest tasks/ --alluredir allure-results --task-evidence all --task-recording full --task-summary summary.md"
    " --junit-xml junit.xml --task-timeout-scale 3 --task-breaker off --task-github-annotations --task-shard 1/1"
)
"""What commands about the last run look at. One run shows what all of these options do."""
MERGE = "harness merge shard-1 shard-2 shard-3 --output merged"
ALONE = {
    **dict.fromkeys(("CI", "GITHUB_ACTIONS", "GITLAB_CI", "DISPLAY", "WAYLAND_DISPLAY", "PYTEST_ADDOPTS"), ""),
    "COLUMNS": "200",
    "GITHUB_STEP_SUMMARY": "summary.md",
}
"""Where tests run is no matter of theirs."""
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Done:
    """What a command said, on both channels, and its exit code."""

    said: str
    code: int


class Sandbox:
    """The projects beside each other; what a command has done there is known when it is asked for again."""

    def __init__(self, base: Path, sites: dict[str, int]) -> None:
        self._base, self._done = base, dict[tuple[str, str], Done]()
        self._environment = {**ALONE, "PATH": f"{base / 'bin'}{os.pathsep}{os.environ['PATH']}", "BROWSER": "true"}
        write_projects(base, sites)

    def prepare(self) -> None:
        """Make the run that the commands in `done` look at."""
        prepared = self.run(PREPARED, "done")
        assert prepared.code == 1, prepared.said
        write_runs(self._base / "done")
        assert self.run(MERGE, "done").code == 0

    def run(self, line: str, folder: str = "shop") -> Done:
        """To its end."""
        if (folder, line) not in self._done:
            module, *arguments = self._words(line)
            ran = warm().run(module, *arguments, cwd=self._base / folder, timeout=120, **self._environment)
            self._done[folder, line] = Done(ran.stdout + ran.stderr, ran.returncode)
        return self._done[folder, line]

    def serve(self, line: str, says: str, folder: str = "shop") -> Done:
        """Until it has said this, and what it serves has answered; then Ctrl-C."""
        if (folder, line) not in self._done:
            self._done[folder, line] = self._served(line, says, folder)
        return self._done[folder, line]

    def _served(self, line: str, says: str, folder: str) -> Done:
        (module, *arguments), place = self._words(line), self._base / folder
        with tempfile.TemporaryFile("w+") as output:
            forked = warm().start(module, *arguments, stdout=output, cwd=place, environment=self._environment)
            try:
                said = _awaited(output.fileno(), says)
                addresses = _ADDRESS.findall(said)  # not every site of the demo has a page there
                assert not addresses or any(_status(each) == 200 for each in addresses), said
            finally:
                os.kill(forked.pid, signal.SIGINT)
                code = _ended(forked)
            return Done(_whole(output.fileno()), code)

    def close(self) -> None:
        """What a command was to keep running."""
        harness("services", "stop", cwd=self._base / "kept", **self._environment)

    def _words(self, line: str) -> list[str]:
        """The module, and its arguments; variables are filled in as a shell does."""
        known = {name: value for name, value in self._environment.items() if f"${name}" in line}
        for name, value in known.items():
            line = line.replace(f"${name}", value)
        program, *arguments = shlex.split(line)
        if program == "python":
            assert arguments[0] == "-m", line
            return arguments[1:]
        return [{"pytest": "pytest", "harness": "tests.acceptance.command"}[program], *arguments]


def _status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _awaited(file: int, says: str) -> str:
    deadline = time.monotonic() + _LONGEST
    while not re.search(says, said := _whole(file)):
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    return said


def _whole(file: int) -> str:
    return os.pread(file, 1 << 20, 0).decode()


def _ended(forked: Forked) -> int:
    """The exit code; of one that does not heed Ctrl-C there is none."""
    try:
        return forked.wait(_LONGEST)
    except subprocess.TimeoutExpired:
        forked.kill()
        forked.wait()
        raise
