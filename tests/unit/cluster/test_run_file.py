"""What a run keeps for the case that its driver ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.ledger import RunLedger
from harness.cluster.messages import Done
from harness.cluster.run_file import RunFile, read_run, unfinished_runs
from harness.pytest_plugin.cluster import ended_earlier


def done(node: str) -> Done:
    return Done(node, 1, ("f", 1, node), ({"when": "call"},), "/tmp/gone.tar")


def test_results_and_writes_are_found_again(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.add("wrote", "t::A")
    file.done(done("t::A"))
    file.add("wrote", "t::B")
    file.add("ran", "t.py::C")
    file.add("again", "t::D")
    file.add("crashed", "t::E", "lost")
    file.close(finished=False)
    found = read_run(tmp_path, "r1")
    assert found.project == "digest"
    assert list(found.done) == ["t::A"]
    assert found.done["t::A"].files == ""
    assert found.begun == {"t::B": "wrote", "t.py::C": "ran"}
    assert found.crashed == {"t::E": "lost"}


def test_a_line_that_a_killed_driver_has_not_finished_does_not_count(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.add("wrote", "t::A")
    file.close(finished=False)
    with file.path.open("ab") as opened:
        opened.write(b'["wrote", "t::B')
    assert read_run(tmp_path, "r1").begun == {"t::A": "wrote"}


def test_the_file_of_a_finished_run_is_deleted(tmp_path: Path) -> None:
    RunFile(tmp_path, "r1", "digest").close(finished=True)
    RunFile(tmp_path, "r2", "digest").close(finished=False)
    assert unfinished_runs(tmp_path) == ["r2"]


def test_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    for number in range(8):
        RunFile(tmp_path, f"r{number}", "digest").close(finished=False)
    assert len(unfinished_runs(tmp_path)) == 5
    assert "r7" in unfinished_runs(tmp_path)


def test_a_broken_file_is_an_error(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.close(finished=False)
    file.path.write_bytes(b"nonsense\n")
    with pytest.raises(ValueError, match="a line cannot be read"):
        read_run(tmp_path, "r1")


def test_what_does_not_run_again_when_a_run_is_gone_on_with(tmp_path: Path) -> None:
    file = RunFile(tmp_path, "r1", "digest")
    file.done(done("t::A"))
    file.add("wrote", "t::B")
    file.add("ran", "t.py::C")
    file.done(done("t::E1"))
    file.close(finished=False)
    nodes = ["t::A", "t::B", "t.py::C", "t::D", "t::E1", "t::E2"]
    ledger = RunLedger(dict.fromkeys(nodes, True), {"t::E1": "E", "t::E2": "E"})
    found = ended_earlier(read_run(tmp_path, "r1"), ledger)
    assert set(found) == {"t::A", "t::B", "t.py::C", "t::E1", "t::E2"}
    assert "had begun to write" in found["t::B"]
    assert "ordinary test" in found["t.py::C"]
    assert "the state of its episode was lost" in found["t::E2"]
