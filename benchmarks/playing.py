"""Runs pytest, or another program of the benchmarks, to its end, and collects the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ground import ROOT
from benchmarks.processes import MARK, remaining_processes
from benchmarks.processor import metered, settled
from benchmarks.witness import FILE

UNUSED = ("hypothesispytest", "faker", "pytest_httpserver", "anyio", "platformdirs", "rerunfailures", "cacheprovider")
"""Plugins of this environment that neither side uses."""
OURS = ("-p", "no:playwright")
THEIRS = ("-p", "no:taskspec", "-p", "no:allure_pytest")
ALONE = ("-p", "no:xdist", "-p", "no:xdist.looponfail")
LIMIT = 3600.0


@dataclass(frozen=True, slots=True)
class PytestRun:
    """The results of a finished run."""

    whole: float
    """Seconds that the process ran."""
    document: dict[str, Any]
    """The document of its witness."""
    output: str
    code: int
    spawned: float
    cpu: float
    """Seconds of processor time of the process and all that it started."""
    leftovers: tuple[str, ...] = ()

    @property
    def work(self) -> float:
        """Seconds from the beginning of the first test to the end of the last; the browser starts in the first."""
        return float(self.document["ended"] - self.document["began"]) if self.document else float("nan")

    @property
    def outcomes(self) -> dict[str, int]:
        """Outcome -> number of tests."""
        return dict(Counter(each[-1]["outcome"] for each in self.document.get("results", {}).values()))


def pytest(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, keep: bool = False
) -> PytestRun:
    """Run pytest in that folder, with a temporary folder of its own."""
    off = [part for name in UNUSED for part in ("-p", f"no:{name}")]
    return play(("-m", "pytest", "-p", "benchmarks.witness", *off, *arguments), folder, environment, keep=keep)


def play(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, *, keep: bool = False
) -> PytestRun:
    """Run Python in that folder. `keep`: look for processes and temporary files that it leaves."""
    run = uuid.uuid4().hex
    with (
        tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as temp,
        tempfile.NamedTemporaryFile() as said,
        metered() as meter,
    ):
        own = {MARK: run, "TMPDIR": temp, FILE: said.name, "PYTHONPATH": str(ROOT), **(environment or {})}
        spawned, began, used = time.time(), time.monotonic(), meter.seconds()
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env={**_inherited(), **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        whole = time.monotonic() - began
        cpu = settled(meter) - used
        text = Path(said.name).read_text("utf-8")
        document = json.loads(text) if text else {}
        leftovers = (
            (*remaining_processes(run), *sorted(f"temp file {path.name}" for path in Path(temp).iterdir()))
            if keep
            else ()
        )
    return PytestRun(whole, document, done.stdout, done.returncode, spawned, cpu, leftovers)


def _inherited() -> dict[str, str]:
    """The environment without the variable that makes every run compile those modules again that have no bytecode."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
