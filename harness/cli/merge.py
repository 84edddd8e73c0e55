"""`harness merge`: the results of shards or machines as those of one run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, get_args

import typer
from msgspec import Struct

from harness.cli.ending import AsJson, fail
from harness.reporting.files import shown_path
from harness.reporting.history.file import HistoryError
from harness.reporting.history.merging import ShardRun, identity_of, put_together, shard_of
from harness.reporting.history.record import Counted, RunRecord, missing_parts, unequal_parts
from harness.runner.stored_merge import find_parts, is_stored, lost_notes, merge_part
from harness.spec.names import blank_unprintable, how_many
from harness.store import StoreError


class Readable(Struct, frozen=True):
    """What can be read of the named folders."""

    shards: list[ShardRun]
    """The runs that can be merged, each once."""
    problems: list[str]
    """The problems of the folders that cannot be merged."""
    twice: list[str]
    """The folders whose run is in another folder too."""
    unfinished: list[str]
    """The parts of which tasks have no end."""
    lost: list[str]
    """What a store has lost of what processes told there."""


def merge(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR|URL...",
            help="Project folders, what CI kept of them, or places of --task-store (`*`: several).",
        ),
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the merged run.")] = Path("merged"),
    strict: Annotated[
        bool, typer.Option("--strict", help="Merge nothing if a folder cannot be merged or a part is missing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Merge the runs of several folders, machines or stores into one.

    Each folder holds .harness/history.sqlite3 (or history.sqlite3), errors/ and allure-results/; a store's place
    counts with all its parts. Other commands read the output folder as a project. Missing parts of a suite that
    --task-shard divided, and tasks without an end, are named.
    Exit code: 1 when nothing could be merged, or a store has lost what a part told (with --strict: when not everything
    could, or tasks have no end).

    Example: harness merge shard-1 shard-2 --output merged
    """
    with TemporaryDirectory(prefix="taskspec-merge-", ignore_cleanup_errors=True) as fetched:
        _merge(_readable(folders, Path(fetched)), output, strict=strict, as_json=as_json)


def _merge(found: Readable, output: Path, *, strict: bool, as_json: bool) -> None:
    missing = missing_parts(shard.run.shard for shard in found.shards)
    missing += unequal_parts((shard.run.shard, shard.run.durations) for shard in found.shards)
    missing += found.unfinished
    missing += [
        f"{file} could not be collected in run {shard.run.run}, which ran {how_many(len(shard.run.last), 'task')}"
        for shard in found.shards
        for file in sorted(shard.run.uncollected)
    ]
    _tell("left out: ", found.problems)
    _tell("", found.twice)
    _tell("warning: ", missing)
    _tell("lost: ", found.lost)
    _refuse(found, missing, strict)
    run, others = _merge_runs(found.shards, output)
    _tell("left out: ", others)
    counts = _counts(run)
    if as_json:
        document = {"run": run.run, "merged_from": run.merged_from, "output": str(output), "tasks": counts}
        said = {"left_out": [*found.problems, *others], "named_twice": found.twice, "missing_parts": missing}
        typer.echo(json.dumps({**document, **said, "lost": found.lost}, indent=2))
    else:
        told = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in counts.items() if number)
        typer.echo(f"{shown_path(output)}: run {run.run}, of {how_many(len(found.shards), 'folder')}: {told}")
    if found.lost:
        raise typer.Exit(1)


def _refuse(found: Readable, missing: list[str], strict: bool) -> None:
    """End the command if there is nothing to merge, or if a missing part is not allowed."""
    if not found.shards:
        fail("nothing was merged")
    if strict and found.problems:
        fail("nothing was merged, because --strict allows no folder to be left out")
    if strict and (missing := [*missing, *found.lost]):
        fail(f"nothing was merged, because --strict requires every part: {'; '.join(missing)}")


def _merge_runs(shards: list[ShardRun], output: Path) -> tuple[RunRecord, list[str]]:
    others: list[str] = []
    try:
        return put_together(shards, output, others.append), others
    except HistoryError as error:
        fail(blank_unprintable(str(error)))
    except OSError as error:
        why = f"nothing was merged: {error}; free space, or name another folder with --output"
        fail(blank_unprintable(why), file=output)


def _tell(before: str, lines: list[str]) -> None:
    for line in lines:
        typer.echo(f"{before}{blank_unprintable(line)}", err=True)


def _counts(run: RunRecord) -> dict[str, int]:
    """The numbers of tasks by result. Tasks cut off from outside have not failed."""
    found = Counter(each.counted_as for each in run.last)
    return {kind.replace(" ", "_"): found[kind] for kind in get_args(Counted)}


def _readable(folders: list[str], fetched: Path) -> Readable:
    """`fetched`: a folder for what stores of other machines have."""
    found = Readable([], [], [], [], [])
    known: dict[str, str] = {}
    for folder, read in _sources(folders, fetched, found):
        try:
            shard = read()
        except (HistoryError, StoreError, OSError) as error:
            found.problems.append(str(error))
            continue
        number = len(known)
        first = known.setdefault(identity_of(shard.run), folder)
        if len(known) > number:
            found.shards.append(shard)
        else:
            same = folder == first or ("://" not in folder and Path(folder).resolve() == Path(first).resolve())
            what = "named more than once" if same else f"the same run as in {_shown(first)}"
            found.twice.append(f"{_shown(folder)}: {what}; it counts once")
    return found


def _sources(folders: list[str], fetched: Path, found: Readable) -> Iterator[tuple[str, Callable[[], ShardRun]]]:
    """Each folder, and each part in a store, by its name, with the function that reads it."""
    for number, name in enumerate(folders):
        if not is_stored(name):
            yield name, partial(shard_of, Path(name))
            continue
        try:
            found.lost.extend(lost_notes(name))
            parts = find_parts(name)
        except StoreError as error:
            found.problems.append(str(error))
            continue
        for place, part in enumerate(parts):
            target = fetched / f"{number}-{place}"
            yield part.shown, partial(merge_part, part, target, found.unfinished.append)


def _shown(name: str) -> str:
    return name if "://" in name else shown_path(Path(name))
