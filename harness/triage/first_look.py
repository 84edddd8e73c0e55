"""The first thing to look at: of each code the artifact that shows most, else the command that does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from harness.criteria.syntax import FUNCTIONS
from harness.recovery.catalog import CATALOG, Family
from harness.reporting.names import shown_path
from harness.reporting.visible import printable
from harness.triage.causes import UNREACHABLE, Cause, underlying
from harness.triage.trouble import Trouble

_BY_CODE = {
    "TASK_TIMEOUT": "partial_trace.json",
    "BUDGET_EXCEEDED": "partial_trace.json",
    "PAGE_UNRESPONSIVE": "console_logs.txt",
    "PAGE_CRASHED": "console_logs.txt",
    "CHANNEL_UNREADABLE": "env_snapshot.json",
    "STATE_INCONSISTENT": "env_snapshot.json",
    "MEMORY_MISSING": "memory_snapshot.json",
    "INTERNAL_ERROR": "error_report.json",
    "UNKNOWN": "error_report.json",
    "OUTCOME_UNKNOWN": "network_logs.har",
    "AUTHENTICATION_FAILED": "screenshot.png",
    "SESSION_LOST": "screenshot.png",
}
_BY_FAMILY = {
    Family.TIMEOUT: "screenshot.png",
    Family.ELEMENT: "screenshot.png",
    Family.AMBIGUOUS: "screenshot.png",
    Family.ACTION: "screenshot.png",
    Family.ASSERTION: "screenshot.png",
    Family.NETWORK: "network_logs.har",
    Family.PRECONDITION: "memory_snapshot.json",
    Family.INCONSISTENCY: "env_snapshot.json",
    Family.BROWSER: "console_logs.txt",
}
_BY_FUNCTION = {
    "mem": "memory_snapshot.json",
    "time_since": "memory_snapshot.json",
    "time_until": "memory_snapshot.json",
    "json": "env_snapshot.json",
}
_READS = re.compile(rf"\b({'|'.join(FUNCTIONS)})\(")
_OF_THE_FILE = frozenset({"INVALID_INPUT"})
"""The task's own file is to be mended."""


def first_look(cause: Cause, exists: Callable[[Path], bool] = Path.is_file, command: str = "harness") -> str:
    """A file, or a command line. `exists` says whether an artifact is there."""
    first = next(each for each in cause.tasks if each.code == cause.code)
    code = underlying(first)
    if cause.service and code in UNREACHABLE:
        return f"{command} services logs {shlex.quote(printable(cause.service))}"
    if code in _OF_THE_FILE and first.source:
        return printable(first.source)
    if file := _artifact(cause, code, exists):
        return file
    if first.artifacts and exists(Path(first.artifacts, "error_report.json")):
        return f"{command} show {shlex.quote(printable(first.task_id))}"
    return f"{command} explain {code}" if code in CATALOG else printable(first.nodeid or first.task_id)


def _artifact(cause: Cause, code: str, exists: Callable[[Path], bool]) -> str:
    """Of the first task that has it, as people write it."""
    places = (Path(each.artifacts, name) for each in _alike(cause, code) if each.artifacts and (name := _name(each)))
    return next((printable(shown_path(place)) for place in places if exists(place)), "")


def _name(trouble: Trouble) -> str:
    """What a failed criterion reads first, decides; the page's is in the picture."""
    code = underlying(trouble)
    family = CATALOG[code].family if code in CATALOG else None
    read = _READS.search(trouble.message) if family is Family.ASSERTION else None
    if read and read[1] in _BY_FUNCTION:
        return _BY_FUNCTION[read[1]]
    return _BY_CODE.get(code) or (_BY_FAMILY.get(family, "") if family else "")


def _alike(cause: Cause, code: str) -> tuple[Trouble, ...]:
    return tuple(each for each in cause.tasks if underlying(each) == code)
