"""`--task-with-deps`: what the chosen tasks depend on is collected and run too."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import chain
from pathlib import Path

import pytest

from harness.pytest_plugin.order import arrange, task_items
from harness.pytest_plugin.reach import Asked, added_files
from harness.pytest_plugin.state import STATE
from harness.spec.suite import by_name, dependencies, needed


def names_of(items: Iterable[pytest.Item]) -> dict[str, tuple[str, ...]]:
    """Every name that a dependency may use -> ids, those of cases that were not chosen included."""
    files = {item.path: item.cases for item in task_items(items)}
    return by_name(chain.from_iterable(files.values()))


class WithDependencies:
    """Registered only where `--task-with-deps` is given, and after pytest's `--lf`, so that it has the last word."""

    def __init__(self) -> None:
        self._asked: tuple[Asked, ...] = ()
        self._added: tuple[Path, ...] = ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Files with dependencies are collected as if they had been named. Under xdist every worker does it."""
        config = session.config
        if config.pluginmanager.has_plugin("lfplugin-collwrapper"):  # it leaves whole files out before we can look
            config.pluginmanager.unregister(name="lfplugin-collwrapper")
        self._asked = tuple(Asked.of(argument, config.invocation_params.dir) for argument in config.args)
        folders = [config.rootpath / name for name in config.getini("testpaths")] or [config.rootpath]
        self._added = tuple(added_files(self._asked, folders, tuple(config.getini("taskspec_files"))))
        config.args = [*config.args, *map(str, self._added)]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """What `-k`, `-m` and `--lf` left, with all that it depends on."""
        collected = list({item.nodeid: item for item in items}.values())
        items[:] = collected
        yield
        kept = chosen(collected, [item for item in items if self._is_asked(item)])
        tell_deselected(config, collected, kept)
        items[:] = kept
        arrange(config.stash[STATE], items)

    def _is_asked(self, item: pytest.Item) -> bool:
        """Whether the item would have been collected without this option."""
        return item.path not in self._added or any(each.reaches(item.path, item.name) for each in self._asked)


def chosen(collected: Sequence[pytest.Item], left: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Of what was collected: what is left of it, and all that this depends on."""
    tasks = {item.loaded.spec.task_id: item for item in task_items(collected)}
    own = set(left)
    graph = dependencies([item.loaded for item in tasks.values()])
    wanted = needed((item.loaded.spec.task_id for item in task_items(own)), graph)
    own |= {tasks[task_id] for task_id in wanted}
    return [item for item in collected if item in own]


def tell_deselected(config: pytest.Config, collected: Sequence[pytest.Item], kept: Sequence[pytest.Item]) -> None:
    """The terminal counts what is not run, whoever left it out."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.stats.pop("deselected", None)
    running = set(kept)
    if dropped := [item for item in collected if item not in running]:
        config.hook.pytest_deselected(items=dropped)
