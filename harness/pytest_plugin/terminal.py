"""The output on the terminal: a live line while a task runs, and the summary of the tasks."""

from __future__ import annotations

import contextlib
import io
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.not_run import CODE as INTERRUPTED
from harness.pytest_plugin.role import Role, role_of
from harness.pytest_plugin.state import SessionState
from harness.recovery.catalog import CATALOG, row
from harness.reporting.files import shown_path
from harness.reporting.progress import ProgressLine
from harness.reporting.summary import summary_lines
from harness.reporting.task_record import TaskRecord
from harness.spec.names import commandless

# The properties of a task's test case in junit.xml.


_OURS = pytest.StashKey[list[tuple[str, object]]]()


def begin_properties(item: pytest.Item, first: Sequence[tuple[str, object]]) -> None:
    """Put the `first` properties of an execution in the place of those of an earlier one (`--reruns`)."""
    earlier = item.stash.get(_OURS, [])
    item.user_properties = [each for each in item.user_properties if each not in earlier]
    item.stash[_OURS] = list(first)
    item.user_properties += first


def add_properties(item: pytest.Item, record: TaskRecord) -> None:
    """Add the properties that the item lacks; under xdist they travel with its reports."""
    there = {name for name, _ in item.user_properties}
    more = [each for each in properties(record) if each[0] not in there]
    item.user_properties += more
    item.stash.setdefault(_OURS, []).extend(more)


def properties(record: TaskRecord) -> Iterator[tuple[str, object]]:
    """Name and value of each known property."""
    yield "task_id", record.task_id
    yield "final_state", record.final_state
    yield "retries", record.retries
    yield "fallbacks", record.fallbacks
    yield "recovered", record.recovered
    yield "healed", str(any(each.get("type") == "fallback_selector_used" for each in record.warnings)).lower()
    facts = {
        "code": record.code,
        "suspect": record.suspect or None,
        "error_type": row(record.code).kind if record.code in CATALOG else record.error_type,
        "step_index": record.step_index,
        "artifacts": record.artifacts,
    }
    yield from ((name, value) for name, value in facts.items() if value is not None)
    if record.agent:
        yield "agent", record.agent
        yield "takeovers", record.takeovers
    if record.models:
        used = record.used
        yield "models", ", ".join(record.models)
        yield "model_calls", used.calls
        yield "input_tokens", used.input_tokens
        yield "output_tokens", used.output_tokens
        yield "cost_usd", used.cost_usd
        yield "unpriced_calls", used.unpriced_calls
    if record.tools:
        called = record.called
        yield "tools", ", ".join(f"{server}.{tool}" for server, tools in record.tools.items() for tool in tools)
        yield "tool_calls", called.calls
        yield "tool_errors", called.errors
        yield "tool_failures", called.failed


def torn_properties(record: TaskRecord) -> Iterator[tuple[str, object]]:
    """Yield what the report of a failed fixture adds to those of a task that had passed."""
    if record.ok:
        yield "suspect", record.suspect
        if record.artifacts:
            yield "artifacts", record.artifacts


class Terminal(io.TextIOBase):
    """pytest's own terminal, without its capturing of standard output."""

    def __init__(self, config: pytest.Config, *, live: bool) -> None:
        self._config = config
        self._live = live

    def isatty(self) -> bool:
        return self._live

    def write(self, text: str) -> int:
        """Write past pytest's own writer, which would count these columns and misplace its percentage."""
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            stream = sys.__stdout__
            if stream is not None:
                with contextlib.suppress(OSError):  # the terminal was closed; the run still ends in order
                    stream.write(text)
                    stream.flush()
        return len(text)

    def room(self) -> int:
        """The number of free columns after the cursor."""
        writer = self._config.get_terminal_writer()
        return writer.fullwidth - writer.width_of_current_line


def live_progress(config: pytest.Config) -> ProgressLine:
    """A live line on an interactive terminal; silent under xdist, with `-q`, and in logs."""
    live = sys.stdout.isatty() and role_of(config) is Role.ALONE and config.get_verbosity() >= 0
    terminal: Any = Terminal(config, live=live)
    return ProgressLine(terminal, terminal.room)


def write_summary(
    terminalreporter: Any,
    records: Sequence[TaskRecord],
    skipped: Sequence[tuple[str, str]],
    settings: Settings,
    alluredir: Path | None,
    more: Sequence[str] = (),
    idle: Sequence[str] | None = None,
) -> None:
    """Write the summary.

    `skipped`: task ids and reasons. `more`: what others say of the run. `idle`: entries of fault plans that strike no
    task.
    """
    terminalreporter.section("tasks")
    for record in records:
        if record.code == INTERRUPTED:
            place = shown_path(Path(record.artifacts)) if record.artifacts else "none"
            terminalreporter.write_line(commandless(f"interrupted: {record.task_id}; its report: {place}"))
    for line in summary_lines(records, settings.artifacts, alluredir, skipped, command(), idle, more):
        terminalreporter.write_line(commandless(line))


def command() -> str:
    """The command `harness` as it must be typed here: with its path in an environment below this folder."""
    path = shown_path(Path(sys.executable).with_name("harness"))
    return "harness" if Path(path).is_absolute() else path


def environment(config: pytest.Config, state: SessionState) -> dict[str, str]:
    """The environment table of Allure: what the run ran on."""
    settings = state.settings
    return {
        "Browser": state.browser or "not started in this process",
        "Playwright": version("playwright"),
        "pytest-taskspec": version("pytest-taskspec"),
        "pytest": pytest.__version__,
        "Python": platform.python_version(),
        "Platform": platform.platform(),
        "Recording": settings.recording,
        "Recovery": "on" if settings.recovery else "off",
        "Run": state.run_id,
    }
