"""The project that a file belongs to: the nearest folder above it whose pyproject.toml has `[tool.harness]`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from harness.model.settings import Settings, load_settings


def project_of(place: Path) -> Path | None:
    """The folder; None outside of any project. `place` is a file or a folder, there or not."""
    return next((folder for folder in (place.absolute(), *place.absolute().parents) if _has_settings(folder)), None)


def settings_at(place: Path) -> Settings:
    """`[tool.harness]` of the project, the defaults outside of any. Raises SettingsError."""
    return load_settings(project_of(place) or (place if place.is_dir() else place.parent).absolute())


def _has_settings(folder: Path) -> bool:
    """A file that cannot be read counts: whoever loads it says what is wrong."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return False
    try:
        tool = tomllib.loads(file.read_text("utf-8")).get("tool")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return True
    return isinstance(tool, dict) and "harness" in tool
