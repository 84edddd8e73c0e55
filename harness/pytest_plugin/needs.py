"""Why a task cannot run without the tasks that it depends on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pytest

from harness.spec.load import exists

OPTION = "--task-with-deps"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A dependency that did not pass."""

    reason: str
    absent: str = ""
    """The name of what is not among the tasks of this run."""


_exists = lru_cache(maxsize=1024)(exists)
"""Many tasks may depend on what is not there."""


def obstacle(
    wanted: Sequence[str], names: Mapping[str, Sequence[str]], selected: Collection[str], done: Mapping[str, bool]
) -> Obstacle | None:
    """The first of the dependencies that stands in the way. `names`: what each name stands for, by `by_name`."""
    for name in wanted:
        ids = names.get(name, (name,))
        if any(task_id not in selected for task_id in ids):
            return Obstacle(f"depends on {name}, which is not among the tasks of this run", absent=name)
        failed = next((task_id for task_id in ids if not done.get(task_id, False)), None)
        if failed is not None:
            why = "did not pass" if failed in done else "did not pass: it did not run to its end"
            return Obstacle(f"depends on {failed}, which {why}")
    return None


def advice(item: pytest.Item, name: str) -> str:
    """What runs the item with all that it depends on, to be typed where this run was started; of a task that no file
    has, that."""
    config = item.config
    places = (item.path.parent, *(config.rootpath / each for each in config.getini("testpaths") or ["."]))
    if not _exists(name, places, tuple(config.getini("taskspec_files"))):
        return "no task file of the project has it: add the task, or take it out of `dependencies`"
    if item.config.getoption(OPTION):
        return f"{OPTION} found no task file that has it, neither beside the files named nor in the project's testpaths"
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    return f"run: pytest {shlex.quote(f'{path}::{item.name}')} {OPTION}"
