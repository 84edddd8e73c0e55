"""Runs pytest, or another program of the benchmarks, to its end, and says what it did."""

from __future__ import annotations

import json
import os
import resource
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
from benchmarks.processes import MARK, left
from benchmarks.witness import FILE

UNUSED = ("hypothesispytest", "pytest_httpserver", "anyio", "platformdirs", "rerunfailures", "cacheprovider")
"""Plugins of this environment that neither side uses."""
OURS = ("-p", "no:playwright")
THEIRS = ("-p", "no:taskspec", "-p", "no:allure_pytest")
ALONE = ("-p", "no:xdist", "-p", "no:xdist.looponfail")
LIMIT = 3600.0


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is over."""

    whole: float
    """Seconds of the process."""
    document: dict[str, Any]
    """What its witness wrote."""
    output: str
    code: int
    spawned: float
    cpu: float
    """Seconds of processor time, of it and of all that it waited for."""
    leftovers: tuple[str, ...] = ()

    @property
    def work(self) -> float:
        """Seconds from the beginning of the first test to the end of the last; the browser starts in the first."""
        return float(self.document["ended"] - self.document["began"]) if self.document else float("nan")

    @property
    def outcomes(self) -> dict[str, int]:
        """How many tests ended how."""
        return dict(Counter(each[-1]["outcome"] for each in self.document.get("results", {}).values()))


def pytest(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, keep: bool = False) -> Played:
    """pytest in that folder, with a temporary folder of its own."""
    off = [part for name in UNUSED for part in ("-p", f"no:{name}")]
    return play(("-m", "pytest", "-p", "benchmarks.witness", *off, *arguments), folder, environment, keep=keep)


def play(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, *, keep: bool = False
) -> Played:
    """Python in that folder. `keep`: look at what it leaves running, and in its temporary folder."""
    run = uuid.uuid4().hex
    with (
        tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as temp,
        tempfile.NamedTemporaryFile() as said,
    ):
        own = {MARK: run, "TMPDIR": temp, FILE: said.name, "PYTHONPATH": str(ROOT), **(environment or {})}
        spawned, began, used = time.time(), time.monotonic(), _used()
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        whole, cpu = time.monotonic() - began, _used() - used
        text = Path(said.name).read_text("utf-8")
        document = json.loads(text) if text else {}
        leftovers = (*left(run), *sorted(f"temp file {path.name}" for path in Path(temp).iterdir())) if keep else ()
    return Played(whole, document, done.stdout, done.returncode, spawned, cpu, leftovers)


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
