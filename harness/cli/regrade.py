"""`harness regrade`: judges the present criteria of task files by the records of earlier runs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import AsJson, fail
from harness.cli.project import project_of, settings_here
from harness.reporting.archive import EVIDENCE
from harness.reporting.regrade import TaskFiles, evidence_folders, lines
from harness.reporting.regrade import regrade as judge
from harness.spec.problems import SpecError

_UNDECIDED = 3
"""The exit code if nothing fails and something is undecided."""


def regrade(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Folders with evidence. Default: failures and `--task-evidence all`."),
    ] = None,
    spec: Annotated[list[Path] | None, typer.Option(help="File or folder with the criteria. Repeatable.")] = None,
    at_failure: Annotated[bool, typer.Option("--at-failure", help="Also judge tasks that ended earlier.")] = False,
    allow_undecided: Annotated[bool, typer.Option("--allow-undecided", help="Exit with 0 if no task fails.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge recorded evidence by the present criteria.

    Exit code: 0 all tasks pass, 1 some fail, 3 none fails but some are undecided.

    Example: harness regrade errors/B1-2025-001
    """
    places = folders or _usual()
    document = asyncio.run(judge(_evidence(places), _files(spec, places), os.environ, at_failure=at_failure))
    typer.echo(json.dumps(document, indent=2) if as_json else "\n".join(lines(document)))
    counts = document["counts"]
    if not counts["tasks"] or counts["fail"]:
        raise typer.Exit(1)
    if counts["undecided"] and not allow_undecided:
        raise typer.Exit(_UNDECIDED)


def _usual() -> list[Path]:
    settings = settings_here()
    kept = sorted((settings.root / EVIDENCE).glob("[!.]*"))
    return [path for path in (settings.artifacts, *kept[-1:]) if path.is_dir()]


def _evidence(places: Sequence[Path]) -> list[Path]:
    if missing := [place for place in places if not place.is_dir()]:
        fail(f"there is no folder {missing[0]}")
    if found := dict.fromkeys(folder for place in places for folder in evidence_folders(place)):
        return list(found)
    where = ", ".join(map(str, places)) or "this project"
    fail(f"no evidence in {where}: failed tasks leave it under errors/, others with `pytest --task-evidence all`")


def _files(specs: Sequence[Path] | None, places: Sequence[Path]) -> TaskFiles:
    roots = dict.fromkeys([Path.cwd(), *filter(None, map(project_of, places))])
    try:
        return TaskFiles([*roots], specs or None, lambda file: settings_here(file.parent).defaults)
    except SpecError as error:
        fail(str(error))
