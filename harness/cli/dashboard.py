"""`harness dashboard`: one HTML file about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail
from harness.cli.project import settings_at
from harness.model.settings_errors import SettingsError
from harness.reporting.dashboard.build import dashboard as view_of
from harness.reporting.dashboard.evidence import Shelf, with_pictures
from harness.reporting.dashboard.page import page
from harness.reporting.dashboard.view import Dashboard
from harness.reporting.files import shown_path, write_text
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import load_run, recent_runs, task_points

_PAGE = Path("dashboard.html")


def dashboard(
    run: Annotated[str, typer.Option(help="last, last-1, an id, or its beginning.", metavar="RUN")] = "last",
    output: Annotated[
        Path | None, typer.Option(help=f"The file to write; it is replaced. Default: {_PAGE}.", show_default=False)
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the data as JSON; write no page.")] = False,
) -> None:
    """Write one HTML file about a run: causes, figures, trends.

    It works offline. It links to artifacts by relative paths, so keep it beside their folder.

    Example: harness dashboard --open
    """
    if as_json and (open_it or output is not None):
        fail("--json prints the data and writes no page: leave out --output and --open")
    target = output or _PAGE
    view, root = _view(run, target)
    if as_json:
        typer.echo(view.model_dump_json(indent=2))
        return
    try:
        write_text(target, page(with_pictures(view, root)))
    except OSError as error:
        why = f"{shown_path(target)} cannot be written: {error.strerror or error}"
        fail(f"{why}; free space there, or name another file with --output", file=target)
    typer.echo(f"dashboard: {shown_path(target)}")
    if open_it:
        typer.launch(target.absolute().as_uri())


def _view(name: str, target: Path) -> tuple[Dashboard, Path]:
    try:
        settings = settings_at(Path.cwd())
        root = settings.root.absolute()
        run = load_run(root, name)
        shelf = Shelf(root, settings.artifacts.absolute(), target.absolute().parent, {run.run, *run.merged_from})
        return view_of(run, recent_runs(root), task_points(root, not_green_in=run.run), shelf.find), root
    except (SettingsError, HistoryError) as error:
        fail(str(error))
