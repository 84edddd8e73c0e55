"""A pytest plugin that records a run in the same way for all contestants: `-p benchmarks.witness`.

`BENCH_WITNESS` names the file. It has the start and end of tests, their outcomes, and the growth of memory. With
`BENCH_KILL=N` every N-th test's end kills the browsers of this process. Where other processes run the tests, `began` is
when the first result came, and `first` when the first test began.
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.processes import browsers, sample

FILE = "BENCH_WITNESS"
EVERY = "BENCH_SAMPLE"
KILL = "BENCH_KILL"
FACTS = ("final_state", "error_type", "code")


class Witness:
    """Records one session; under xdist that of the controller."""

    def __init__(self, file: Path, every: int, kill: int) -> None:
        self._file, self._every, self._kill = file, every, kill
        self._began: float | None = None
        self._ended = 0.0
        self._first, self._last = float("inf"), 0.0
        self._results: dict[str, list[dict[str, Any]]] = {}
        self._samples: list[dict[str, float]] = []
        self._count = self._killed = 0

    def pytest_runtest_logstart(self) -> None:
        self._began = self._began or time.time()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the call of a test, or what came in place of it."""
        self._first, self._last = min(self._first, report.start), max(self._last, report.stop)
        if report.when == "call" or report.outcome != "passed":
            facts = {name: value for name, value in report.user_properties if name in FACTS}
            self._results.setdefault(report.nodeid, []).append(
                {"when": report.when, "outcome": report.outcome, "seconds": report.duration, **facts}
            )

    def pytest_runtest_logfinish(self) -> None:
        self._ended = time.time()
        self._count += 1
        if self._every and self._count % self._every == 0:
            self._samples.append({"tasks": self._count, **sample(os.getpid())})
        if self._kill and self._count % self._kill == 0:
            self._killed += sum(_killed(process) for process in browsers(os.getpid()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        document = {
            "began": self._began,
            "ended": self._ended,
            "first": self._first,
            "last": self._last,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "exit": int(exitstatus),
            "results": self._results,
            "samples": self._samples,
            "killed": self._killed,
        }
        self._file.write_text(json.dumps(document), "utf-8")


def _killed(process: psutil.Process) -> bool:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True


def pytest_configure(config: pytest.Config) -> None:
    if FILE in os.environ and not hasattr(config, "workerinput"):
        number = {name: int(os.environ.get(name, "0")) for name in (EVERY, KILL)}
        config.pluginmanager.register(Witness(Path(os.environ[FILE]), number[EVERY], number[KILL]), "bench-witness")
