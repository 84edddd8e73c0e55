"""Which task is certain to run in this process, so that what it needs may be started before its turn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.pytest_plugin.role import ROLE, Role
from harness.pytest_plugin.running import first_to_run


def item(*marks: str) -> Any:
    return SimpleNamespace(unloaded=None, iter_markers=lambda: iter(SimpleNamespace(name=name) for name in marks))


def config(*given: str, role: Role = Role.ALONE) -> Any:
    return SimpleNamespace(stash={ROLE: role}, getoption=lambda name: name in given)


def test_it_is_the_first_that_no_mark_may_skip() -> None:
    skipped, perhaps, slow = item("skip"), item("taskspec", "skipif"), item("taskspec", "slow")
    assert first_to_run(config(), [skipped, perhaps, slow, item()]) is slow
    assert first_to_run(config(), [skipped, perhaps]) is None


@pytest.mark.parametrize("here", [config("setuponly"), config("setupplan"), config(role=Role.WORKER)])
def test_there_is_none_where_tests_are_only_shown_or_come_from_elsewhere(here: Any) -> None:
    assert first_to_run(here, [item()]) is None
