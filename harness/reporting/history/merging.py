"""Several runs as one: the shards of a suite, the machines of a night."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from harness.reporting.allure.files import write_allure_files
from harness.reporting.allure.results import HISTORY_2, HISTORY_3
from harness.reporting.files import inside, mark, safe_name, shown_path, write_json, write_text
from harness.reporting.history.file import HISTORY, HistoryError, place_of
from harness.reporting.history.reading import PREVIOUS, load_run
from harness.reporting.history.record import Ending, Execution, RunRecord
from harness.reporting.history.rows import stamp
from harness.reporting.history.writing import save_run
from harness.reporting.task_record import LAST_RUN, error_metrics, write_last_run

# Folders that shards or machines have left, put together into one that reads like a project's.

ERRORS, ALLURE = "errors", "allure-results"
MARK = Path(".harness/merged.json")
"""A folder that has it was made here, and may be made anew."""
_OWN = {MARK.parent.name, ERRORS, ALLURE}
"""What goes when the folder is made anew; all else there stays, pyproject.toml too: it may have been changed."""
_WRITTEN_ANEW = {"environment.properties", "categories.json", "executor.json", "allurerc.mjs"}
"""Files of Allure's results that are made anew: they are of one run, and the last one is a program."""
_PROJECT = "# Written by `harness merge`: so that commands take this folder for a project.\n[tool.harness]\n"


@dataclass(frozen=True, slots=True)
class ShardRun:
    """A folder and the last run in it."""

    folder: Path
    run: RunRecord


@dataclass(frozen=True, slots=True)
class Plain:
    """Only files and folders are copied: in a folder from elsewhere a link leads anywhere, a pipe never ends."""

    say: Callable[[str], object]

    def others(self, folder: str, names: list[str]) -> set[str]:
        """Of these names those of anything else, each of which is said; as `shutil.copytree` asks for them."""
        found = {name for name in names if not _is_plain(Path(folder, name))}
        for name in sorted(found):
            self.say(f"{shown_path(Path(folder, name))}: neither a file nor a folder")
        return found


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or path.is_dir())


def shard_of(folder: Path) -> ShardRun:
    """Raises HistoryError for a folder without a history, and for one whose history cannot be read."""
    if not folder.is_dir():
        raise HistoryError(f"{shown_path(folder)}: there is no such folder")
    if not place_of(folder).is_file():
        raise HistoryError(f"{shown_path(folder)}: neither {HISTORY} nor {HISTORY.name} is in it")
    return ShardRun(folder, load_run(folder))


def put_together(
    shards: Sequence[ShardRun], output: Path, say: Callable[[str], object] = lambda _line: None
) -> RunRecord:
    """The merged run, with all that was left of it, as `output`; what was merged there before stays in its history.

    `say` is told of each file that is left out: a link, a pipe, a device.
    Raises HistoryError for a folder there that was not made here, OSError for a disk that does not take it.
    """
    if output.exists() and not (output / MARK).is_file() and (not output.is_dir() or any(output.iterdir())):
        raise HistoryError(
            f"{shown_path(output)} is there, and was not made by `harness merge`; name a new folder with --output"
        )
    made = output.absolute().with_name(f".{output.name}.{os.getpid()}")
    shutil.rmtree(made, ignore_errors=True)
    try:
        run = _made(sorted(shards, key=lambda shard: (shard.run.started, shard.run.run)), made, output, Plain(say))
        _put(made, output)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return run


def _made(shards: Sequence[ShardRun], made: Path, output: Path, plain: Plain) -> RunRecord:
    (made / HISTORY.parent).mkdir(parents=True)
    _keep_histories(output, made, plain)
    run = merged(list(_with_errors(shards, made, plain)))
    _mark_errors(made, run)
    save_run(made, run)
    _copy_allure(shards, made, run, plain)
    records = [each.record for each in run.last if each.record is not None]
    write_last_run(made / LAST_RUN, run.run, records, run.finished)
    write_json(made / ".harness" / "metrics.json", {"run": run.run, **run.metrics})
    write_json(made / MARK, {"run": run.run, "merged_from": run.merged_from})
    write_text(made / "pyproject.toml", _PROJECT)
    return run


def _mark_errors(made: Path, run: RunRecord) -> None:
    """So that commands that read directories alone take those of all shards for failures of this one run."""
    counting = {Path(each.record.artifacts) for each in run.last if each.record and each.record.artifacts}
    for folder in (made / ERRORS).glob("*/"):
        mark(folder, run.run, counts=folder.relative_to(made) in counting)


def _keep_histories(output: Path, made: Path, plain: Plain) -> None:
    """Of the folder that was there: its runs, and what Allure knows of them."""
    for file in (HISTORY, HISTORY_3):
        if (output / file).is_file():
            shutil.copyfile(output / file, made / file)
    if (output / HISTORY_2).is_dir():
        shutil.copytree(output / HISTORY_2, made / HISTORY_2, ignore=plain.others)


def _put(made: Path, output: Path) -> None:
    """In the place of what was there, which goes only when the new one stands. What others wrote there stays."""
    old = made.with_name(f"{made.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.exists():
        output.rename(old)
    made.rename(output)
    for path in sorted(old.iterdir()) if old.exists() else ():
        if path.name not in _OWN:
            shutil.move(path, output / path.name)
    shutil.rmtree(old, ignore_errors=True)


def _with_errors(shards: Iterable[ShardRun], made: Path, plain: Plain) -> Iterator[RunRecord]:
    """Each run with the places that its failures have in the new folder; of one name, the later ones get a number."""
    taken: dict[str, Path] = {}
    moved: dict[str, Execution] = {}  # what two folders have is copied once
    for shard in shards:
        for each in shard.run.executions:
            if (name := identity_of_execution(each)) not in moved:
                moved[name] = _moved(each, shard.folder, made / ERRORS, taken, plain)
        found = (moved[identity_of_execution(each)] for each in shard.run.executions)
        yield shard.run.model_copy(update={"executions": tuple(found)})


def _moved(each: Execution, folder: Path, errors: Path, taken: dict[str, Path], plain: Plain) -> Execution:
    record = each.record
    if record is None or record.artifacts is None:
        return each
    source = _source(Path(record.artifacts), folder)
    if source is None:
        return each.model_copy(update={"record": record.model_copy(update={"artifacts": None})})
    key = _free(record.key, source, taken)
    if key not in taken:
        taken[key] = source
        shutil.copytree(source, errors / key, ignore=plain.others)
    found = record.model_copy(update={"artifacts": f"{ERRORS}/{key}", "key": key})
    return each.model_copy(update={"record": found})


def _source(artifacts: Path, folder: Path) -> Path | None:
    """The directory in the shard's folder: where its history says, or by its name below `errors`, on this machine."""
    parts = artifacts.parts
    known = [artifacts, folder / ERRORS / artifacts.name]
    if PREVIOUS in parts:
        known.insert(1, folder / ERRORS / Path(*parts[parts.index(PREVIOUS) :]))
    return next((place.resolve() for place in known if place.is_dir() and inside(folder, place)), None)


def _free(key: str, source: Path, taken: dict[str, Path]) -> str:
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
    """All results; their names are unique, so that of one name the first stays."""
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


_ENDINGS: tuple[Ending, ...] = ("unfinished", "interrupted", "finished")
"""The worst of them is that of the whole."""
_LEVELS = ("ok", "warning", "critical")
_AND = " | "
"""Between values of an environment that machines do not share."""


def merged(runs: Sequence[RunRecord]) -> RunRecord:
    """One run with the executions of all (at least one), each of them once, in the order of time.

    Its name follows from theirs, so that merging the same runs again gives the same.
    """
    runs = sorted(runs, key=lambda run: (stamp(run.started) or "", run.run, run.model_dump_json()))
    sources = tuple(sorted({name for run in runs for name in run.merged_from or (run.run,)}))
    executions = merged_executions(run.executions for run in runs)
    added_up = _parts(runs)
    done = all(run.finished for run in runs)
    statuses = [run.exit_status for run in runs if run.exit_status is not None]
    return RunRecord(
        run=f"{min(run.started for run in runs):%Y%m%dT%H%M%S}-merged-{_digest(sources, 8)}",
        started=min(run.started for run in runs),
        finished=max((run.finished for run in runs if run.finished), default=None) if done else None,
        ending=min((run.ending for run in runs), key=_ENDINGS.index),
        exit_status=max(statuses, default=None),
        project=_one(run.project for run in runs),
        arguments=runs[0].arguments if len({run.arguments for run in runs}) == 1 else (),
        environment=_environment([run.environment for run in runs]),
        commit=_one(run.commit for run in runs),
        branch=_one(run.branch for run in runs),
        ci=next((_safe(run.ci) for run in runs if run.ci), {}),
        shard=", ".join(sorted({part for run in runs for part in run.shard.split(", ") if part})),
        executions=executions,
        happenings=tuple(sorted({each.model_dump_json(): each for run in runs for each in run.happenings}.values(),
                                key=lambda each: stamp(each.at) or "")),
        metrics=_metrics([run.metrics for run in runs], list(added_up.values()), executions),
        added_up=added_up,
        merged_from=sources,
        note=_note(runs),
    )  # fmt: skip


def identity_of(run: RunRecord) -> str:
    """Two folders of which it is the same hold the same run, wherever their files lie."""
    return _digest([run.run, stamp(run.started) or "", *sorted(map(identity_of_execution, run.executions))], None)


def merged_executions(parts: Iterable[Sequence[Execution]]) -> tuple[Execution, ...]:
    """Those that are the same but for where their files lie are one; they are numbered anew, for each node."""
    distinct: dict[str, Execution] = {}
    for each in (each for part in parts for each in part):
        distinct.setdefault(identity_of_execution(each), each)
    numbers: Counter[str] = Counter()
    return tuple(
        _numbered(distinct[key], numbers) for key in sorted(distinct, key=lambda key: _when(distinct[key], key))
    )


def _when(each: Execution, identity: str) -> tuple[str, str, str]:
    """Those of which no time is known come first: what ran counts more than what was left out."""
    return (stamp(each.began) or "", each.nodeid, identity)


def identity_of_execution(each: Execution) -> str:
    """The same for one wherever its files lie, and whatever its number is."""
    record = each.record and each.record.model_copy(update={"artifacts": None, "key": ""})
    return each.model_copy(update={"record": record, "number": 1}).model_dump_json()


def _numbered(each: Execution, numbers: Counter[str]) -> Execution:
    numbers[each.nodeid] += 1
    return each.model_copy(update={"number": numbers[each.nodeid]})


def _digest(parts: Sequence[str], letters: int | None) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:letters]


def _one(values: Iterable[str]) -> str:
    """What all say that say anything; empty when they do not agree."""
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else ""


def _safe(ci: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A report makes a link of the URL: one that is no page of the web goes."""
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
    """The figures that are added up, of each run once: what was put together before brings those of its parts."""
    parts: dict[str, dict[str, Any]] = {}
    for run in runs:
        found = run.metrics.get("resilience")
        parts |= run.added_up or ({identity_of(run): found} if isinstance(found, dict) else {})
    return dict(sorted(parts.items()))


def _metrics(
    documents: Sequence[dict[str, Any]], resilience: Sequence[dict[str, Any]], executions: Sequence[Execution]
) -> dict[str, Any]:
    """Error rates are counted anew; other figures are added up, and of each threshold the worst stays."""
    last = {each.nodeid: each for each in executions}.values()
    thresholds = [found for each in documents if isinstance(found := each.get("thresholds"), dict)]
    return {
        "error_metrics": error_metrics([each.record for each in last if each.record is not None]),
        "resilience": _added(resilience),
        "thresholds": _worst(thresholds),
    }


def _added(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts; a mean (avgRecoveryTime) is that of the means, by the retries that worked."""
    names = dict.fromkeys(name for each in several for name in each)
    return {name: _mean(several, name) if name.startswith("avg") else _sum(several, name) for name in names}


def _sum(several: Sequence[dict[str, Any]], name: str) -> float:
    numbers: Iterable[float] = (each[name] for each in several if isinstance(each.get(name), int | float))
    return sum(numbers)


def _mean(several: Sequence[dict[str, Any]], name: str) -> float | None:
    known = [each for each in several if isinstance(each.get(name), int | float)]
    weights = [max(1, _sum([each], "successfulRetries")) for each in known]
    total = sum(weight * each[name] for weight, each in zip(weights, known, strict=True))
    return round(total / sum(weights), 3) if known else None


def _worst(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, reading in ((name, reading) for each in several for name, reading in each.items()):
        if isinstance(reading, dict) and (name not in found or _gravity(reading) > _gravity(found[name])):
            found[name] = reading
    return found


def _gravity(reading: dict[str, Any]) -> tuple[int, float]:
    level, value = str(reading.get("level")), reading.get("value")
    return (_LEVELS.index(level) if level in _LEVELS else 0, value if isinstance(value, int | float) else 0)
