"""Merges several runs into one: the shards of a suite, the machines of a night."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import JsonValue

from harness.reporting.allure.files import write_allure_files
from harness.reporting.allure.results import HISTORY as ALLURE_HISTORY
from harness.reporting.files import is_inside, mark, safe_name, shown_path, write_json, write_text
from harness.reporting.history.file import HISTORY, HistoryError, place_of
from harness.reporting.history.reading import PREVIOUS, load_run
from harness.reporting.history.record import Ending, Execution, PackedExecutions, RunRecord, packed, unpacked
from harness.reporting.history.rows import stamp
from harness.reporting.history.writing import save_run
from harness.reporting.task_record import LAST_RUN, TaskRecord, error_metrics, write_last_run

# Merges the folders of shards or machines into one with the layout of a project.

ERRORS, ALLURE = "errors", "allure-results"
_MARK = Path(".harness/merged.json")
"""A folder with this file was made here, and may be replaced."""
_OWN = {_MARK.parent.name, ERRORS, ALLURE}
"""The parts of the folder that are replaced; all others stay, pyproject.toml too, which may have been changed."""
_WRITTEN_ANEW = {"environment.properties", "categories.json", "executor.json", "allurerc.mjs"}
"""Files of Allure's results that are written again: they are about one run, and the last one is a program."""
_PROJECT = "# Written by `harness merge`: so that commands take this folder for a project.\n[tool.harness]\n"


class ShardRun(Struct, frozen=True):
    """A folder and the last run in it."""

    folder: Path
    run: RunRecord


class Plain(Struct, frozen=True):
    """Allows only files and folders to be copied: in a foreign folder a link leads anywhere, and a pipe never ends."""

    say: Callable[[str], object]

    def others(self, folder: str, names: list[str]) -> set[str]:
        """The names of anything else, each of which is reported; an `ignore` function for `shutil.copytree`."""
        paths = {name: Path(folder, name) for name in names}
        found = {name for name, path in paths.items() if path.is_symlink() or not (path.is_file() or path.is_dir())}
        for name in sorted(found):
            self.say(f"{shown_path(Path(folder, name))}: neither a file nor a folder")
        return found


def shard_of(folder: Path) -> ShardRun:
    """The last run of a folder. Raises HistoryError for a folder without a readable history."""
    if not folder.is_dir():
        raise HistoryError(f"{shown_path(folder)}: there is no such folder")
    if not place_of(folder).is_file():
        raise HistoryError(f"{shown_path(folder)}: it contains neither {HISTORY} nor {HISTORY.name}")
    return ShardRun(folder, load_run(folder))


def put_together(
    shards: Sequence[ShardRun], output: Path, say: Callable[[str], object] = lambda _line: None
) -> RunRecord:
    """Merge the runs and all their artifacts into `output`; a run that was merged there before stays in its history.

    `say` is called for each file that is left out: a link, a pipe, a device. Raises HistoryError for an output folder
    that was not made here, OSError if the disk does not allow it.
    """
    if output.exists() and not (output / _MARK).is_file() and (not output.is_dir() or any(output.iterdir())):
        raise HistoryError(
            f"{shown_path(output)} exists and was not made by `harness merge`; name a new folder with --output"
        )
    made = output.absolute().with_name(f".{output.name}.{os.getpid()}")
    shutil.rmtree(made, ignore_errors=True)
    try:
        run = _make_folder(
            sorted(shards, key=lambda shard: (shard.run.started, shard.run.run)), made, output, Plain(say)
        )
        _put_output(made, output)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return run


def _make_folder(shards: Sequence[ShardRun], made: Path, output: Path, plain: Plain) -> RunRecord:
    (made / HISTORY.parent).mkdir(parents=True)
    for file in (HISTORY, ALLURE_HISTORY):  # the runs of the old folder stay
        if (output / file).is_file():
            shutil.copyfile(output / file, made / file)
    run = merge_runs(list(_with_errors(shards, made, plain)))
    # Marked, so that commands which read only directories take all shards' failures for this run's.
    counting = {Path(each.record.artifacts) for each in run.last if each.record and each.record.artifacts}
    for folder in (made / ERRORS).glob("*/"):
        mark(folder, run.run, counts=folder.relative_to(made) in counting)
    save_run(made, run)
    _copy_allure(shards, made, run, plain)
    records = (each.record for each in run.last if each.record is not None)
    write_last_run(made / LAST_RUN, run.run, records, run.finished, run.metrics["error_metrics"])
    write_json(made / ".harness" / "metrics.json", {"run": run.run, **run.metrics})
    write_json(made / _MARK, {"run": run.run, "merged_from": run.merged_from})
    write_text(made / "pyproject.toml", _PROJECT)
    return run


def _put_output(made: Path, output: Path) -> None:
    """Replace the output by the new folder; the old one is deleted last. Files of others in it stay.

    If that is interrupted, the output is the old folder or the new one, with the files of others.
    """
    old = made.with_name(f"{made.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        if output.exists():
            output.rename(old)
        made.rename(output)
    finally:
        if old.exists() and not output.exists():
            old.rename(output)
        for path in sorted(old.iterdir()) if old.exists() else ():
            if path.name not in _OWN:
                shutil.move(path, output / path.name)
        shutil.rmtree(old, ignore_errors=True)


def _with_errors(shards: Iterable[ShardRun], made: Path, plain: Plain) -> Iterator[RunRecord]:
    """Each run with its failures' places in the new folder; if names collide, the later ones get a number."""
    taken: dict[str, Path] = {}
    moved: dict[str, dict[str, str | None]] = {}  # files that two folders have in common are copied once

    def in_new_folder(each: Execution, folder: Path) -> Execution:
        if each.record is None or each.record.artifacts is None:
            return each
        if (name := _identity_of_execution(each)) not in moved:
            moved[name] = _move_artifacts(each.record, folder, made / ERRORS, taken, plain)
        return each.model_copy(update={"record": each.record.model_copy(update=moved[name])})

    for shard in shards:
        found = PackedExecutions.of(in_new_folder(each, shard.folder) for each in shard.run.executions)
        yield shard.run.model_copy(update={"executions": found})


def _move_artifacts(
    record: TaskRecord, folder: Path, errors: Path, taken: dict[str, Path], plain: Plain
) -> dict[str, str | None]:
    """Copy the directory of a record; returns the fields that say where it is now."""
    source = _source(Path(record.artifacts or ""), folder)
    if source is None:
        return {"artifacts": None}
    key = _free_name(record.key, source, taken)
    if key not in taken:
        taken[key] = source
        shutil.copytree(source, errors / key, ignore=plain.others)
    return {"artifacts": f"{ERRORS}/{key}", "key": key}


def _source(artifacts: Path, folder: Path) -> Path | None:
    """The directory in the shard's folder: by its history's path, or by its name below `errors`, on this machine."""
    parts = artifacts.parts
    known = [artifacts, folder / ERRORS / artifacts.name]
    if PREVIOUS in parts:
        known.insert(1, folder / ERRORS / Path(*parts[parts.index(PREVIOUS) :]))
    return next((place.resolve() for place in known if _is_folder_in(folder, place)), None)


def _is_folder_in(folder: Path, place: Path) -> bool:
    try:
        return place.is_dir() and is_inside(folder, place)
    except OSError:  # no file can have the name
        return False


def _free_name(key: str, source: Path, taken: dict[str, Path]) -> str:
    """The name itself, unless a directory of another shard has it. A key that is a path becomes a name."""
    try:
        name = safe_name(key)
    except ValueError:
        name = "task"
    number, found = 1, name
    while taken.get(found, source) != source:
        number += 1
        found = f"{name}~{number}"
    return found


def _copy_allure(shards: Sequence[ShardRun], made: Path, run: RunRecord, plain: Plain) -> None:
    """Copy all results; their names are unique, so of equal names the first stays."""
    sources = [folder for shard in shards if (folder := shard.folder / ALLURE).is_dir() and not folder.is_symlink()]
    if not sources:
        return
    target = made / ALLURE
    target.mkdir()
    for folder in sources:
        names = sorted(path.name for path in folder.iterdir())
        others = plain.others(str(folder), names)
        for name in names:
            wanted = name not in others and name not in _WRITTEN_ANEW and (folder / name).is_file()
            if wanted and not (target / name).exists():
                shutil.copyfile(folder / name, target / name)
    write_allure_files(target, {**run.environment, "Run": run.run}, {})
    if run.ci:
        write_json(target / "executor.json", run.ci)


_ENDINGS: tuple[Ending, ...] = ("unfinished", "killed", "interrupted", "finished")
"""The worst of these endings is the ending of the whole."""
_LEVELS = ("ok", "warning", "critical")
_AND = " | "
"""Separates the values of an environment that differ between machines."""


def merge_runs(runs: Sequence[RunRecord]) -> RunRecord:
    """One run with the executions of all (at least one), each of them once, ordered by time.

    Its name follows from theirs, so that merging the same runs again gives the same name.
    """
    runs = sorted(runs, key=lambda run: (stamp(run.started) or "", run.run, identity_of(run)))
    sources = tuple(sorted({name for run in runs for name in run.merged_from or (run.run,)}))
    executions = merged_executions(run.executions for run in runs)
    added_up = _parts(runs)
    done = all(run.finished for run in runs)
    statuses = [run.exit_status for run in runs if run.exit_status is not None]
    whole = RunRecord(
        run=f"{min(run.started for run in runs):%Y%m%dT%H%M%S}-merged-{_digest(sources, 8)}",
        started=min(run.started for run in runs),
        finished=max((run.finished for run in runs if run.finished), default=None) if done else None,
        ending=min((run.ending for run in runs), key=_ENDINGS.index),
        exit_status=max(statuses, default=None),
        project=_common_value(run.project for run in runs),
        arguments=runs[0].arguments if len({run.arguments for run in runs}) == 1 else (),
        environment=_environment([run.environment for run in runs]),
        commit=_common_value(run.commit for run in runs),
        branch=_common_value(run.branch for run in runs),
        ci=next((_safe(run.ci) for run in runs if run.ci), {}),
        shard=", ".join(sorted({part for run in runs for part in run.shard.split(", ") if part})),
        durations=_common_value(run.durations for run in runs),
        happenings=tuple(sorted({each.model_dump_json(): each for run in runs for each in run.happenings}.values(),
                                key=lambda each: stamp(each.at) or "")),
        uncollected={file: why for run in runs for file, why in run.uncollected.items()},
        metrics=_metrics([run.metrics for run in runs], list(added_up.values()), executions.last),
        added_up=added_up,
        merged_from=sources,
        note=_note(runs),
    )  # fmt: skip
    return whole.model_copy(update={"executions": executions})  # they need no second check


def identity_of(run: RunRecord) -> str:
    """The identity of a run: two folders with the same one contain the same run, wherever their files lie."""
    return _digest([run.run, stamp(run.started) or "", *sorted(map(_identity_of_execution, run.executions))], None)


def merged_executions(parts: Iterable[Sequence[Execution]]) -> PackedExecutions:
    """The distinct executions, numbered again for each node; the places of their files do not count.

    Executions without a time come first, since one that ran counts more than one that was left out.
    """
    distinct: dict[str, tuple[str, str, bytes]] = {}
    for each in (each for part in parts for each in part):
        if (identity := _identity_of_execution(each)) not in distinct:
            distinct[identity] = (stamp(each.began) or "", each.nodeid, packed(each))
    numbers: Counter[str] = Counter()

    def numbered(document: bytes) -> bytes:
        each = unpacked(document)
        numbers[each.nodeid] += 1
        number = numbers[each.nodeid]
        return document if each.number == number else packed(each.model_copy(update={"number": number}))

    ordered = sorted(distinct, key=lambda identity: (*distinct[identity][:2], identity))
    return PackedExecutions((distinct[each][1], numbered(distinct[each][2])) for each in ordered)


def _identity_of_execution(each: Execution) -> str:
    """The identity of an execution: wherever its files lie, and whatever its number is."""
    record = each.record and each.record.model_copy(update={"artifacts": None, "key": ""})
    return _digest([each.model_copy(update={"record": record, "number": 1}).model_dump_json()], None)


def _digest(parts: Sequence[str], letters: int | None) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:letters]


def _common_value(values: Iterable[str]) -> str:
    """The value that all agree on, ignoring empty ones; empty if they do not agree."""
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else ""


def _safe(ci: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Remove a URL that is no web address, since a report makes a link of it."""
    web = str(ci.get("buildUrl", "")).startswith(("https://", "http://"))
    return ci if web else {name: value for name, value in ci.items() if name != "buildUrl"}


def _environment(several: Sequence[dict[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for each in several for name in each if name != "Run")
    values = {name: {v for each in several for v in each.get(name, "").split(_AND) if v} for name in names}
    return {name: _AND.join(sorted(found)) for name, found in values.items()}


def _note(runs: Sequence[RunRecord]) -> str:
    commits = sorted({run.commit for run in runs if run.commit})
    of_several = [f"of several commits: {', '.join(commits)}"] if len(commits) > 1 else []
    return "; ".join([*of_several, *dict.fromkeys(run.note for run in runs if run.note)])


def _parts(runs: Sequence[RunRecord]) -> dict[str, dict[str, Any]]:
    """The figures to be added up, each run's once: a merged run brings those of its parts."""
    parts: dict[str, dict[str, Any]] = {}
    for run in runs:
        found = run.metrics.get("resilience")
        parts |= run.added_up or ({identity_of(run): found} if isinstance(found, dict) else {})
    return dict(sorted(parts.items()))


def _metrics(
    documents: Sequence[dict[str, Any]], resilience: Sequence[dict[str, Any]], last: Iterable[Execution]
) -> dict[str, Any]:
    """Error rates are counted again; other figures are added up, and of each threshold the worst stays."""
    thresholds = [found for each in documents if isinstance(found := each.get("thresholds"), dict)]
    names = dict.fromkeys(name for each in resilience for name in each)
    return {
        "error_metrics": error_metrics(each.record for each in last if each.record is not None),
        "resilience": {name: (_mean if name.startswith("avg") else _sum)(resilience, name) for name in names},
        "thresholds": _worst_readings(thresholds),
    }


def _sum(several: Sequence[dict[str, Any]], name: str) -> float:
    numbers: Iterable[float] = (each[name] for each in several if isinstance(each.get(name), int | float))
    return sum(numbers)


def _mean(several: Sequence[dict[str, Any]], name: str) -> float | None:
    """A mean (avgRecoveryTime), weighted by the successful retries."""
    known = [each for each in several if isinstance(each.get(name), int | float)]
    weights = [max(1, _sum([each], "successfulRetries")) for each in known]
    total = sum(weight * each[name] for weight, each in zip(weights, known, strict=True))
    return round(total / sum(weights), 3) if known else None


def _worst_readings(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, reading in ((name, reading) for each in several for name, reading in each.items()):
        if isinstance(reading, dict) and (name not in found or _gravity(reading) > _gravity(found[name])):
            found[name] = reading
    return found


def _gravity(reading: dict[str, Any]) -> tuple[int, float]:
    level, value = str(reading.get("level")), reading.get("value")
    return (_LEVELS.index(level) if level in _LEVELS else 0, value if isinstance(value, int | float) else 0)
