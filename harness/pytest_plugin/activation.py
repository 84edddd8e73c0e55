"""Loads what tasks need when a session turns out to have tasks. Until then the plugin is names of files and options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.pytest_plugin.options import TASK_OPTIONS
from harness.pytest_plugin.role import RUN_ID, Role, role_of, worker_input
from harness.spec.file_names import NAMED_SUFFIXES, is_fault_plan, is_task_file

if TYPE_CHECKING:
    from harness.pytest_plugin.state import SessionState

SESSION, GARBAGE = "taskspec-session", "taskspec-garbage"
"""The names of the plugins: hooks of a session that collects tasks, rare garbage collection."""


def session_state(config: pytest.Config) -> SessionState:
    """The state of the session; the first call loads the modules of tasks. Raises UsageError for bad settings."""
    if not config.pluginmanager.has_plugin(GARBAGE):
        from harness.pytest_plugin.gc import RareGarbage

        config.pluginmanager.register(RareGarbage(), GARBAGE)
    from harness.pytest_plugin.state import STATE

    if not is_active(config):
        from harness.pytest_plugin.session import begin

        begin(config, SESSION)
    return config.stash[STATE]


def end_rare_garbage(config: pytest.Config) -> None:
    """Make the collections of garbage normal again, if the session has met a task."""
    if rare := config.pluginmanager.get_plugin(GARBAGE):
        rare.end()


def begin_run(config: pytest.Config) -> SessionState:
    """The state of a session whose services ordinary tests need, with what reports a run. Raises UsageError."""
    state = session_state(config)
    from harness.pytest_plugin import running

    running.begin_run(config)
    return state


def is_active(config: pytest.Config) -> bool:
    """Return whether the session has met a task, or expects one."""
    return config.pluginmanager.has_plugin(SESSION)


def expects_tasks(config: pytest.Config) -> bool:
    """Return whether to load the modules of tasks before the collection, since their settings matter already.

    An option of ours is to be checked at once. The services may be there for every kind of test. And the controller of
    xdist collects nothing, but chooses the scheduler.
    """
    options = (config.getoption(option.dest) for option in TASK_OPTIONS)
    if any(value is not None and value is not False for value in options) or _may_concern_all_tests(config.rootpath):
        return True
    if role_of(config) is not Role.CONTROLLER:
        return RUN_ID in worker_input(config)
    return finds_tasks(
        (config.invocation_params.dir / place_of(argument) for argument in config.args),
        tuple(config.getini("taskspec_files")),
        config.getini("norecursedirs"),
    )


def _may_concern_all_tests(root: Path) -> bool:
    """Return whether settings of the project may be about tests that are no tasks, without reading all of them."""
    try:
        text = (root / "pyproject.toml").read_bytes()
    except OSError:
        return False
    return b"services_for" in text or b"page_test" in text


def place_of(argument: str) -> str:
    """The path in an argument of the command line, such as `PATH::NAME[case]`."""
    return argument.partition("[")[0].partition("::")[0]


def is_task(path: Path, patterns: Sequence[str], *, named: bool) -> bool:
    """Return whether pytest collects the file as a task. `named`: it is named on the command line."""
    return is_task_file(path, patterns) or (named and path.suffix in NAMED_SUFFIXES and not is_fault_plan(path))


def finds_tasks(places: Iterable[Path], patterns: Sequence[str], skipped: Sequence[str]) -> bool:
    """Return whether pytest would find a task file at these files or folders. `skipped`: those of `norecursedirs`."""
    return any(
        is_task(place, patterns, named=True)
        if place.is_file()
        else any(is_task_file(file, patterns) for file in _files_below(place, skipped))
        for place in places
    )


def _files_below(place: Path, skipped: Sequence[str]) -> Iterator[Path]:
    """All files in a folder and below it. Each folder is entered once, linked ones included."""
    seen, left_out = set[str](), ("__pycache__", *skipped)
    for folder, folders, files in os.walk(place, followlinks=True):
        real = os.path.realpath(folder)
        folders[:] = (
            [] if real in seen else [each for each in folders if not any(fnmatch(each, one) for one in left_out)]
        )
        seen.add(real)
        yield from (Path(folder, file) for file in files)
