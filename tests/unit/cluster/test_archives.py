"""What tasks leave, as archives that travel."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from harness.cluster.slot import TaskArchives, fitting


@pytest.fixture
def child(tmp_path: Path) -> Path:
    """The folder of a child, with the directory of a task."""
    errors = tmp_path / "child" / "errors" / "A"
    errors.mkdir(parents=True)
    (errors / "report.json").write_text("{}", "utf-8")
    return tmp_path / "child"


def test_an_archive_lies_beside_the_folder_of_the_process(child: Path) -> None:
    """The slot may read it after the end of the process, which removes its folder."""
    archive, lost = TaskArchives(child).pack([{"key": "A"}])
    assert archive is not None
    assert (archive.parent, lost) == (child.parent, "")
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["A/errors/report.json"]
    assert TaskArchives(child).pack([{"key": "A"}]) == (None, "")


def test_files_that_cannot_be_packed_are_named(child: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "add", full)
    archive, lost = TaskArchives(child).pack([{"key": "A"}])
    assert archive is None
    assert lost == "these files could not be packed ([Errno 28] No space left on device): A/errors/report.json"
    assert list(child.parent.glob("*.tar")) == []


def test_the_largest_files_are_left_out_first(tmp_path: Path) -> None:
    sizes = {"small": 10, "large": 100, "middle": 40}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
    files = {name: tmp_path / name for name in sizes}
    assert fitting(files, 1000) == (files, ())
    kept, left_out = fitting(files, 60)
    assert (sorted(kept), left_out) == (["middle", "small"], ("large",))
