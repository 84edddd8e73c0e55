"""Reads the parts of a run from its store, so that `harness merge` can merge them like folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from harness.reporting.history.attempts import as_one_run, without_end
from harness.reporting.history.file import HistoryError, place_of
from harness.reporting.history.merging import ShardRun
from harness.reporting.history.record import Execution
from harness.runner.stored_part import BEGUN, COMMON, ERRORS, JOURNAL, RESULTS, StoredPart, lost_attempts, parts_below
from harness.spec.names import how_many, list_some
from harness.store import SCHEME, Store, StoreError, find_stores, local_path, shown_url


def is_stored(name: str) -> bool:
    """Return whether an argument names a store of runs, and not the folder of a project."""
    folder = local_path(name)
    if folder.exists():
        own = place_of(folder).is_file()  # a project may have files of these names too
        return not own and ((folder / COMMON).is_file() or (folder / JOURNAL).is_dir())
    return bool(SCHEME.match(name) or re.search(r"[*?\[]", name))


def find_parts(name: str) -> list[Store]:
    """The parts of all runs that a path or URL names. Raises StoreError; also if there is none."""
    found = [part for store in find_stores(name) for part in parts_below(store)]
    if not found:
        raise StoreError(f"{shown_url(name)}: no part of a run is stored there")
    return found


def lost_notes(name: str) -> list[str]:
    """Lines about what began in the stores that a path or URL names, and is gone from there. Raises StoreError."""
    return [
        f"{store.shown}: {part}: {attempt} began, and what it told is gone: what it did is not known"
        for store in find_stores(name)
        for part in dict.fromkeys(each.split("/")[1] for each in store.names(BEGUN))
        for attempt in lost_attempts(store, part)
    ]


def merge_part(store: Store, target: Path, say: Callable[[str], object]) -> ShardRun:
    """The run of a part, of all the processes that did it; its files are fetched into `target` from other machines.

    `say` is called with a line about tasks that have no end, and about files that are left out. Raises StoreError,
    HistoryError and OSError.
    """
    part = StoredPart(store)
    if not part.attempts:
        raise HistoryError(f"{store.shown}: no process has told of this part")
    folder = store.local or target
    if store.local is None:
        target.mkdir(parents=True)
        for name in (ERRORS, RESULTS):
            for other in store.fetch_folder(name, target / name):
                say(f"{store.shown}: {other} is left out, because no file can have this name here")
    run = as_one_run(part.attempts, part.owner)
    wrote, others = without_end(part.attempts, part.owner)
    name = f"part {run.shard.replace('/', ' of ')}" if run.shard else "the run"
    for nodeids, what in ((wrote, "had begun to write and has no end"), (others, "has no end")):
        if nodeids:
            told = list_some([nodeid.partition("::")[2] for nodeid in nodeids])
            say(f"{name}: {how_many(len(nodeids), 'task')} {what}: {told}")
    executions = tuple(_with_place(each, folder) for each in run.executions)
    return ShardRun(folder, run.model_copy(update={"executions": executions}))


def _with_place(execution: Execution, folder: Path) -> Execution:
    """The execution with the present place of its directory."""
    record = execution.record
    if record is None or record.artifacts is None:
        return execution
    place = str((folder / record.artifacts).absolute())
    return execution.model_copy(update={"record": record.model_copy(update={"artifacts": place})})
