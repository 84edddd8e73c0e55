"""`harness show`: what a failed task left under `errors/`, read in the terminal."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.chosen_failure import (
    LAST,
    Artifacts,
    AsJson,
    Run,
    artifacts_root,
    folders_of,
    last_run,
    readable_or_end,
    the_failure,
    unknown,
)
from harness.cli.ending import fail
from harness.cli.failure_page import line, page
from harness.cli.kept import cases_of, earlier, is_kept, named, task_id
from harness.cli.kept_document import listed, readable, whole
from harness.reporting.files import shown_path

NARROWEST = 60


def show(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK_ID|DIR", help="A task's id, its directory, or `last`; none: list all.")
    ] = None,
    run: Run = None,
    artifacts: Artifacts = None,
    as_json: AsJson = False,
) -> None:
    """Show what a failed task left: what was tried, why it failed, which files; without a task, list all.

    Example: harness show B1-2025-001
    """
    if task is not None and run is None and is_kept(Path(task)):
        _show([Path(task)], as_json)
        return
    root = artifacts or artifacts_root()
    folders = folders_of(root, run)
    if task is None:
        _list(root, folders, run, None if run is not None or artifacts is not None else last_run(), as_json)
        return
    if task == LAST:
        _show([the_failure(task, run, artifacts, "harness show").folder], as_json)
        return
    found = named(folders, task)
    if not found and (cases := cases_of(folders, task)):
        _list_cases(cases, run, as_json)
        return
    if not found:
        fail(unknown(root, folders, task, run))
    _show(found, as_json)


def _show(folders: list[Path], as_json: bool) -> None:
    """Whole; one that cannot be read ends the command."""
    found = [readable_or_end(folder) for folder in folders]
    if as_json:
        _print(whole(found))
        return
    width = max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)
    typer.echo("\n\n".join(page(kept, width) for kept in found))


def _print(document: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def _tell(folders: list[Path], of_last_run: str | None) -> None:
    for kept in filter(None, map(readable, folders)):
        typer.echo(line(kept, of_last_run))


def _list_cases(folders: list[Path], run: str | None, as_json: bool) -> None:
    if as_json:
        _print(listed(folders, {}, None))
        return
    _tell(folders, None)
    option = f" --run {run}" if run is not None else ""
    typer.echo(f"one of them: harness show {shlex.quote(task_id(folders[0]))}{option}")


def _list(root: Path, folders: list[Path], run: str | None, newest: str | None, as_json: bool) -> None:
    runs = earlier(root) if run is None else {}
    if as_json:
        _print(listed(folders, runs, newest))
        return
    _tell(folders, newest)
    if not folders:
        typer.echo(f"no failures under {shown_path(root)}")
    for name, kept in runs.items():
        typer.echo(f"earlier run {name}: {', '.join(folder.name for folder in kept)}")
