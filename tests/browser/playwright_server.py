"""A real Playwright server as a child process, and what runs below it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

EMPTY = {"PLAYWRIGHT_BROWSERS_PATH": "/nowhere"}
"""It has no browser of its own: tests are to be the same wherever Playwright's download is."""


class PlaywrightServer:
    """`run-server` or `launch-server` on loopback. `kill` ends it with all below it."""

    def __init__(self, command: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "playwright", command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **EMPTY},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self.url = said.split()[-1] if "ws://" in said else ""
        assert self.url, said + self._process.stdout.read()

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

    def kill(self) -> None:
        if self._process.poll() is not None:
            return
        for process in [*psutil.Process(self._process.pid).children(recursive=True), self._process]:
            with suppress(psutil.NoSuchProcess):  # one of those above has ended it
                process.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait(10)


def _is_browser(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return any(part.startswith("--remote-debugging-") for part in command) and "--type=" not in " ".join(command)
