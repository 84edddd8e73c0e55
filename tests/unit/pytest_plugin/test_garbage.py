"""Garbage collection while task files are collected: rare, and afterwards as it was."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.pytest_plugin import gc as garbage
from harness.pytest_plugin.collect import TaskFile
from harness.pytest_plugin.gc import MANY, RARE, RareGarbage


class Config:
    """What of pytest's is used."""

    def __init__(self, collect_only: bool) -> None:
        self._collect_only = collect_only
        self.cleanups: list[Callable[[], None]] = []

    def getoption(self, name: str) -> bool:
        assert name == "collectonly"
        return self._collect_only

    def add_cleanup(self, function: Callable[[], None]) -> None:
        self.cleanups.append(function)


class AtExit:
    """Keeps what would be done when this process ends."""

    def __init__(self) -> None:
        self.registered: list[Callable[[], None]] = []

    def register(self, function: Callable[[], None]) -> None:
        self.registered.append(function)

    def unregister(self, function: Callable[[], None]) -> None:
        self.registered = [each for each in self.registered if each != function]


@pytest.fixture(autouse=True)
def at_exit(monkeypatch: pytest.MonkeyPatch) -> Iterator[AtExit]:
    """This process's own garbage collection is put back."""
    found, usual, enabled = AtExit(), gc.get_threshold(), gc.isenabled()
    monkeypatch.setattr(garbage, "atexit", found)
    yield found
    gc.unfreeze()
    gc.set_threshold(*usual)
    (gc.enable if enabled else gc.disable)()


def collecting(config: Config, files: int) -> RareGarbage:
    """The plugin of a session that is collecting and has met this number of task files."""
    plugin = RareGarbage(config)  # type: ignore[arg-type]
    for _ in range(files):
        plugin.pytest_collectstart(TaskFile.__new__(TaskFile))
    return plugin


def test_it_is_rare_while_many_files_are_collected() -> None:
    usual = gc.get_threshold()
    gc.unfreeze()
    plugin = collecting(Config(False), MANY)
    plugin.pytest_collectstart(pytest.Dir.__new__(pytest.Dir))  # a folder, in which there are more
    assert gc.isenabled()
    assert gc.get_threshold() == (RARE, *usual[1:])
    plugin.pytest_collection_finish()
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() > 0


def test_it_is_as_it_was_when_collection_breaks_off() -> None:
    usual, config = gc.get_threshold(), Config(False)
    collecting(config, MANY)
    assert gc.get_threshold() != usual
    for clean in config.cleanups:
        clean()
    assert gc.get_threshold() == usual


def test_few_files_change_nothing() -> None:
    gc.unfreeze()
    usual = gc.get_threshold()
    plugin = collecting(Config(False), MANY - 2)
    for _ in range(MANY):
        plugin.pytest_collectstart(pytest.Module.__new__(pytest.Module))  # Python files are another matter
    assert gc.get_threshold() == usual
    plugin.pytest_collection_finish()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("own", [gc.disable, lambda: gc.set_threshold(0), lambda: gc.set_threshold(2 * RARE)])
def test_who_has_a_way_of_its_own_is_left_alone(own: Callable[[], None]) -> None:
    gc.unfreeze()
    own()
    before = gc.isenabled(), gc.get_threshold()
    plugin = collecting(Config(False), MANY)
    plugin.pytest_collection_finish()
    assert (gc.isenabled(), gc.get_threshold()) == before
    assert gc.get_freeze_count() == 0


def test_what_was_garbage_is_freed_and_not_kept_for_good() -> None:
    class Knot:
        pass

    plugin = collecting(Config(False), MANY)
    knot: Any = Knot()
    knot.itself = knot
    there = weakref.ref(knot)
    del knot
    plugin.pytest_collection_finish()
    assert there() is None


def test_after_a_run_pytest_finds_what_was_not_closed(at_exit: AtExit) -> None:
    config = Config(False)
    plugin = collecting(config, MANY)
    plugin.pytest_collection_finish()
    plugin.pytest_unconfigure()
    assert gc.get_freeze_count() == 0
    assert at_exit.registered == []


def test_after_collect_only_the_process_ends_without_taking_all_apart(at_exit: AtExit) -> None:
    config = Config(True)
    plugin = collecting(config, MANY)
    plugin.pytest_collection_finish()
    plugin.pytest_unconfigure()
    assert gc.get_freeze_count() > 0
    for cleanup in config.cleanups:
        cleanup()
    assert gc.get_freeze_count() == 0
    assert at_exit.registered == [gc.freeze]
    collecting(Config(False), 0)  # another session in the same process, which may run tasks
    assert at_exit.registered == []
