"""Temporary folders of processes that were killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.resilience import SystemClock
from harness.runner.scratch import temporary_folder

LEAVE = """
import os
from harness.resilience import SystemClock
from harness.runner.scratch import temporary_folder
folder = temporary_folder(SystemClock())
print(folder.name, flush=True)
os._exit(9)
"""


FORGET = """
from pathlib import Path
import sys
from harness.resilience import SystemClock
from harness.runner.scratch import Scratch
scratch = Scratch(SystemClock(), Path(sys.argv[1]))
print(scratch.path, flush=True)
"""


class Later(SystemClock):
    """Two minutes from now."""

    def wall(self) -> datetime:
        return datetime.now(UTC) + timedelta(minutes=2)


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a process left behind that could not clean up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = subprocess.run(
        [sys.executable, "-c", LEAVE],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    folder = Path(found.stdout.strip())
    (folder / "inner").mkdir()
    return folder


def test_what_a_dead_process_left_is_swept(left: Path) -> None:
    with temporary_folder(Later()) as own:
        assert Path(own).is_dir()
        assert not left.exists()


def test_a_process_that_ends_without_closing_removes_its_folder_silently(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGET, str(tmp_path / ".tmp")],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TemporaryDirectory" not in found.stderr
    assert Path(found.stdout.strip()).parent == tmp_path
    assert not Path(found.stdout.strip()).exists()


def test_what_is_young_is_left_alone(left: Path) -> None:
    with temporary_folder(SystemClock()):
        assert left.is_dir()


def test_a_living_process_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder(Later()) as own, temporary_folder(Later()):
        assert Path(own).is_dir()


def test_what_is_not_ours_is_left_alone(left: Path) -> None:
    others = [left.with_name("taskspec-elsewhere-99999999-x"), left.with_name("taskspec-notes")]
    for other in others:
        other.mkdir()
    with temporary_folder(Later()):
        assert all(other.is_dir() for other in others)
