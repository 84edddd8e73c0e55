"""`harness open`: the trace of a failure in Playwright's own trace viewer."""

from __future__ import annotations

import contextlib
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail
from harness.cli.failures import (
    LAST,
    ArtifactDirectory,
    Artifacts,
    Run,
    cases_of,
    directories_of,
    is_kept,
    latest,
    the_failure,
)
from harness.cli.project import settings_at, settings_here
from harness.reporting.files import is_inside, shown_path
from harness.reporting.task_record import LAST_RUN, load_last_run

_TRACE, _FULL_TRACE = "trace.zip", "trace_full.zip"
_KEPT = ".kept"
"""The folder below the artifacts with files of passed tasks, among them the trace of `--task-tracing on`."""


def open_trace(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK_ID|DIR|FILE",
            help="A task's id, its directory, or a trace.zip; `last` failed last.",
        ),
    ] = LAST,
    run: Run = None,
    artifacts: Artifacts = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open no window.")] = False,
) -> None:
    """Open the trace of a task in Playwright's viewer, offline.

    Ctrl-C ends the viewer. A task that passed has a trace only after `pytest --task-tracing on`. On a desktop your
    browser opens; elsewhere open the printed address, for example through an SSH tunnel.

    Example: harness open B1-2025-001
    """
    from harness.reporting.allure.serve import ADDRESS, trace_server, viewer_folder

    trace, viewer = _trace(task, run, artifacts), viewer_folder()
    if viewer is None:
        fail(f"the installed Playwright has no trace viewer; the trace is {shown_path(trace)}")
    try:
        server = trace_server(trace, viewer, port)
    except OSError as error:
        fail(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}; --port 0 takes a free one")
    with server, contextlib.suppress(KeyboardInterrupt):
        address = f"http://127.0.0.1:{server.server_port}{ADDRESS}"
        print(f"{shown_path(trace)} at {address} (Ctrl-C ends)", flush=True)
        if not no_browser and has_desktop(os.environ, sys.platform):
            webbrowser.open(address)
        server.serve_forever()


def _trace(task: str, run: str | None, artifacts: Path | None) -> Path:
    path = Path(task)
    if path.suffix == ".zip" and path.is_file():
        return path
    if run is None and not is_kept(path) and (passed := _of_passed(task, artifacts or settings_here().artifacts)):
        return passed
    kept = the_failure(task, run, artifacts, "harness open")
    for name in (_FULL_TRACE, _TRACE):
        if (kept.folder / name).is_file():
            return kept.folder / name
    fail(_no_trace(kept))


def _of_passed(task: str, root: Path) -> Path | None:
    """The trace of a task that passed in its last run; without one the command ends and says how to get one."""
    if task == LAST or directories_of(latest(root), task) or cases_of(latest(root), task):
        return None  # the last run of the task failed
    trace = root / _KEPT / task / _TRACE
    if trace.is_file() and is_inside(root / _KEPT, trace):
        return trace
    with contextlib.suppress(ValueError):
        found = load_last_run(settings_at(Path.cwd()).root / LAST_RUN)
        record = next((each for each in (found.results if found else ()) if task in (each.task_id, each.key)), None)
        if record is not None and record.final_state in ("completed", "partial_success"):
            fail(f"{task} passed, and its trace was not kept; `pytest --task-tracing on` keeps the trace of each task")
    return None


def _no_trace(kept: ArtifactDirectory) -> str:
    """The message why there is no trace, and how to get one."""
    entries = kept.manifest.get("artifacts")
    found = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    reason = next((str(each.get("reason", "")) for each in found if each.get("name") == _TRACE), "")
    why = f" ({reason})" if reason else ""
    return (
        f"{shown_path(kept.folder)} has no {_TRACE}{why}; "
        "`pytest --task-recording full` records one from the first step on"
    )


def has_desktop(environment: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser window can be shown to a person: elsewhere Python might start one in the terminal."""
    return not environment.get("CI") and has_display(environment, platform)


def has_display(environment: Mapping[str, str], platform: str) -> bool:
    """Return whether a window can be opened."""
    return platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
