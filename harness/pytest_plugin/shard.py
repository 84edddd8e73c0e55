"""`--task-shard I/N`: one of N parts of the items, for the machines of a CI matrix (DESIGN 5)."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from harness.pytest_plugin.dependencies import tell_deselected
from harness.pytest_plugin.order import groups, task_items
from harness.spec.suite import dependencies


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of this machine."""

    number: int
    """1 for the first."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """`2/3`; ArgumentTypeError for what is none."""
        number, slash, count = text.partition("/")
        if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return cls(int(number), int(count))
        raise ArgumentTypeError(f"{text!r} is no part such as 2/3: a number from 1 on, and of how many")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def parts(names: Iterable[str], tied: Mapping[str, str], count: int) -> dict[str, int]:
    """Name -> its part, 1 to `count`. What is tied together (`tied`: name -> name of its group) stays together.

    By the names and their order alone, so that every machine comes to the same answer: each group goes where least is.
    """
    sizes: dict[str, list[str]] = {}
    for name in names:
        sizes.setdefault(tied.get(name, name), []).append(name)
    load = [0] * count
    found: dict[str, int] = {}
    for members in sizes.values():
        part = load.index(min(load))
        load[part] += len(members)
        found.update(dict.fromkeys(members, part + 1))
    return found


class Sharding:
    """Registered only where `--task-shard` is given, after all that selects items, so that it has the last word."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._emptied = False

    def pytest_report_header(self) -> str:
        return f"task shard: {self._shard}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """What is not of this part is deselected, whatever order a machine has. Under xdist every worker does it."""
        tasks = task_items(items)
        wanted = dependencies([item.loaded for item in tasks])
        tied = groups({name: (wanted[name], item.loaded.spec.episode_id) for name, item in _named(tasks)})
        names = {item.nodeid: f"task {tied[name]}" for name, item in _named(tasks)}
        part = parts(sorted(item.nodeid for item in items), names, self._shard.count)
        kept = [item for item in items if part[item.nodeid] == self._shard.number]
        self._emptied = bool(items) and not kept
        already = config.pluginmanager.getplugin("terminalreporter")
        before = list(already.stats.get("deselected", ())) if already is not None else []
        tell_deselected(config, [*items, *before], kept)
        items[:] = kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """More parts than there are tasks: an empty one is no failure of the matrix."""
        if self._emptied and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK


def _named(tasks: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    return ((item.loaded.spec.task_id, item) for item in tasks)
