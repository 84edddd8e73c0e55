"""What this process does in a run of tests: decided once, from pytest's config."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import pytest

RUN_ID = "taskspec_run_id"
"""Key of `worker_input`: the id of the run, which the controller of a session with tasks gives to its workers."""


class Role(Enum):
    """The role of one pytest process."""

    ALONE = auto()
    CONTROLLER = auto()
    """It gives the tests to workers of pytest-xdist."""
    WORKER = auto()
    DRIVER = auto()
    """It gives the tests to the slots of a cluster: `--task-cluster`."""
    SLOT = auto()

    @property
    def distributes(self) -> bool:
        """Whether other processes run the tests."""
        return self in (Role.CONTROLLER, Role.DRIVER)

    @property
    def reports(self) -> bool:
        """Whether it sees the results of the whole run, and reports them: the others tell it theirs."""
        return self not in (Role.WORKER, Role.SLOT)


ROLE: pytest.StashKey[Role] = pytest.StashKey()
"""The process of a slot says it here before any plugin is configured; of the others the first question decides."""


def role_of(config: pytest.Config) -> Role:
    """The role of this process. It is known once pytest begins to configure its plugins."""
    if ROLE not in config.stash:
        distributed = Role.CONTROLLER if config.getoption("dist", "no") != "no" else Role.ALONE
        role = Role.DRIVER if config.getoption("task_cluster", None) else distributed
        config.stash[ROLE] = Role.WORKER if hasattr(config, "workerinput") else role
    return config.stash[ROLE]


def worker_input(config: pytest.Config) -> Mapping[str, Any]:
    """What the controller or the driver has given to this process; empty if nobody has."""
    return getattr(config, "workerinput", {})
