"""Folders that cannot be used say why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.reporting.workspace import unusable


def test_what_can_be_made_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert [unusable(tmp_path), unusable(tmp_path / "new" / "deep"), unusable(tmp_path / "link")] == [None] * 3


def test_a_file_and_a_link_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    (tmp_path / "lost").symlink_to("/nowhere")
    assert unusable(tmp_path / "file") == "is a file, where a folder is needed"
    assert unusable(tmp_path / "lost") == "is a link that leads nowhere (/nowhere)"


@pytest.mark.parametrize("name", ["", "new"])
def test_what_nobody_may_write(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(os, "access", lambda path, _: bool(asked.append(path)))
    assert unusable(tmp_path / name) == "cannot be written"
    assert asked == [tmp_path]
