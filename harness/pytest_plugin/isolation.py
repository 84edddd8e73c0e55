"""What a project is told that does not say how its tasks are kept from meeting each other's state."""

from __future__ import annotations

from contextlib import suppress

import pytest

from harness.model.settings import Settings

TOLD = "isolation-told"
"""A file of `.harness`: the first run has said it."""


def undeclared_lines(config: pytest.Config, settings: Settings) -> list[str]:
    """What to declare, and why: after the first run, and after each that was to run tasks at once and did not."""
    channels = settings.writable_channels
    if settings.isolation is not None or not channels:
        return []
    told = settings.root / ".harness" / TOLD
    parallel = settings.task_workers != 1 or bool(config.getoption("numprocesses", None))
    if told.exists() and not parallel:
        return []
    with suppress(OSError):  # then it is said once more
        told.touch()
    names = ", ".join(f"`{name}`" for name in channels)
    what = f"channel {names} can" if len(channels) == 1 else f"channels {names} can"
    return [
        f"isolation is not declared: tasks run one at a time, since {what} be written.",
        "  Another task would meet there what this one has done, and going back to a checkpoint would undo it.",
        "  Declare it in [tool.harness] of pyproject.toml (docs/own-site.md, Isolation):",
        '    isolation = "world"  the site keeps a state for each id in the requests; tasks run in parallel',
        '    isolation = "reset"  one state, reset before each task',
        '    isolation = "none"   one state, never reset and never put back',
    ]
