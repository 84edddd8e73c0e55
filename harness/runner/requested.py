"""Tasks that agents ask a server for: each is run as a run of its own, with its events, evidence and history."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from harness.bridge.hub import BridgeHub, HubAgent
from harness.bridge.refusals import RefusedMessageError
from harness.bridge.session import BridgeSession
from harness.bridge.store import StoredSession, stored_sessions
from harness.model.events import Event, TaskEnded
from harness.model.figures import TaskDone
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.ports import Ports
from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.reporting.archive import DirectoryArchive
from harness.reporting.files import shown_path
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import kept_place
from harness.reporting.history.record import Execution, RunRecord
from harness.reporting.history.writing import RunWriter, begun_record, ended_record
from harness.reporting.live.following import runs_with_events
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import LAST_RUN, task_record, write_last_run
from harness.reporting.telemetry.log import events_of
from harness.reporting.telemetry.record import RunBegun, TaskBegun, read
from harness.reporting.telemetry.sinks import begun_stream, stream_of
from harness.reporting.telemetry.stream import Telemetry
from harness.reporting.telling import story_of
from harness.resilience.events import ClientChanged, ResilienceEvent
from harness.resilience.owner import Owner
from harness.runner.bridging import BridgeHost
from harness.runner.compile import compile_plan
from harness.runner.harness import Harness
from harness.runner.not_run import PROCESS_DIED, died, not_run_result
from harness.runner.schedule import SHARED, TaskPlaces
from harness.runner.shared_services import LentServices, ServicePool
from harness.spec.agents import BRIDGE
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.names import new_run_id
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError, did_you_mean

_ENDED_WITHIN: Final = 20.0
"""Seconds that running tasks have to write their evidence when the server ends."""
_LONGEST_SAID: Final = 200
_log = logging.getLogger(__name__)

# What a project has to offer. It blocks, since it reads files.


class ProjectTasks(Struct, frozen=True):
    """The tasks of a project, as their files are at the moment."""

    settings: Settings
    tasks: Mapping[str, Loaded]
    """Id -> task, in the order of the files."""
    problems: Mapping[str, str]
    """File -> why it cannot be used."""


def tasks_of(root: Path) -> ProjectTasks:
    """Read the settings and all task files. Raises SettingsError; a file that cannot be used is among the problems."""
    settings = load_settings(root)
    places = [root / each for each in settings.serve.tasks]
    found: dict[str, Loaded] = {}
    problems = {
        str(place.relative_to(root)): "there is no such file or folder" for place in places if not place.exists()
    }
    for path in find_tasks([place for place in places if place.exists()]):
        try:
            loaded = load_file(
                path,
                needs_steps=False,
                known_channels=frozenset(settings.channels) or None,
                defaults=settings.defaults,
                extra_keys=settings.extra_keys,
            )
        except SpecError as error:
            problems[os.path.relpath(path, root)] = str(error)
            continue
        found |= {each.spec.task_id: each for each in expand(loaded)}
    return ProjectTasks(settings, found, problems)


# A run.


@dataclass(eq=False)
class RequestedRun:
    """A task that was started for a session."""

    plan: Plan
    settings: Settings
    run_id: str
    session: str
    judged: bool = False
    """Whether its task has ended; its browser and services may still be closing."""
    over: str = ""
    """How it ended; empty while it goes on."""
    stream: Telemetry | None = None
    work: asyncio.Task[None] | None = None


class LentBridge:
    """The place of one requested run in the bridge of the server (`bridging.ServesAgents`)."""

    def __init__(self, hub: BridgeHub, session: str) -> None:
        self._hub = hub
        self._session = session

    def agent(self) -> HubAgent:
        """The agent of the session that has asked for the task."""
        return self._hub.agent(self._session)

    def joined(self, ports: Ports) -> Ports:
        return self._hub.joined(ports)

    async def close(self) -> None:
        """The bridge is the server's, and goes on."""


class RequestedRuns:
    """Starts the tasks of a project when sessions ask for them (`turns.TaskSource`), on the loop of the server."""

    def __init__(self, root: Path, workers: int, say: Callable[[str], None] = lambda _: None) -> None:
        """`workers`: tasks that run at once; more wait. `say` gets a sentence when a task begins or ends."""
        self._root = root
        self._say = say
        self._host: BridgeHost | None = None
        self._places = TaskPlaces(workers)
        self._services = ServicePool()
        self._runs: dict[str, RequestedRun] = {}
        """Session -> its newest run."""
        self._passed: set[str] = set()
        self._newest = ""
        self._told: frozenset[str] = frozenset()
        """What is wrong with files, as it was said when the last task was asked for."""
        self._starting = asyncio.Lock()
        self._history = ThreadPoolExecutor(1, "history")  # SQLite: one thread, and never the loop's

    def serve(self, host: BridgeHost) -> None:
        """Offer the tasks to the agents of this bridge."""
        self._host, host.hub.desk.source = host, self

    def emit(self, event: ResilienceEvent) -> None:
        """Pass an event of the bridge on to the run that it is about, or to all that go on."""
        about = event.session if isinstance(event, ClientChanged) else None
        for run in self.going_on():
            if run.stream is not None and about in (None, run.session):
                run.stream.emit(event)

    @property
    def busy(self) -> bool:
        """Whether a task runs."""
        return any(self.going_on())

    def going_on(self) -> Iterator[RequestedRun]:
        """The runs that are not over."""
        return (run for run in self._runs.values() if not run.over)

    async def listed(self) -> list[dict[str, Any]]:
        """The tasks that can be taken, and the files that cannot be used. Raises RefusedMessageError."""
        known = await self._known()
        taken = {run.plan.task_id for run in self.going_on()}
        tasks = [
            {"task_id": name, "goal": each.spec.goal or "", "inputs": dict(each.spec.inputs), "taken": name in taken}
            for name, each in known.tasks.items()
        ]
        shown: list[dict[str, Any]] = Redactor.of(known.settings).json(tasks)
        return [*shown, *({"file": file, "problem": why} for file, why in known.problems.items())]

    async def start(self, session: BridgeSession, task_id: str) -> RequestedRun:
        """Start a task for a session; the same one again while it waits to be taken. Raises RefusedMessageError."""
        before = self._runs.get(session.id)
        if before is not None and before.judged and before.work is not None:
            await asyncio.wait({before.work})  # its browser and services are closing, which is bounded
        async with self._starting:
            running = self._runs.get(session.id)
            if running is not None and not running.over:
                if task_id not in ("", running.plan.task_id):
                    name = running.plan.task_id
                    raise RefusedMessageError("SESS_BUSY", f"task {name} is being started for the session")
                return running
            known = await self._known()
            chosen = self._chosen(known, session, task_id)
            run = await asyncio.to_thread(self._compiled, chosen, known.settings, session.id)
            open_ones = self._host.hub.sessions if self._host is not None else {}
            for gone in [name for name, old in self._runs.items() if old.over and name not in open_ones]:
                del self._runs[gone]
            session.wrote = False
            self._runs[session.id] = run
            run.work = asyncio.get_running_loop().create_task(self._run(run, session))
            return run

    async def _known(self) -> ProjectTasks:
        try:
            return await asyncio.to_thread(tasks_of, self._root)
        except (SettingsError, SpecError, OSError) as error:
            raise RefusedMessageError("SESS_TASK_REFUSED", str(error)) from error

    def _chosen(self, known: ProjectTasks, session: BridgeSession, task_id: str) -> Loaded:
        """The task of that id, or the next one for a session. Raises RefusedMessageError."""
        self._tell_problems(known)
        places = ", ".join(known.settings.serve.tasks)
        if not task_id:
            for name, each in known.tasks.items():
                if name not in session.had and not self._obstacle(each):
                    return each
            had = f"the session has had {len(session.had)} of the {len(known.tasks)} tasks below {places}"
            none = f"there are no tasks below {places}: `tasks` of [tool.harness.serve] names others"
            raise RefusedMessageError("SESS_NO_TASK", f"{had}; no other can begin now" if known.tasks else none)
        found = known.tasks.get(task_id)
        if found is None:
            hint = did_you_mean(task_id, known.tasks)
            broken = "".join(f"\n{why}" for why in known.problems.values())
            told = f"no task below {places} has the id '{task_id}'"
            raise RefusedMessageError("SESS_TASK_REFUSED", f"{told}{f' ({hint})' if hint else ''}{broken}")
        if why := self._obstacle(found):
            raise RefusedMessageError("SESS_TASK_REFUSED", f"task {task_id} {why}")
        return found

    def _tell_problems(self, known: ProjectTasks) -> None:
        """Say what is wrong with files, once as long as it is so: an agent that takes the next task never hears it."""
        problems = {Redactor.of(known.settings).text(why): None for why in known.problems.values()}
        for why in problems:
            if why not in self._told:
                self._say(f"not offered: {why}")
        self._told = frozenset(problems)

    def _obstacle(self, task: Loaded) -> str:
        """Why a task cannot begin now; empty if it can."""
        if task.spec.episode_id:
            return f"belongs to the episode {task.spec.episode_id}: `pytest --agent bridge` runs its tasks in order"
        if absent := [each for each in task.spec.dependencies if each not in self._passed]:
            return f"depends on {absent[0]}, which has not passed in this server"
        taken = next((run for run in self.going_on() if run.plan.task_id == task.spec.task_id), None)
        return f"is being done in session {taken.session}" if taken else ""

    def _compiled(self, task: Loaded, settings: Settings, session: str) -> RequestedRun:
        """The run of a task. Raises RefusedMessageError if it cannot be run as it is."""
        run_id = self._new_id()
        try:
            plan = compile_plan(task, settings=settings, run_id=run_id, agent=BRIDGE)
        except SpecError as error:
            raise RefusedMessageError("SESS_TASK_REFUSED", str(error)) from error
        if plan.agent != BRIDGE:
            message = f"task {plan.task_id} has an agent of its own, `{plan.agent}`, which `pytest` runs"
            raise RefusedMessageError("SESS_TASK_REFUSED", message)
        return RequestedRun(plan, settings, run_id, session)

    def _new_id(self) -> str:
        """An id that is no other's, though ids have whole seconds."""
        now = datetime.now(UTC)
        while (found := new_run_id(now, os.getpid())) <= self._newest:
            now += timedelta(seconds=1)
        self._newest = found
        return found

    async def _run(self, run: RequestedRun, session: BridgeSession) -> None:
        """Run the task to its end, whatever comes of it."""
        who, name = session.agent or session.client or session.id, run.plan.task_id
        try:
            async with self._places.place(alone=any(each.kind in SHARED for each in run.plan.faults)):
                if session.over:
                    run.over = f"task {name} was not begun: session {session.id} is over"
                else:
                    self._say(f"{name}: asked for by {who}, run {run.run_id}")
                    run.over = await self._run_in_its_place(run, session, who)
        except Exception as error:  # noqa: BLE001 - the server and its other tasks go on, and the agent is told
            _log.exception("task %s could not be run", name)
            run.over = f"task {name} could not be run: {error}"
            session.has_had(name)
        finally:
            run.over = run.over or f"task {name} was ended with the server"
            self._say(run.over)
            if self._host is not None:
                self._host.hub.desk.wake()

    async def _run_in_its_place(self, run: RequestedRun, session: BridgeSession, who: str) -> str:
        """Run the task; returns how it ended."""
        redactor, ended = Redactor.of(run.settings), list[TaskEnded]()
        assert self._host is not None
        kept = KeptRun(run, self._root, who, redactor)
        notes = list[str]()
        run.stream = stream = begun_stream(run.settings, run.run_id)

        def sink(event: Event) -> None:
            stream.on(event)
            if isinstance(event, TaskEnded):
                ended.append(event)
                run.judged = run.judged or event.plan.key == run.plan.key
                if run.judged and (session.wrote or not _was_cut_off(event)):
                    session.has_had(run.plan.task_id)

        try:
            notes.append(await self._kept(kept.begin))
            stream.emit(RunBegun(1))
            async with self._services.lend() as services:
                await self._played(run, sink, kept, services)
        finally:
            notes += map(stream.clean, stream.close())
            told = ended[-1] if ended else None
            notes.append(await asyncio.shield(self._kept(partial(kept.finish, told))))
            for note in filter(None, notes):
                self._say(note)
        return self._judged(told)

    async def _played(
        self, run: RequestedRun, sink: Callable[[Event], None], kept: KeptRun, services: LentServices
    ) -> None:
        """Run the task in a harness of its own, with services that other runs may share."""
        assert self._host is not None
        assert run.stream is not None
        harness = Harness(run.settings, run.run_id, run.stream.emit, services.open)
        self._host.redactors.append(harness.redactor)
        try:
            harness.use_bridge(LentBridge(self._host.hub, run.session))
            await harness.run(run.plan, sink)
        finally:
            await harness.close()
            self._host.redactors.remove(harness.redactor)
            kept.environment["Browser"] = harness.browsers.described

    def _judged(self, told: TaskEnded | None) -> str:
        if told is None:
            return "the task had no end"
        result, name = told.result, told.plan.task_id
        if ended_as_declared(told.plan.spec, result):
            self._passed.add(name)
        if result.failure is None:
            return f"task {name} is over: {result.final_state}"
        return f"task {name} is over: {result.failure.code}, {result.failure.message.splitlines()[0][:_LONGEST_SAID]}"

    async def _kept(self, write: Callable[[], str]) -> str:
        """Write into the history, on its thread; returns what to say about it."""
        return await asyncio.get_running_loop().run_in_executor(self._history, write)

    async def close(self) -> None:
        """End the running tasks with their evidence. Bounded."""
        going_on = [(run, run.work) for run in self.going_on() if run.work is not None]
        for run, work in going_on:
            if not run.judged:  # of the others, browser and services are closing
                work.cancel()
        works = [work for _, work in going_on]
        if works:
            await asyncio.wait(works, timeout=_ENDED_WITHIN)
        for work in works:
            work.cancel()
        self._history.shutdown(wait=False)


def _was_cut_off(told: TaskEnded | None) -> bool:
    """Whether a task ended with its server, not by what it did."""
    return told is None or (told.result.failure is not None and told.result.failure.code == "INTERRUPTED")


class KeptRun:
    """The history of one requested run. Its methods block, and are called on one thread."""

    def __init__(self, run: RequestedRun, root: Path, who: str, redactor: Redactor) -> None:
        self._run = run
        self._root = root
        self._redactor = redactor
        self._writer: RunWriter | None = None
        self._record: RunRecord | None = None
        self.environment = {"Agent": who, "pytest-taskspec": version("pytest-taskspec"), "Run": run.run_id}

    def begin(self) -> str:
        """Insert the run; returns what to say if that is impossible."""
        if self._run.settings.history_runs <= 0:
            return ""
        arguments = ("harness", "serve", self._run.plan.task_id)
        self._record = begun_record(self._root, self._run.run_id, arguments, self.environment)
        try:
            self._writer = RunWriter(self._root, self._record, Owner.this())
        except HistoryError as error:
            return f"history: {error}"
        return ""

    def finish(self, told: TaskEnded | None) -> str:
        """Write the end of the run, also of one that was cut off; returns what to say about it."""
        good = told is not None and ended_as_declared(told.plan.spec, told.result)
        execution = self._execution(told, good=good) if told is not None else None
        notes = []
        try:
            if execution is not None and execution.record is not None:
                write_last_run(self._root / LAST_RUN, self._run.run_id, [execution.record])
        except OSError as error:
            notes.append(f"{LAST_RUN} cannot be written: {error}")
        if self._writer is not None and self._record is not None:
            try:
                if execution is not None:
                    self._writer.add(execution)
                cut_off = _was_cut_off(told)
                status = 2 if cut_off else 0 if good else 1
                ended = ended_record(self._root, self._record, status, self.environment, interrupted=cut_off)
                notes.append(self._writer.finish(ended, self._run.settings.history_runs))
            except HistoryError as error:
                notes.append(f"history: {error}")
            finally:
                self._writer.close()
        return "; ".join(filter(None, notes))

    def _execution(self, told: TaskEnded, *, good: bool) -> Execution:
        result, unexpected = told.result, told.plan.spec.expect is not None and not good
        record = task_record(story_of(told.plan, result, self._redactor, unexpected=unexpected))
        if record.artifacts is not None:
            record = record.model_copy(update={"artifacts": kept_place(record.artifacts, self._root)})
        return Execution(
            nodeid=f"{record.source}::{record.task_id}",
            task_id=record.task_id,
            outcome="skipped" if result.skipped else "passed" if good else "failed",
            seconds=record.seconds,
            reason=result.skipped,
            at=record.started,
            record=record,
        )


# Tasks whose server was killed: nobody was left to write their reports, so the next server does.


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
