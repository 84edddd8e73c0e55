"""`harness run`: runs pytest under another name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail

_DEFAULT = "tasks"
_PATH_OPTIONS = frozenset({
    "--alluredir", "--basetemp", "--browser-executable", "--confcutdir", "--deselect", "--faults", "--ignore",
    "--junit-xml", "--junitxml", "--log-file", "--output", "--rootdir", "--summary", "--task-artifacts",
    "--task-browser-executable", "--task-faults", "--task-summary",
})  # fmt: skip
"""The options of pytest and its plugins that take a path."""

_PYTEST = """\
import runpy, sys
def tell(kind, *error):
    if kind is KeyboardInterrupt:
        sys.stderr.write('\\ninterrupted before the run began\\n')
    else:
        sys.__excepthook__(kind, *error)
sys.excepthook = tell
runpy.run_module('pytest', run_name='__main__', alter_sys=True)
"""
"""As `python -m pytest`, but Ctrl-C while it loads is one line. Our package must not be imported before pytest."""


def run(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH|OPTION", help="Paths and options for pytest. Default: the folder tasks."),
    ] = None,
) -> None:
    """Run tasks with pytest.

    Every argument is passed on, and the exit code is pytest's. An option that `harness run` has too, such as --help,
    reaches pytest only after `--`.

    Example: harness run tasks/ -- -k shop -n 2 --headed
    """
    given = arguments or []
    if not names_tasks(given):
        if not Path(_DEFAULT).is_dir():
            fail(f"there is no folder `{_DEFAULT}` here: name the task files, as in `harness run PATH`")
        given = [_DEFAULT, *given]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", _PYTEST, *given])  # noqa: S606 - that is its job


def names_tasks(arguments: Sequence[str]) -> bool:
    """Return whether an argument selects what to run: one before the options, or a path with tasks."""
    leading = arguments[:1] and not arguments[0].startswith("-")
    return bool(leading) or any(
        _holds_tasks(argument)
        for before, argument in zip(["", *arguments], arguments, strict=False)
        if not _takes_value(before)
    )


def _takes_value(option: str) -> bool:
    """Return whether the next word is the option's value: after a short option, or one that takes a path."""
    return option in _PATH_OPTIONS or (option.startswith("-") and len(option) == 2 and option != "--")


def _holds_tasks(argument: str) -> bool:
    from harness.spec.load import find_tasks

    path = Path(argument.partition("::")[0])
    return not argument.startswith("-") and path.exists() and bool(find_tasks([path]))
