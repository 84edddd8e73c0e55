"""With `--task-store`, in each process that collects: what earlier processes have done does not run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.model.ledger import Gone, LossVerdict, what_runs_again
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.role import Role, role_of
from harness.pytest_plugin.selection import names_of, task_items, tell_deselected
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.stored_workers import StorePlace, refusing
from harness.recovery.failure import Failure
from harness.runner.not_run import died
from harness.runner.stored_part import Earlier, join_division
from harness.spec.names import how_many, list_some

_GONE = "A process of this part is gone"


class StoredSelection:
    """The plugin that leaves out what has ended, and what is lost."""

    def __init__(self, config: pytest.Config, state: SessionState, place: StorePlace, earlier: Earlier) -> None:
        self._config = config
        self._state = state
        self._place = place
        self.earlier = earlier
        self.tasks: Sequence[TaskItem] = ()
        """All tasks of the part, those that have ended included."""
        self._left = LossVerdict()
        self._lost: dict[str, Failure] = {}
        """Id of a task that does not run, although it has no end -> how it ended."""

    def pytest_report_header(self) -> str:
        return f"task store: {self._place.open().shown}"

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        if not (self._left.kept or self._left.lost):
            return []
        lost = len(self._left.lost)
        cut = f", {lost} cannot run again" if lost else ""
        ended = f"{how_many(len(self._left.kept), 'task')} ended in earlier processes of this part"
        failed = [nodeid.partition("::")[2] for nodeid, passed in self.earlier.ended.items() if not passed]
        told = f" ({len(failed)} failed: {list_some(sorted(failed))})" if failed else ""
        return [f"task store: {ended}{told}{cut}, {len(task_items(items)) - lost} to run"]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what has ended, after all that selects. Under xdist every worker does it."""
        found, items[:] = list(items), []  # pytest goes on for a moment if this is refused
        self._join_division()
        items[:] = found
        tasks = task_items(items)
        facts = {item.nodeid: self.earlier.facts(item.nodeid, _id(item), item.loaded.spec.episode_id) for item in tasks}
        self._left = what_runs_again(facts, Gone.PART)
        for item in tasks:
            if why := self._left.lost.get(item.nodeid):
                crashed = facts[item.nodeid].wrote
                self._lost[_id(item)] = died(why) if crashed else Failure("EPISODE_STATE_LOST", f"{_GONE}: {why}")
        self.tasks = tasks
        ended = set(self._left.kept)
        kept = [item for item in items if item.nodeid not in ended]
        if len(kept) < len(items):
            already = config.pluginmanager.getplugin("terminalreporter")
            before = list(already.stats.get("deselected", ())) if already is not None else []
            tell_deselected(config, [*items, *before], kept)
        items[:] = kept

    def _join_division(self) -> None:
        """Refuse a part of other tasks than those that the other parts were divided of."""
        config = self._config
        sharding: Any = config.pluginmanager.getplugin("taskspec-shard")
        if sharding is not None and not (config.getoption("collectonly") or role_of(config) is Role.SLOT):
            with refusing(config):
                join_division(self._place.whole(), sharding.divided)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Let tasks depend on those that have ended."""
        state = self._state
        state.names = names_of(self.tasks)
        state.lost = self._lost
        ended = set(self._left.kept)
        for item in self.tasks:
            if item.nodeid in ended:
                state.selected.add(_id(item))
                state.done[_id(item)] = self.earlier.ended[item.nodeid]


def _id(item: TaskItem) -> str:
    return item.loaded.spec.task_id
