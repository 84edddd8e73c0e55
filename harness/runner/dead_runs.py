"""Reports for tasks of remote agents whose run was killed: nobody was left to write them, so the next server does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from harness.bridge.store import StoredSession, stored_sessions
from harness.model.figures import TaskDone
from harness.model.settings import Settings
from harness.model.settings_errors import SettingsError
from harness.reporting.archive import DirectoryArchive
from harness.reporting.files import shown_path
from harness.reporting.live.following import runs_with_events
from harness.reporting.telemetry.log import events_of
from harness.reporting.telemetry.record import TaskBegun, read
from harness.reporting.telemetry.sinks import stream_of
from harness.runner.compile import compile_plan
from harness.runner.not_run import PROCESS_DIED, died, not_run_result
from harness.runner.requested import tasks_of
from harness.spec.agents import BRIDGE
from harness.spec.loaded import Loaded
from harness.spec.problems import SpecError


class DeadTask(Struct, frozen=True):
    """A task that had begun when the process of its run died."""

    task_id: str
    run: str
    session: StoredSession


def dead_tasks(root: Path) -> tuple[DeadTask, ...]:
    """The tasks of sessions whose run died in them, without those that another run has had since.

    It reads the event files of the runs; one that was deleted tells nothing.
    """
    try:
        sessions = stored_sessions(root)
    except OSError:  # a damaged file is put aside and told by whoever serves sessions
        return ()
    left = [each for each in sessions if each.task is not None and not each.over and not each.owned]
    return tuple(dead for each in left if (dead := _dead(root, each)) is not None)


def _dead(root: Path, session: StoredSession) -> DeadTask | None:
    """The task of a session, if the newest run that had it is the session's own, and never ended it."""
    task_id = session.task or ""
    for run in runs_with_events(root):
        words = list(_words(events_of(root, run), task_id))
        if words:
            own = run.endswith(f"-{session.owner.pid}") and isinstance(words[-1], TaskBegun)
            return DeadTask(task_id, run, session) if own else None
    return None


def _words(file: Path, task_id: str) -> Iterator[TaskBegun | TaskDone]:
    """What an event file tells about the beginning and the end of a task."""
    try:
        with file.open("rb") as lines:
            for line in lines:
                record = read(line) if b'"task' in line else None
                if record is not None and record.task_id == task_id and isinstance(record.event, TaskBegun | TaskDone):
                    yield record.event
    except OSError:  # it was deleted meanwhile
        return


def report_dead_tasks(settings: Settings) -> list[str]:
    """Write the reports of tasks whose run died, and their ends into its events; returns a sentence for each."""
    if not (dead := dead_tasks(settings.root)):
        return []
    try:
        tasks = tasks_of(settings.root).tasks
    except (SettingsError, SpecError, OSError) as error:
        return [f"the tasks of runs that died have no report: {error}"]
    return [_told(settings, tasks, each) for each in dead]


def _told(settings: Settings, tasks: Mapping[str, Loaded], dead: DeadTask) -> str:
    place = f"run {dead.run} died while session {dead.session.id} did task {dead.task_id}"
    if (task := tasks.get(dead.task_id)) is None:
        return f"{place}, which is not below {', '.join(settings.serve.tasks)}, so that it has no report"
    try:
        return f"{place}: WORKER_CRASHED, {_reported(settings, task, dead)}"
    except (SpecError, OSError) as error:
        return f"{place}, and its report cannot be written: {error}"


def _reported(settings: Settings, task: Loaded, dead: DeadTask) -> str:
    """Write the report and the end of one task; returns where it is. Raises SpecError and OSError."""
    plan = compile_plan(task, settings=settings, run_id=dead.run, agent=BRIDGE)
    archive = DirectoryArchive.of(settings, dead.run)
    result = not_run_result(archive, plan, died(dead.session.why_lost), PROCESS_DIED)
    events = stream_of(settings, dead.run)
    events.tell(TaskDone.of(result, plan.agent), plan)
    problems = "; ".join(events.close())
    kept = shown_path(result.artifacts) if result.artifacts else "its report could not be kept"
    return f"{kept}; {problems}" if problems else kept
