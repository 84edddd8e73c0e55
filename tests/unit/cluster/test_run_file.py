"""What a run keeps for the case that its driver ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cluster.messages import Done
from harness.cluster.run_file import RunFile, RunIsDrivenError, read_run, unfinished_runs
from harness.model.ledger import Note


def done(node: str) -> Done:
    return Done(node, 1, ("f", 1, node), ({"when": "call"},), "/tmp/gone.tar")


def test_results_and_writes_are_found_again(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.add(Note("wrote", "t::A"))
    file.add(done("t::A"))
    file.add(Note("wrote", "t::B"))
    file.add(Note("running", "t.py::C"))
    file.add(Note("again", "t::D"))
    file.add(Note("crashed", "t::E", "lost"))
    file.close(finished=False)
    found = read_run(tmp_path, "r1")
    assert found.project == "digest"
    assert list(found.done) == ["t::A"]
    assert found.done["t::A"].files == ""
    assert found.notes == [
        Note("wrote", "t::A"),
        Note("over", "t::A"),
        Note("wrote", "t::B"),
        Note("running", "t.py::C"),
        Note("again", "t::D"),
        Note("crashed", "t::E", "lost"),
    ]


def test_a_line_that_a_killed_driver_has_not_finished_does_not_count(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.add(Note("wrote", "t::A"))
    file.close(finished=False)
    with file.path.open("ab") as opened:
        opened.write(b'["wrote", "t::B')
    assert read_run(tmp_path, "r1").notes == [Note("wrote", "t::A")]


def test_the_file_of_a_finished_run_is_deleted(tmp_path: Path) -> None:
    RunFile(tmp_path, "r1", "digest").close(finished=True)
    RunFile(tmp_path, "r2", "digest").close(finished=False)
    assert unfinished_runs(tmp_path) == ["r2"]


def test_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    for number in range(8):
        RunFile(tmp_path, f"r{number}", "digest").close(finished=False)
    assert len(unfinished_runs(tmp_path)) == 5
    assert "r7" in unfinished_runs(tmp_path)


@pytest.mark.parametrize(
    "line", [b"nonsense", b"5", b'["wrote"]', b'["other", "t::A", ""]', b'{"type": "beat", "number": 1}', b"\xff", b""]
)
def test_a_broken_line_is_an_error_with_its_place(tmp_path: Path, line: bytes) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.close(finished=False)
    with file.path.open("ab") as opened:
        opened.write(line + b"\n")
    with pytest.raises(ValueError, match=r"r1\.jsonl:2: this line cannot be read: .*run the tasks anew"):
        read_run(tmp_path, "r1")


def test_a_file_that_has_lost_its_beginning_is_an_error(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.close(finished=False)
    file.path.write_bytes(b'["wrote", "t::A", ""]\n')
    with pytest.raises(ValueError, match=r"r1\.jsonl:1: the digest of the project is missing"):
        read_run(tmp_path, "r1")


def test_a_run_that_is_gone_on_with_keeps_its_file(tmp_path: Path) -> None:
    """Else the earlier file would stay, and whoever goes on with that again would do the same tasks again."""
    file = RunFile(tmp_path, "r1", "digest")
    file.add(Note("wrote", "t::A"))
    file.close(finished=False)
    with file.path.open("ab") as opened:
        opened.write(b'["wrote", "t::B')  # the driver was killed
    again = RunFile(tmp_path, "r1", "digest", goes_on=True)
    again.add(Note("wrote", "t::C"))
    assert read_run(tmp_path, "r1").notes == [Note("wrote", "t::A"), Note("wrote", "t::C")]
    again.close(finished=True)
    assert unfinished_runs(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        RunFile(tmp_path, "r1", "digest", goes_on=True)


def test_a_run_that_is_driven_is_not_gone_on_with(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    with pytest.raises(RunIsDrivenError, match="another process drives the run r1 now"):
        RunFile(tmp_path, "r1", "digest", goes_on=True)
    file.close(finished=False)
    RunFile(tmp_path, "r1", "digest", goes_on=True).close(finished=False)


def test_half_a_line_on_a_full_disk_does_not_spoil_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    write = os.write
    monkeypatch.setattr(os, "write", lambda target, line: write(target, line[: len(line) // 2]))
    with pytest.raises(OSError, match="the disk is full"):
        file.add(Note("wrote", "t::A"))
    monkeypatch.undo()
    file.add(Note("wrote", "t::B"))
    file.close(finished=False)
    assert read_run(tmp_path, "r1").notes == [Note("wrote", "t::B")]
