"""Sinks that belong to pytest's own thread: the terminal, the hook, and the running Allure test."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from harness.reporting.allure.sink import running_test
from harness.reporting.files import commandless
from harness.reporting.progress import Progress
from harness.reporting.telemetry.log import level_name, line
from harness.reporting.telemetry.record import Record, StepDone, TaskDone
from harness.resilience.events import GaveUp, InvariantBroken, Retrying, SlotAwaited, Waiting
from harness.resilience.thresholds import ThresholdCrossed

LONG = 10.0
"""Seconds: a wait that is told without `-v` too."""


class TerminalLines:
    """`Retrying 2/3 in 2.0 s: connection refused`: with `-v`, and before a long wait. What cannot be
    is told always, but with `-q`; thresholds that were crossed stand in the summary."""

    name = "terminal"

    def __init__(self, config: pytest.Config, progress: Progress) -> None:
        self._config = config
        self._progress = progress

    def __call__(self, record: Record) -> None:
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is None or not shown(record, self._config.get_verbosity()):
            return
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            self._progress.clear()
            terminal.write_line(printable(line(record)))
            terminal.flush()


def shown(record: Record, verbosity: int) -> bool:
    """Whether a person wants to see it now."""
    match record.event:
        case _ if verbosity < 0:
            return False
        case InvariantBroken() | SlotAwaited():
            return True
        case Retrying(delay=seconds) | Waiting(seconds=seconds) if seconds >= LONG:
            return True
        case GaveUp() | TaskDone() | StepDone():
            return False  # the report of the task says it
        case _:
            return verbosity > 0


def printable(text: str) -> str:
    """What a page or a server said must not steer the terminal, nor command the runner of a job."""
    return commandless("".join(letter if letter.isprintable() else " " for letter in text))


class Hook:
    """`pytest_taskspec_event`; what an implementation raises is said in the summary, and breaks no task."""

    name = "hook pytest_taskspec_event"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(self, record: Record) -> None:
        try:
            self._config.hook.pytest_taskspec_event(event=record, config=self._config)
        except (pytest.skip.Exception, pytest.fail.Exception) as outcome:
            raise RuntimeError(f"it ended in {type(outcome).__name__}: {outcome}") from outcome


class AllureEvents:
    """Keeps what the test does not show as steps: what circuits, sites and policies did while the task ran."""

    name = "Allure"

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []
        """Id of the task, empty for what concerns all, and the line."""

    def __call__(self, record: Record) -> None:
        if record.step is None and not isinstance(record.event, TaskDone | ThresholdCrossed):
            text = f"{record.at:%H:%M:%S.%f}"[:-3] + f" {level_name(record.event)} {line(record)}"
            self._lines.append((record.task_id, text))

    def attach(self, task_id: str) -> None:
        """To the running test, as one text; nothing for a task that went by itself. Those of others wait for them."""
        own = [text for task, text in self._lines if task in ("", task_id)]
        self._lines = [(task, text) for task, text in self._lines if task not in ("", task_id)]
        if own and running_test() is not None:
            import allure

            allure.attach("\n".join(own), "resilience events", allure.attachment_type.TEXT)
