"""`harness record`: what a person does in a browser becomes a task file."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from harness.cli.ending import fail
from harness.cli.open_trace import has_display
from harness.cli.project import schema_of, settings_here
from harness.model.settings import Settings
from harness.recovery.failure import Failed
from harness.reporting.files import printable, shown_path, write_text
from harness.runner.compile import compile_plan
from harness.runner.recording import WHOLE_DAY, RecordingSession
from harness.spec.load import validated
from harness.spec.names import host_of, new_run_id, slug, with_scheme
from harness.spec.problems import SpecError
from harness.spec.recorded.actions import Recording
from harness.spec.recorded.recording import recorded_task, variables_of
from harness.values import replace

if TYPE_CHECKING:
    from harness.model.plan import Plan
    from harness.model.record import TaskResult

_NO_DISPLAY = (
    "harness record shows a browser window, and there is no display: use a machine with a desktop, or a virtual one "
    "(apt-get install xvfb chromium; xvfb-run harness record ...)"
)


def record(
    url: Annotated[str, typer.Argument(metavar="URL", help="The page to begin with.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The task file. Default: tasks/HOST.task.yaml."),
    ] = None,
    goal: Annotated[str | None, typer.Option(help="The goal of the task. Default: a line to replace.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The base of a relative URL. Default: that of the project.")
    ] = None,
    browser_profile: Annotated[str | None, typer.Option(metavar="NAME", help="What the browser emulates.")] = None,
    login: Annotated[
        str | None, typer.Option(metavar="NAME", help="Begin logged in, by a login of the project.")
    ] = None,
    ignore_https_errors: Annotated[
        bool, typer.Option("--ignore-https-errors", help="Accept any certificate, here and in the task.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Record what you do in a browser window as a task file.

    The services of the project are started. Close the window or press Ctrl-C to end. The bar at the top of the page has
    buttons to check a text, a value or that something is visible. Passwords are never written: the task reads them from
    environment variables.
    Exit code: 1 when nothing was recorded, or a step could not be written.

    Example: harness record http://shop.local/ -o tasks/buy.task.yaml
    """
    settings = settings_here()
    if base_url is not None:
        settings = settings.model_copy(update={"base_url": base_url})
    url = _address(url, settings)
    file = output or Path("tasks", f"{slug(host_of(url) or 'recorded')}.task.yaml")
    if not file.name.endswith((".task.yaml", ".task.yml")):
        raise typer.BadParameter(f"{file}: the name of a task file ends in .task.yaml", param_hint="--output")
    if file.exists() and not force:
        fail(f"{file} exists already: choose another name with -o, or replace it with --force")
    if not has_display(os.environ, sys.platform):
        fail(_NO_DISPLAY)
    emulated = {"browser": {"ignore_https_errors": True}} if ignore_https_errors else {}
    keys = {**({"login": login} if login else {}), **emulated}
    with tempfile.TemporaryDirectory(prefix="taskspec-record-") as folder:
        recording, result = _recorded(url, keys, browser_profile, _apart(settings, Path(folder)))
    if len(recording.actions) < (1 if result.ok else 2):
        why = result.failure.message if result.failure else "the window was closed at once"
        fail(f"nothing was recorded: {why}")
    task_id = file.name.partition(".task.")[0]
    named = {"task_id": task_id, "goal": goal or f"Say what this is for (recorded at {host_of(url)})"}
    write_task(file, recording, url, {**named, **keys})


def _address(url: str, settings: Settings) -> str:
    """The URL as the task opens it: a relative one stays relative."""
    if settings.base_url and not urlsplit(url).netloc and url.startswith("/"):
        return url
    whole = with_scheme(url) or url
    parts = urlsplit(whole)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise typer.BadParameter(f"{url!r} is not the URL of a page; expected: http://HOST/, or /PATH with --base-url")
    return whole


def _apart(settings: Settings, folder: Path) -> Settings:
    """Settings with a window, that keep nothing: what is typed must not lie in a file."""
    browser = settings.browser.model_copy(update={"headed": True})
    quiet = {"artifacts": folder, "keep_previous": 0, "recording": "minimal", "tracing": "off", "browser": browser}
    return settings.model_copy(update=quiet)


def plan_of(url: str, keys: dict[str, Any], profile: str | None, settings: Settings, run_id: str) -> Plan:
    """The plan of a recording: it opens the page. Raises SpecError."""
    data = {"task_id": "harness-record", "goal": "A recording", "steps": [{"act": "open", "url": url}], **keys}
    spec = validated(data)
    plan = compile_plan(spec.with_profile(profile) if profile else spec, settings=settings, run_id=run_id)
    return replace(plan, timeout=WHOLE_DAY)


def _recorded(url: str, keys: dict[str, Any], profile: str | None, settings: Settings) -> tuple[Recording, TaskResult]:
    run_id = new_run_id(datetime.now(UTC), os.getpid())
    try:
        plan = plan_of(url, keys, profile, settings, run_id)
        session = RecordingSession(plan, settings, run_id)
        with ended_by_ctrl_c(session):
            return session.run(partial(typer.echo, "recording: close the window or press Ctrl-C to end", err=True))
    except SpecError as error:
        fail("; ".join(problem.message for problem in error.problems))
    except (ValueError, Failed) as error:
        fail(str(error))


@contextmanager
def ended_by_ctrl_c(session: RecordingSession) -> Iterator[None]:
    """Let the first Ctrl-C end the recording, and a second one the command."""

    def end(_: int, __: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        session.stop()

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def write_task(file: Path, recording: Recording, url: str, keys: dict[str, Any]) -> None:
    """Write the task, and say what a person should look at."""
    text, journey = recorded_task(recording, url, keys)
    write_text(file, schema_line(file) + str(text))
    typer.echo(f"wrote {shown_path(file)}: {len([step for step in text.steps if step.keys])} steps")
    for name in variables_of(recording.passwords).values():
        typer.echo(f"before a run, set the password: export {name}=...")
    if not journey.criteria:
        typer.echo("success_criteria are only a proposal: say what must be true at the end")
    if any("effect" in step.keys for step in text.steps):
        typer.echo("steps that write have `effect: write`: add the `done_when` that the comments propose")
    typer.echo(f"run it:  harness run {shown_path(file)}")
    for each in journey.missing:
        typer.echo(printable(f"not in the task: {each.what}: {each.why}"), err=True)
    if journey.missing:
        raise typer.Exit(1)


def schema_line(file: Path) -> str:
    """The line by which editors find the schema, if the project has it."""
    schema, relative = schema_of(file)
    return f"# yaml-language-server: $schema={relative}\n" if schema.is_file() else ""
