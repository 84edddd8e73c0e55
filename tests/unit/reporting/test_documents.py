"""Files from elsewhere: a pipe, which would never end, is no document."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.failures import UnreadableReportError, read_kept
from harness.reporting.allure.results import written_run
from harness.reporting.files import read_json, read_regular, write_text


@pytest.mark.parametrize("read", [read_json, read_regular])
def test_a_pipe_and_a_device_are_not_read(read: object, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="not a regular file"):
            read(tmp_path / name)  # type: ignore[operator]


def test_a_report_that_is_a_pipe_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "error_report.json")
    with pytest.raises(UnreadableReportError, match=r"error_report\.json: not a regular file"):
        read_kept(tmp_path)


def test_allures_table_that_is_a_pipe_names_no_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "environment.properties")
    assert written_run(tmp_path) == ""


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", ["bef", "ore"])

    def until_full() -> Iterator[str]:
        yield "a"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'"):
        write_text(tmp_path / "a.txt", until_full())
    assert [path.read_text("utf-8") for path in tmp_path.iterdir()] == ["before"]
