"""What is forked from the warm process is a process as any other: for who speaks to it, awaits it and ends it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.warm import warm


def test_it_reads_its_input_to_the_end_and_answers(tmp_path: Path) -> None:
    with warm().start("json.tool", "--compact", cwd=tmp_path, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write("[1, 2]")
        assert process.communicate(timeout=30) == ("[1,2]\n", "")
    assert process.returncode == 0


def test_its_streams_may_be_apart(tmp_path: Path) -> None:
    process = warm().start("json.tool", "nowhere.json", cwd=tmp_path, stderr=subprocess.PIPE)
    said, told = process.communicate(timeout=30)
    assert (said, "nowhere.json" in told, process.returncode > 0) == ("", True, True)


def test_several_run_at_once_and_each_is_ended_by_its_own_signal(tmp_path: Path) -> None:
    both = [warm().start("http.server", "0", cwd=tmp_path, start_new_session=each) for each in (True, False)]
    assert [os.getpgid(each.pid) == each.pid for each in both] == [True, False]
    for each, number in zip(both, (signal.SIGTERM, signal.SIGKILL), strict=True):
        assert each.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            each.communicate(timeout=0.05)
        each.send_signal(number)
        each.communicate(timeout=30)
        assert (each.wait(), each.returncode) == (-number, -number)
        each.kill()  # of one that has ended nothing is left to kill


def test_it_sees_the_folder_and_the_environment_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "shows.py").write_text(
        "import os, sys, tempfile\nprint(os.getcwd(), os.environ['A'], tempfile.gettempdir(), sys.argv[1])", "utf-8"
    )
    process = warm().start("shows", "b", cwd=tmp_path, environment={"A": "a", "TMPDIR": str(tmp_path)})
    assert process.communicate(timeout=30)[0] == f"{tmp_path} a {tmp_path} b\n"
