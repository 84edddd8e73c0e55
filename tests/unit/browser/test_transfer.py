"""File names and folders of uploads and downloads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.browser.acts.files import free_path, resolve_upload
from harness.recovery.failure import Failed

FOLDER = Path("/nowhere/downloads")


@given(st.text(max_size=300))
def test_a_download_never_leaves_its_folder(name: str) -> None:
    path = free_path(FOLDER, name)
    assert path.parent == FOLDER
    assert path.name not in ("", ".", "..")
    assert "/" not in path.name
    assert len(path.name) <= 100


def test_names_that_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "a-2.csv").touch()
    assert free_path(tmp_path, "../../a.csv") == tmp_path / "a-3.csv"


def test_confined(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "a.txt").touch()
    (tmp_path / "b.txt").touch()
    (folder / "link").symlink_to(tmp_path / "b.txt")
    assert resolve_upload(folder, "a.txt") == folder / "a.txt"
    for value in ("../b.txt", "link", str(tmp_path / "b.txt"), "none.txt", "."):
        with pytest.raises(Failed) as raised:
            resolve_upload(folder, value)
        assert raised.value.failure.code == "INVALID_INPUT"
