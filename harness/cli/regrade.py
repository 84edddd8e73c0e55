"""`harness regrade`: the criteria of task files as they are now, judged by what runs have recorded."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.project import fail, project_of, settings_at
from harness.model.settings import SettingsError
from harness.spec.defaults import Defaults
from harness.spec.problems import SpecError

if TYPE_CHECKING:
    from harness.runner.regrade.regrading import Regraded, SkippedEvidence, Tasks

UNDECIDED = 3
"""Exit code when nothing fails and something cannot be told."""


def regrade(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR",
            help="Directories of evidence, or folders of them; none: the project's failures and its last run with "
            "`--task-evidence all`.",
        ),
    ] = None,
    spec: Annotated[
        list[Path] | None,
        typer.Option(help="Take the criteria from this file or folder; may be given several times."),
    ] = None,
    at_failure: Annotated[
        bool, typer.Option("--at-failure", help="Judge tasks that ended before their criteria by how they were then.")
    ] = False,
    allow_undecided: Annotated[
        bool, typer.Option("--allow-undecided", help="What cannot be told is no reason to fail.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Judge the criteria of task files, as they are now, by recorded evidence, without a browser.

    Exit codes: 0 all pass, 1 some fail, 3 none fails but some cannot be told (`--allow-undecided`: 0).

    Example: harness regrade errors/B1-2025-001
    """
    from harness.runner.regrade.regrading import regrade as judge

    places = folders or list(_usual())
    evidence = _evidence(places)
    judged, left_out = asyncio.run(judge(evidence, _tasks(spec, places), os.environ, at_failure=at_failure))
    _tell(judged, left_out, as_json=as_json)
    verdicts = {each.standing.verdict for each in judged}
    if not judged or "fail" in verdicts:
        raise typer.Exit(1)
    if "undecided" in verdicts and not allow_undecided:
        raise typer.Exit(UNDECIDED)


def _evidence(places: Sequence[Path]) -> list[Path]:
    """The directories in these folders, each once."""
    from harness.runner.regrade.recorded import evidence_folders

    if missing := [place for place in places if not place.is_dir()]:
        fail(f"there is no folder {missing[0]}")
    found = dict.fromkeys(folder for place in places for folder in evidence_folders(place))
    if not found:
        where = ", ".join(map(str, places)) or "this project"
        fail(
            f"no evidence in {where}: tasks that fail leave it under errors/, others with `pytest --task-evidence all`"
        )
    return list(found)


def _tell(judged: Sequence[Regraded], left_out: Sequence[SkippedEvidence], *, as_json: bool) -> None:
    from harness.runner.regrade.lines import as_json as document
    from harness.runner.regrade.lines import lines

    if as_json:
        typer.echo(json.dumps(document(judged, left_out), indent=2))
    else:
        typer.echo("\n".join(lines(judged, left_out)))


def _usual() -> Iterator[Path]:
    """The failures of the project here, and the last run whose passing tasks were kept."""
    from harness.reporting.passing import EVIDENCE

    try:
        settings = settings_at(Path.cwd())
    except SettingsError as error:
        fail(str(error))
    runs = settings.root / EVIDENCE
    kept = sorted(path for path in runs.iterdir() if not path.name.startswith(".")) if runs.is_dir() else []
    yield from (path for path in (settings.artifacts, *kept[-1:]) if path.is_dir())


def _tasks(specs: Sequence[Path] | None, places: Sequence[Path]) -> Tasks:
    from harness.runner.regrade.regrading import NamedTasks, OwnTasks

    if not specs:
        projects = (project_of(place) for place in places)
        return OwnTasks(list(dict.fromkeys([Path.cwd(), *filter(None, projects)])), _defaults)
    try:
        return NamedTasks(specs, _defaults)
    except SpecError as error:
        fail(str(error))


def _defaults(file: Path) -> Sequence[Defaults]:
    """What the project of a task file says for its tasks."""
    try:
        return settings_at(file.parent).defaults
    except SettingsError as error:
        fail(str(error))
