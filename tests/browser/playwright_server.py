"""A real Playwright server as a child process, and what runs below it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil

from harness.browser.os_process import kill_tree

EMPTY = {"PLAYWRIGHT_BROWSERS_PATH": "/nowhere"}
"""It has no browser of its own: tests are to be the same wherever Playwright's download is."""


@contextmanager
def closed_port() -> Iterator[int]:
    """A port on loopback that refuses, and that nobody else is given meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class PlaywrightServer:
    """`run-server` or `launch-server` on loopback. `kill` ends it with all below it."""

    def __init__(self, command: str, *options: str) -> None:
        self._temp = tempfile.mkdtemp()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "playwright", command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **EMPTY, "TMPDIR": self._temp},
            start_new_session=True,
        )
        said = list(self._until_its_url())
        self.url = said[-1].split()[-1] if said and "ws://" in said[-1] else ""
        if not self.url:
            self.kill()
            raise AssertionError("".join(said))

    def _until_its_url(self) -> Iterator[str]:
        """What it says, warnings of Node too."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line
            if "ws://" in line:
                return

    @classmethod
    def run(cls, *options: str) -> Self:
        return cls("run-server", "--host", "127.0.0.1", "--port", "0", "--path", "/browsers", *options)

    @classmethod
    def launch(cls, executable: Path, folder: Path, *args: str) -> Self:
        """One browser for all who connect."""
        config = folder / "launch.json"
        options = {"executablePath": str(executable), "args": [*args], "chromiumSandbox": False, "headless": True}
        config.write_text(json.dumps({**options, "host": "127.0.0.1"}))
        return cls("launch-server", "--browser", "chromium", "--config", str(config))

    def browsers(self) -> list[psutil.Process]:
        """The outermost process of each that runs."""
        below = psutil.Process(self._process.pid).children(recursive=True)
        ours = [process for process in below if _is_browser(process)]
        return [process for process in ours if process.ppid() not in {each.pid for each in ours}]

    def left(self) -> list[str]:
        """What lies in its temporary folder, of Playwright's."""
        return [name for name in os.listdir(self._temp) if name.startswith("playwright")]

    def kill(self) -> None:
        if self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._temp, ignore_errors=True)


def _is_browser(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return any(part.startswith("--remote-debugging-") for part in command) and "--type=" not in " ".join(command)
