"""Folders that shards or machines have left, put together into one that reads like a project's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.history.artifacts import PREVIOUS
from harness.history.file import HISTORY, HistoryError, place_of
from harness.history.merging import identity_of_execution, merged
from harness.history.reading import load_run
from harness.history.record import Execution, RunRecord
from harness.history.writing import save_run
from harness.reporting.allure_files import write_allure_files
from harness.reporting.documents import write_json, write_text
from harness.reporting.history import LAST_RUN, write_last_run
from harness.reporting.merged import mark
from harness.reporting.names import inside, safe_name, shown_path
from harness.reporting.trends import HISTORY_2, HISTORY_3

ERRORS, ALLURE = "errors", "allure-results"
MARK = Path(".harness/merged.json")
"""A folder that has it was made here, and may be made anew."""
_OWN = {MARK.parent.name, ERRORS, ALLURE}
"""What goes when the folder is made anew; all else there stays, pyproject.toml too: it may have been changed."""
_WRITTEN_ANEW = {"environment.properties", "categories.json", "executor.json", "allurerc.mjs"}
"""Of Allure's results: they are of one run, and the last one is a program."""
_PROJECT = "# Written by `harness merge`: so that commands take this folder for a project.\n[tool.harness]\n"


@dataclass(frozen=True, slots=True)
class Shard:
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


def shard_of(folder: Path) -> Shard:
    """Raises HistoryError for a folder without a history, and for one whose history cannot be read."""
    if not folder.is_dir():
        raise HistoryError(f"{shown_path(folder)}: there is no such folder")
    if not place_of(folder).is_file():
        raise HistoryError(f"{shown_path(folder)}: neither {HISTORY} nor {HISTORY.name} is in it")
    return Shard(folder, load_run(folder))


def put_together(shards: Sequence[Shard], output: Path, say: Callable[[str], object] = lambda _line: None) -> RunRecord:
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


def _made(shards: Sequence[Shard], made: Path, output: Path, plain: Plain) -> RunRecord:
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


def _with_errors(shards: Iterable[Shard], made: Path, plain: Plain) -> Iterator[RunRecord]:
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


def _copy_allure(shards: Sequence[Shard], made: Path, run: RunRecord, plain: Plain) -> None:
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
