"""The project of a file: its folder and its settings."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.model.settings import Settings


def project_of(place: Path) -> Path | None:
    """The project folder; None outside of any project. `place` is a file or a folder, existing or not."""
    return next((folder for folder in (place.absolute(), *place.absolute().parents) if _has_settings(folder)), None)


def schema_of(file: Path) -> tuple[Path, str]:
    """The place where the project of a task file has the schema of such files, and the same relative to the file."""
    place = (project_of(file.parent) or Path.cwd()) / "schemas" / "task_spec.schema.json"
    return place, Path(os.path.relpath(place, file.parent)).as_posix()


def settings_at(place: Path) -> Settings:
    """`[tool.harness]` of the project, or the defaults outside of any. Raises SettingsError."""
    from harness.model.settings import load_settings

    return load_settings(project_of(place) or (place if place.is_dir() else place.parent).absolute())


def settings_here(place: Path | None = None) -> Settings:
    """The same for a command, of the present folder by default; bad settings end the command."""
    from harness.cli.ending import fail
    from harness.model.settings_errors import SettingsError

    try:
        return settings_at(place or Path.cwd())
    except SettingsError as error:
        fail(str(error))


def _has_settings(folder: Path) -> bool:
    """Return whether the folder has settings. An unreadable file counts: loading it reports the error."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return False
    try:
        tool = tomllib.loads(file.read_text("utf-8")).get("tool")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return True
    return isinstance(tool, dict) and "harness" in tool
