"""`harness replay`: a failed task again, up to the step that failed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.chosen_failure import Artifacts, AsJson, Run, the_failure
from harness.cli.ending import fail
from harness.cli.open_trace import has_display
from harness.cli.project import settings_at
from harness.model.plan import Plan, new_run_id
from harness.model.settings import Settings, SettingsError
from harness.reporting.files import printable, shown_path
from harness.reporting.redaction import Redactor

if TYPE_CHECKING:
    from harness.cli.held_back import HeldBack
    from harness.model.record import TaskResult

PLACE = Path(".harness", "replay")
"""Where a replay leaves what it saw; the failure itself stays where it is."""


def replay(
    task: Annotated[str, typer.Argument(metavar="TASK_ID|DIR", help="A failed task's id, its directory, or `last`.")],
    headed: Annotated[bool, typer.Option("--headed", help="With a window, which stays open until Enter.")] = False,
    step: Annotated[
        int | None, typer.Option(min=0, help="Stop before this step; default: the one that failed.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write again where what is written stays.")] = False,
    run: Run = None,
    artifacts: Artifacts = None,
    as_json: AsJson = False,
) -> None:
    """Run a failed task up to the step that failed, and stop before it, with the page as the step would meet it.

    With --headed the window stays open until Enter or Ctrl-C; without it, what the page looks like is kept.
    The task runs as its file says now, with its own faults, in a fresh world or a state that was reset, as `isolation`
    says. Steps that write do so again: they are named; to sites that this project does not serve, and to services that
    are kept and not put back, only --yes sends them. What is seen goes to .harness/replay.
    Exit code 1 when the task fails before it comes to the step.

    Example: harness replay B1-2025-001 --headed
    """
    from harness.cli.breakpoint import replay as replayed
    from harness.cli.held_back import HeldBack
    from harness.cli.replayed import own_hosts, place, plan_of, stop_index

    kept = the_failure(task, run, artifacts, "harness replay")
    settings = _settings(headed)
    plan = plan_of(kept, settings, run_id := new_run_id(datetime.now(UTC), os.getpid()))
    index = stop_index(kept, plan, step)
    _announce(plan, index, settings, yes)
    redactor = Redactor.of(settings, plan.secrets)
    held, pause = None if yes else HeldBack(own_hosts(settings)), _Pause(headed, place(plan, index), redactor)
    try:
        result, stopped = replayed(plan, settings, run_id, index, pause, held)
    except (ValueError, OSError) as error:
        fail(str(error))
    _tell_held_back(held, redactor, settings)
    _tell(result, stopped, redactor) if not as_json else typer.echo(_document(result, index, stopped, redactor))
    if not stopped:
        raise typer.Exit(1)


def _settings(headed: bool) -> Settings:
    """Those of the project, but that everything is recorded, and kept apart."""
    try:
        settings = settings_at(Path.cwd())
    except SettingsError as error:
        fail(str(error))
    if headed and not has_display(os.environ, sys.platform):
        fail("there is no display for a window here: leave out --headed (or use xvfb-run)")
    browser = settings.browser.model_copy(update={"headed": headed})
    apart = {"artifacts": settings.root / PLACE, "keep_previous": 0, "recording": "full", "browser": browser}
    return settings.model_copy(update=apart)


def _announce(plan: Plan, index: int, settings: Settings, yes: bool) -> None:
    """What will happen, on stderr; the end of the command where it may not."""
    from harness.cli.replayed import foreign_hosts, left_out, place, setting, why_asked, writes

    typer.echo(f"{plan.task_id} {setting(settings)}, up to {place(plan, index)} (of 0-{len(plan.steps) - 1})", err=True)
    for line in left_out(plan):
        typer.echo(line, err=True)
    if not (found := writes(plan, index)):
        return
    typer.echo(f"it writes again: {'; '.join(found)}", err=True)
    if (hosts := foreign_hosts(plan, index, settings)) and not yes:
        fail(f"{', '.join(hosts)}: {why_asked(hosts, settings)}, so what is written there stays; --yes does it")


class _Pause:
    """Where the task stops: a person may look round."""

    def __init__(self, headed: bool, place: str, redactor: Redactor) -> None:
        self._headed = headed
        self._redactor = redactor
        self._place = place

    def __call__(self, address: str) -> None:
        """Until Enter, Ctrl-C, or the end of the input."""
        where = self._redactor.text(address) or "no page"
        typer.echo(printable(f"stopped before {self._place}, at {where}"), err=True)
        if not self._headed:
            return
        typer.echo("the window is yours; Enter (or Ctrl-C) ends", err=True)
        try:
            sys.stdin.readline()
        except KeyboardInterrupt:
            typer.echo("", err=True)


def _tell_held_back(held: HeldBack | None, redactor: Redactor, settings: Settings) -> None:
    from harness.cli.replayed import why_asked
    from harness.spec.names import host_of

    for request in held.found if held else ():
        shown = printable(redactor.text(request))
        why = why_asked([host_of(request.partition(" ")[2])], settings)
        typer.echo(f"not sent: {shown}: {why}; --yes sends it", err=True)
    for request in held.redirected if held else ():
        shown = printable(redactor.text(request))
        typer.echo(f"sent all the same: {shown}: a redirect led there, which cannot be held back", err=True)


def _tell(result: TaskResult, stopped: bool, redactor: Redactor) -> None:
    if not stopped:
        failure = result.failure
        why = f"{failure.code} at step {result.failed_index}: {failure.message}" if failure else result.final_state
        typer.echo(printable(redactor.text(f"it ended before it came there: {why}")))
    if result.artifacts is None:
        return
    folder, picture = shlex.quote(shown_path(result.artifacts)), result.artifacts / "screenshot.png"
    typer.echo(f"screenshot: {shown_path(picture)}" if picture.is_file() else "no screenshot could be taken")
    typer.echo(f"more: harness show {folder}; harness open {folder}")


def _document(result: TaskResult, index: int, stopped: bool, redactor: Redactor) -> str:
    context = result.error.context if result.error else None
    failure = None if stopped or result.failure is None else result.failure
    why = failure and {"code": failure.code, "step_index": result.failed_index, "message": failure.message}
    document = {
        "task_id": result.task_id,
        "step_index": index,
        "stopped": stopped,
        "url": redactor.json(context.url) if context else None,
        "folder": str(result.artifacts) if result.artifacts else None,
        "screenshot": context.screenshot_id if context else None,
        "failure": redactor.json(why),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)
