"""The role of a process: decided once, from pytest's config."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.pytest_plugin.role import ROLE, Role, role_of, worker_input


def config(**more: Any) -> Any:
    options = {key: more.pop(key) for key in ("dist", "task_cluster") if key in more}
    return SimpleNamespace(
        stash=pytest.Stash(), getoption=lambda name, default=None: options.get(name, default), **more
    )


@pytest.mark.parametrize(
    ("here", "role", "distributes", "reports"),
    [
        (config(), Role.ALONE, False, True),
        (config(dist="no"), Role.ALONE, False, True),
        (config(dist="load"), Role.CONTROLLER, True, True),
        (config(dist="no", workerinput={}), Role.WORKER, False, False),
        (config(task_cluster="local"), Role.DRIVER, True, True),
        (config(task_cluster="local", dist="load"), Role.DRIVER, True, True),  # which the driver refuses
    ],
)
def test_pytests_config_decides_it(here: Any, role: Role, distributes: bool, reports: bool) -> None:
    assert (role_of(here), role_of(here).distributes, role_of(here).reports) == (role, distributes, reports)


def test_it_stays_as_it_was_decided() -> None:
    here = config(dist="load")
    assert role_of(here) is Role.CONTROLLER
    here.workerinput = {"workerid": "gw0"}
    assert role_of(here) is Role.CONTROLLER


def test_the_process_of_a_slot_says_that_it_is_one() -> None:
    here = config(workerinput={"workerid": "slot-1"})
    here.stash[ROLE] = Role.SLOT
    assert (role_of(here), role_of(here).reports, role_of(here).distributes) == (Role.SLOT, False, False)
    assert worker_input(here) == {"workerid": "slot-1"}
    assert worker_input(config()) == {}
