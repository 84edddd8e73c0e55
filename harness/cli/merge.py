"""`harness merge`: the results of shards or machines as those of one run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from harness.cli.ending import fail
from harness.reporting.names import shown_path

if TYPE_CHECKING:
    from harness.history.record import RunRecord
    from harness.history.shards import Shard


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Project folders, or what a CI system kept of them.")
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where the whole goes.")] = Path("merged"),
    strict: Annotated[bool, typer.Option("--strict", help="A folder that cannot be merged fails the command.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")] = False,
) -> None:
    """Put the last runs of several folders together: their tasks as one run, errors/ and allure-results/ beside it.

    Each folder holds .harness/history.sqlite3 (or history.sqlite3), errors/ and allure-results/. The output is a
    folder that reads like a project's: `harness history show --project merged`. Merged again, it keeps its history.
    Exit code: 0, 1 when nothing could be merged (with --strict: when one folder could not).

    Example: harness merge shard-1 shard-2 --output merged
    """
    shards, problems = _readable(folders)
    for problem in problems:
        _left_out(problem)
    if not shards or (strict and problems):
        fail("nothing was merged" + (": --strict refuses to leave out a folder" if shards else ""))
    run, others = _together(shards, output)
    for other in others:
        _left_out(other)
    counts = _counts(run)
    if as_json:
        document = {"run": run.run, "merged_from": run.merged_from, "output": str(output), "tasks": counts}
        typer.echo(json.dumps({**document, "left_out": [*problems, *others]}, indent=2))
        return
    told = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in counts.items() if number)
    typer.echo(f"{shown_path(output)}: run {run.run}, of {len(shards)} folders: {told}")


def _together(shards: list[Shard], output: Path) -> tuple[RunRecord, list[str]]:
    """The run, and the files that were left out."""
    from harness.cli.history_tables import plain
    from harness.history import HistoryError
    from harness.history.shards import put_together

    others: list[str] = []
    try:
        return put_together(shards, output, others.append), others
    except HistoryError as error:
        fail(plain(str(error)))
    except OSError as error:
        fail(plain(f"nothing was merged: {error}; make room, or name another place with --output"), file=output)


def _left_out(what: str) -> None:
    from harness.cli.history_tables import plain

    typer.echo(f"left out: {plain(what)}", err=True)


def _counts(run: RunRecord) -> dict[str, int]:
    """Of the tasks. Those that were cut off from outside have not failed."""
    from harness.history.record import Counted

    found = Counter(each.counted_as for each in run.last)
    return {kind.replace(" ", "_"): found[kind] for kind in get_args(Counted)}


def _readable(folders: list[Path]) -> tuple[list[Shard], list[str]]:
    """The folders that can be merged, each run once, and what is wrong with the others."""
    from harness.history import HistoryError
    from harness.history.merging import identity_of
    from harness.history.shards import shard_of

    shards: dict[str, Shard] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            shard = shard_of(folder)
        except (HistoryError, OSError) as error:
            problems.append(str(error))
            continue
        shards.setdefault(identity_of(shard.run), shard)
    return list(shards.values()), problems
