"""Garbage collection until the tests begin: rare, and afterwards as it was."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.pytest_plugin import gc as garbage
from harness.pytest_plugin.gc import MANY, RARE, RareGarbage
from harness.pytest_plugin.items import TaskItem


class Config:
    """What of pytest's is used."""

    def __init__(self, collect_only: bool = False) -> None:
        self._collect_only = collect_only

    def getoption(self, name: str) -> bool:
        assert name == "collectonly"
        return self._collect_only


class Session:
    """What of pytest's is used."""

    def __init__(self, config: Config, items: list[Any]) -> None:
        self.config, self.items = config, items


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


TASK: Any = TaskItem.__new__(TaskItem)
PYTHON_TEST: Any = pytest.Function.__new__(pytest.Function)


def run(config: Config, *items: Any) -> RareGarbage:
    """The plugin of a session that has collected these and runs them."""
    plugin = RareGarbage()
    plugin.pytest_runtestloop(Session(config, list(items)))  # type: ignore[arg-type]
    return plugin


def test_it_is_rare_until_the_tests_begin() -> None:
    usual, config = gc.get_threshold(), Config()
    gc.unfreeze()
    plugin = RareGarbage()
    assert gc.isenabled()
    assert gc.get_threshold() == (RARE, *usual[1:])
    plugin.pytest_runtestloop(Session(config, [TASK]))  # type: ignore[arg-type]
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() > 0


def test_it_is_as_it_was_when_collection_breaks_off() -> None:
    usual = gc.get_threshold()
    plugin = RareGarbage()
    assert gc.get_threshold() != usual
    plugin.end()
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("own", [gc.disable, lambda: gc.set_threshold(0), lambda: gc.set_threshold(2 * RARE)])
def test_who_has_a_way_of_its_own_is_left_alone(own: Callable[[], None]) -> None:
    gc.unfreeze()
    own()
    before = gc.isenabled(), gc.get_threshold()
    run(Config(), TASK)
    assert (gc.isenabled(), gc.get_threshold()) == before
    assert gc.get_freeze_count() == 0


def test_the_garbage_of_a_large_collection_is_freed_and_not_kept_for_good() -> None:
    class Knot:
        pass

    config = Config()
    plugin = RareGarbage()
    knot: Any = Knot()
    knot.itself = knot
    there = weakref.ref(knot)
    del knot
    plugin.pytest_runtestloop(Session(config, [TASK] * MANY))  # type: ignore[arg-type]
    assert there() is None


def test_after_python_tests_pytest_finds_what_was_not_closed(at_exit: AtExit) -> None:
    plugin = run(Config(), TASK, PYTHON_TEST)
    plugin.pytest_unconfigure()
    assert gc.get_freeze_count() == 0
    plugin.end()
    assert at_exit.registered == []


@pytest.mark.parametrize(
    ("config", "items"),
    [
        (Config(), [TASK]),
        (Config(), []),  # the controller of xdist
        (Config(collect_only=True), [TASK, PYTHON_TEST]),
    ],
)
def test_without_python_tests_the_process_ends_without_taking_all_apart(
    at_exit: AtExit, config: Config, items: list[Any]
) -> None:
    plugin = run(config, *items)
    plugin.pytest_unconfigure()
    assert gc.get_freeze_count() > 0
    plugin.end()
    assert gc.get_freeze_count() == 0
    assert at_exit.registered == [gc.freeze]
    RareGarbage()  # another session in the same process, which may run tests
    assert at_exit.registered == []
