"""Folders of a run that cannot be used: one sentence each, whoever starts the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.settings import Settings
from harness.reporting.workspace import unusable_folders
from harness.runner.sync import SyncHarness


@pytest.mark.parametrize("name", ["errors", ".harness"])
def test_a_file_in_the_place_of_a_folder_is_told_before_anything_starts(tmp_path: Path, name: str) -> None:
    """`harness verify`, `chaos` and `execute_task` make this object first; `replay` makes the one inside of it."""
    settings = Settings(root=tmp_path, artifacts=tmp_path / "errors")
    assert unusable_folders(settings) == []
    (tmp_path / name).touch()
    with pytest.raises(OSError, match=f"{name} is a file, where a folder is needed; .* move it away"):
        SyncHarness(settings)
