"""kill -9 while reports are written: what lies under errors/ is complete or absent, and no earlier report is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from harness.reporting.archive import DirectoryArchive
from harness.reporting.redaction import Redactor
from tests.acceptance.report_writer import KEY, main

KILLS = 50
SEED = 4


@pytest.mark.parametrize("seed", [SEED])
@pytest.mark.thorough
def test_every_directory_is_whole_or_absent_and_the_earlier_report_is_there(tmp_path: Path, seed: int) -> None:
    root, log = tmp_path / "errors", tmp_path / "done"
    log.touch()
    chance = random.Random(seed)
    pace = _pace(root, log)
    in_the_middle = 0
    for number in range(KILLS):
        _killed(root, f"run-{number:02}", log, number % 2, chance.uniform(0.0, 1.2 * pace))
        found = {_name(directory) for directory in _published(root) if _missing(directory) == []}
        assert len(found) == len(list(_published(root)))
        last = log.read_text().splitlines()[-1]
        assert last in found, f"{last} is lost"
        in_the_middle += any((root / ".tmp").glob("*/*"))
    assert in_the_middle > KILLS / 2, "the kills came at other moments than meant"
    assert len(log.read_text().splitlines()) >= KILLS / 2, "too few reports were finished to lose any"
    _swept(root)


def _pace(root: Path, log: Path) -> float:
    """Seconds that one report takes here and now."""
    writer = _started(root, "run", log)
    began = time.monotonic()
    _wait_for(log, 3)
    pace = (time.monotonic() - began) / 3
    _end(writer)
    return pace


def _wait_for(log: Path, reports: int) -> None:
    while len(log.read_text().splitlines()) < reports:
        time.sleep(0.002)


def _killed(root: Path, run: str, log: Path, reports: int, seconds: float) -> None:
    """Write some reports in a process of its own, and end that some time later, in the middle of the next."""
    finished = len(log.read_text().splitlines())
    writer = _started(root, run, log)
    _wait_for(log, finished + reports)
    time.sleep(seconds)
    _end(writer)


def _started(root: Path, run: str, log: Path) -> BaseProcess:
    """A process that has begun to write."""
    writers = multiprocessing.get_context("forkserver")
    writers.set_forkserver_preload(["tests.acceptance.report_writer"])
    writer = writers.Process(target=main, args=(root, run, log))
    writer.start()
    while not any((root / ".tmp").glob(f"{writer.pid}-*-{run}")):
        time.sleep(0.001)
    return writer


def _end(writer: BaseProcess) -> None:
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join(10)


def _name(directory: Path) -> str:
    """Run and number, as its report has them."""
    return str(json.loads((directory / "error_report.json").read_text())["error_message"])


def _published(root: Path) -> Iterator[Path]:
    """All that a reader takes for a report."""
    yield from (path for path in root.iterdir() if not path.name.startswith("."))
    yield from (path for path in (root / ".previous").glob(f"*/{KEY}*"))


def _missing(directory: Path) -> list[str]:
    """What the manifest names and is not there in full."""
    document = json.loads((directory / "manifest.json").read_text())
    taken = [entry for entry in document["artifacts"] if entry["status"] == "taken"]
    assert len(taken) == len(document["artifacts"]) == 9
    return [entry["name"] for entry in taken if _size(directory / entry["name"]) != entry["bytes"]]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _swept(root: Path) -> None:
    """The next process takes away what the dead ones left."""
    DirectoryArchive(root, "next", Redactor(), 3)
    assert not (root / ".tmp").exists() or list((root / ".tmp").iterdir()) == []
