"""`harness show`: what a failed task left under `errors/`, read in the terminal."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.chosen_failure import (
    Artifacts,
    AsJson,
    Run,
    artifacts_root,
    folders_of,
    readable_or_end,
    unknown,
)
from harness.cli.ending import fail
from harness.cli.failure_page import line, page
from harness.cli.kept import cases_of, earlier, is_kept, named, task_id
from harness.cli.kept_document import listed, readable, whole
from harness.cli.project import settings_at
from harness.reporting.history import LAST_RUN, load_last_run
from harness.reporting.names import shown_path

NARROWEST = 60


def show(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK_ID|DIR", help="A task's id, or its directory; none: list all.")
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
        last_run = None if run is not None or artifacts is not None else _last_run()
        _list(root, folders, run, last_run, as_json)
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


def _last_run() -> str | None:
    """Its name, also when it was killed; None where there was none, or its record cannot be read."""
    from harness.history import HistoryError, recent_runs

    try:
        root = settings_at(Path.cwd()).root
    except ValueError:
        return None
    with contextlib.suppress(HistoryError):
        if runs := recent_runs(root, 1):
            return runs[0].run
    try:
        found = load_last_run(root / LAST_RUN)
    except ValueError:
        return None
    return found.run if found else None


def _tell(folders: list[Path], last_run: str | None) -> None:
    for kept in filter(None, map(readable, folders)):
        typer.echo(line(kept, last_run))


def _list_cases(folders: list[Path], run: str | None, as_json: bool) -> None:
    if as_json:
        _print(listed(folders, {}, None))
        return
    _tell(folders, None)
    option = f" --run {run}" if run is not None else ""
    typer.echo(f"one of them: harness show {shlex.quote(task_id(folders[0]))}{option}")


def _list(root: Path, folders: list[Path], run: str | None, last_run: str | None, as_json: bool) -> None:
    runs = earlier(root) if run is None else {}
    if as_json:
        _print(listed(folders, runs, last_run))
        return
    _tell(folders, last_run)
    if not folders:
        typer.echo(f"no failures under {shown_path(root)}")
    for name, kept in runs.items():
        typer.echo(f"earlier run {name}: {', '.join(folder.name for folder in kept)}")
