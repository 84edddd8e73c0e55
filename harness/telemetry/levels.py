"""Log profiles (specs/003 8.3), and the sink that writes to the logger `harness.resilience`."""

from __future__ import annotations

import logging

from harness.model.settings import LogProfile
from harness.telemetry.record import Record, TelemetryEvent
from harness.telemetry.wording import describe, level

LOGGER = "harness.resilience"
PROFILES: dict[LogProfile, int] = {
    "production": logging.ERROR,
    "evaluation": logging.WARNING,
    "debug": logging.DEBUG,
}
"""Errors only; errors and warnings; all steps and their context."""


def level_name(event: TelemetryEvent) -> str:
    return logging.getLevelName(level(event))


class LogSink:
    """The record travels along as `record.harness`, for handlers that want more than the line."""

    name = "logging"

    def __init__(self, profile: LogProfile) -> None:
        self._logger = logging.getLogger(LOGGER)
        self._logger.setLevel(PROFILES[profile])
        if not any(isinstance(handler, logging.NullHandler) for handler in self._logger.handlers):
            self._logger.addHandler(logging.NullHandler())  # without handlers Python would print to stderr

    def __call__(self, record: Record) -> None:
        self._logger.log(level(record.event), "%s", line(record), extra={"harness": record})


def line(record: Record) -> str:
    """With the task, where it belongs to one."""
    where = "" if record.step is None else f" step {record.step}"
    place = f" [{record.task_id}{where}]" if record.task_id else ""
    return f"{describe(record.event)}{place}"
