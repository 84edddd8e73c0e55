"""The folder that a report goes to: only one that a report was in is replaced, and only when the new one is whole."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.reporting.npm import ReportError

MARK = ".taskspec-report"
"""A folder that has it was made here, and may be made anew."""
_SAID = "Written by `harness report`: it replaces this folder.\n"
_OF_ALLURE = re.compile(
    r"app(-\w+)?\.js(\.LICENSE\.txt)?|styles?(-\w+)?\.css|favicon\.ico|index\.html|(summary|test-results)\.json|"
    r"assets|data|export|history|plugins?|widgets|traces|trace-viewer"
)
"""What Allure 2 and 3 write, and what stood beside it before there was the mark."""
_SURE = ({"index.html", "data", "widgets"}, {"index.html", "summary.json", "test-results.json"})
"""What is in each of its reports; the latter is one of a single file."""


def check_output(results: Path, output: Path, project: Path) -> None:
    """ReportError for a folder whose content is anybody else's, or that work is done in."""
    place = output.resolve()
    if results.resolve().is_relative_to(place):
        raise ReportError(f"{output} holds the results themselves: choose another output folder")
    for each, name in ((project, "the project"), (Path.cwd(), "the current folder")):
        if each.resolve().is_relative_to(place):
            raise ReportError(f"{output} is {name}, or holds it, and would be deleted: choose another output folder")
    if place.exists() and not place.is_dir():
        raise ReportError(f"{output} is a file: --output names a folder")
    if place.is_dir() and any(place.iterdir()) and not _is_report(place):
        raise ReportError(f"{output} is not empty and holds no report: choose another output folder")


def _is_report(folder: Path) -> bool:
    """Made here, or by a version that left no mark: then nothing but Allure's own files may be in it."""
    if (folder / MARK).is_file():
        return True
    names = {path.name for path in folder.iterdir()}
    return any(some <= names for some in _SURE) and all(map(_OF_ALLURE.fullmatch, names))


@contextmanager
def replaced(output: Path) -> Iterator[Path]:
    """A folder beside it to build in, which takes its place at the end; what was there stays until then.

    Raises ReportError for a disk that does not take it.
    """
    place = output.resolve()
    made = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        yield made
        _take_over(made, place)
    finally:
        shutil.rmtree(made, ignore_errors=True)  # of a report that was given up


def _take_over(made: Path, place: Path) -> None:
    try:
        (made / MARK).write_text(_SAID, "utf-8")
        _put(made, place)
    except OSError as error:
        raise ReportError(f"{place} cannot be written: {error}") from error


def _put(made: Path, place: Path) -> None:
    """By renaming; a folder that cannot be renamed, for a disk begins there, is emptied and filled."""
    old = made.with_name(f"{made.name}.old")
    try:
        if place.exists():
            place.rename(old)
    except OSError:
        _fill(made, place)
        return
    try:
        made.rename(place)
    except BaseException:
        if old.exists() and not place.exists():
            old.rename(place)
        raise
    if old.exists():
        shutil.rmtree(old)


def _fill(made: Path, place: Path) -> None:
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in made.iterdir():
        shutil.move(path, place / path.name)
