"""`--task-shard`: one of N parts of the items, for the machines of a CI matrix or the indices of a job."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapreplace
from pathlib import Path

import pytest

from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.role import worker_input
from harness.pytest_plugin.selection import groups_of, task_items, tell_deselected
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import Durations, read_durations
from harness.runner.shard import Shard
from harness.spec.names import how_many

# `--task-durations`: what each task is expected to take.

DURATIONS = "taskspec_durations"
"""Key of `worker_input`: the seconds by task, since a worker that starts later could read others."""


def durations_of(config: pytest.Config) -> Durations | None:
    """The durations that the command line names. Raises UsageError for a file that has none."""
    name = config.getoption("task_durations")
    if not name:
        return None
    told: dict[str, float] | None = worker_input(config).get(DURATIONS)
    if told is not None:
        return Durations(told)
    if not config.getoption("task_shard"):
        raise pytest.UsageError("--task-durations has no effect without --task-shard: add it, or leave this one out")
    try:
        return read_durations(Path(config.invocation_params.dir, name))
    except HistoryError as error:
        raise pytest.UsageError(f"--task-durations {error}") from error


# Which part an item is in.


def parts(
    names: Iterable[str], tied: Mapping[str, str], count: int, seconds: Mapping[str, float] | None = None
) -> dict[str, int]:
    """Name -> its part, 1 to `count`. Names with the same group (`tied`: name -> group) stay together.

    It depends only on the arguments, so that every machine gets the same answer: each group goes to the part with the
    least so far. `seconds`: expected of each name; then the longest group comes first. Otherwise each name counts one.
    """
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(tied.get(name, name), []).append(name)
    cost = {group: sum(seconds[name] if seconds else 1.0 for name in each) for group, each in members.items()}
    order = sorted(members, key=lambda group: (-cost[group], group)) if seconds else list(members)
    loads = [(0.0, 0, part) for part in range(1, min(count, len(order)) + 1)]  # a heap; each part is used before a next
    found: dict[str, int] = {}
    for group in order:
        load, fill, part = loads[0]
        heapreplace(loads, (load + cost[group], fill + len(members[group]), part))
        found.update(dict.fromkeys(members[group], part))
    return found


class Sharding:
    """Registered only with `--task-shard`, after all that selects items, so that it decides last."""

    def __init__(
        self,
        shard: Shard,
        durations: Durations | None = None,
        id_of: Callable[[pytest.Item], str | None] = lambda item: getattr(item, "task_id", None),
    ) -> None:
        """`id_of`: the id under which the history knows an item; None for one that it does not know."""
        self._shard, self._id_of = shard, id_of
        self._durations = durations
        self._emptied = False
        self._balance = ""
        self.divided = ""
        """Digest of the tasks that were divided, by their node ids: all parts need the same ones."""

    def pytest_report_header(self) -> str:
        return f"task shard: {self._shard}"

    def pytest_report_collectionfinish(self) -> list[str]:
        return [self._balance] if self._balance else []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the items of other parts, whatever order a machine has. Under xdist every worker does it."""
        part = self._parts(items)
        names = "\n".join(sorted(item.nodeid for item in task_items(items)))
        self.divided = hashlib.sha256(names.encode("utf-8", "replace")).hexdigest()[:12]
        kept = [item for item in items if part[item.nodeid] == self._shard.number]
        self._emptied = bool(items) and not kept
        tell_deselected(config, items, kept, also=True)
        self._balance = self._describe(task_items(items), task_items(kept))
        items[:] = kept

    def _parts(self, items: Sequence[pytest.Item]) -> dict[str, int]:
        """Node id -> part. With durations, what is no task is divided by itself: nothing is known of its time."""
        tasks = task_items(items)
        together, known = groups_of(tasks), self._durations
        named = {item.nodeid: name for item in items if (name := self._id_of(item)) is not None}
        seconds = {nodeid: known.of(name) for nodeid, name in named.items()} if known else None
        names, count = sorted(item.nodeid for item in items), self._shard.count
        if seconds is None:
            return parts(names, together, count)
        others = [name for name in names if name not in seconds]
        return {**parts(others, {}, count), **parts(sorted(seconds), together, count, seconds)}

    def _describe(self, tasks: Sequence[TaskItem], kept: Sequence[TaskItem]) -> str:
        """What is expected of this part, by durations."""
        known = self._durations
        if known is None or not tasks:
            return ""
        total, own = (sum(known.of(item.task_id) for item in each) for each in (tasks, kept))
        new = sum(item.task_id not in known.seconds for item in tasks)
        guessed = f"; {how_many(new, 'task')} without a duration, {known.usual:g} s each" if new else ""
        ideal = total / self._shard.count
        return (
            f"task shard {self._shard}: {how_many(len(kept), 'task')} of {len(tasks)}, {own:.1f} s expected, "
            f"the mean part {ideal:.1f} s (durations {known.digest}{guessed})"
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Make an empty part a success: there may be more parts than tasks."""
        if self._emptied and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
