"""Tasks that agents ask a server for: each is run as a run of its own, with its events, evidence and history."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from harness.bridge.hub import BridgeHub, HubAgent
from harness.bridge.refusals import RefusedMessageError
from harness.bridge.session import BridgeSession
from harness.model.events import Event, TaskEnded
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.ports import Ports
from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.reporting.allure.files import executor_of
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import kept_place
from harness.reporting.history.record import Ending, Execution, RunRecord, checkout_of
from harness.reporting.history.writing import RunWriter, happenings_of
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import LAST_RUN, TaskRecord, task_record, write_last_run
from harness.reporting.telemetry.record import RunBegun
from harness.reporting.telemetry.sinks import begun_stream
from harness.reporting.telemetry.stream import Telemetry
from harness.reporting.telling import story_of
from harness.resilience.events import ClientChanged, ResilienceEvent
from harness.resilience.owner import Owner
from harness.runner.bridging import BridgeHost
from harness.runner.compile import compile_plan
from harness.runner.harness import Harness
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


class RequestedRun:
    """A task that was started for a session."""

    def __init__(self, plan: Plan, settings: Settings, run_id: str, session: str) -> None:
        self.plan = plan
        self.settings = settings
        self.run_id = run_id
        self.session = session
        self.judged = False
        """Whether its task has ended; its browser and services may still be closing."""
        self.over = ""
        """How it ended; empty while it goes on."""
        self.stream: Telemetry | None = None
        self.work: asyncio.Task[None] | None = None


class LentBridge:
    """The place of one requested run in the bridge of the server (`bridging.ServesAgents`)."""

    def __init__(self, hub: BridgeHub, session: str) -> None:
        self._hub = hub
        self._session = session

    def agent(self) -> HubAgent:
        """The agent of the session that has asked for the task."""
        return self._hub.agent(self._session)

    def joined(self, ports: Ports) -> Ports:
        """The ports of a task, together with what passes between it and its session."""
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
            self._forget_old()
            session.wrote = False
            self._runs[session.id] = run
            run.work = asyncio.get_running_loop().create_task(self._run(run, session))
            return run

    def _forget_old(self) -> None:
        """Forget the runs of sessions that are over."""
        open_ones = self._host.hub.sessions if self._host is not None else {}
        for gone in [name for name, run in self._runs.items() if run.over and name not in open_ones]:
            del self._runs[gone]

    async def _known(self) -> ProjectTasks:
        try:
            return await asyncio.to_thread(tasks_of, self._root)
        except (SettingsError, SpecError, OSError) as error:
            raise RefusedMessageError("SESS_TASK_REFUSED", str(error)) from error

    def _chosen(self, known: ProjectTasks, session: BridgeSession, task_id: str) -> Loaded:
        """The task of that id, or the next one for a session. Raises RefusedMessageError."""
        self._tell_problems(known)
        if not task_id:
            for name, each in known.tasks.items():
                if name not in session.had and not self._obstacle(each):
                    return each
            raise RefusedMessageError("SESS_NO_TASK", self._nothing_left(known, len(session.had)))
        found = known.tasks.get(task_id)
        if found is None:
            hint = did_you_mean(task_id, known.tasks)
            broken = "".join(f"\n{why}" for why in known.problems.values())
            told = f"no task below {', '.join(known.settings.serve.tasks)} has the id '{task_id}'"
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

    @staticmethod
    def _nothing_left(known: ProjectTasks, had: int) -> str:
        places = ", ".join(known.settings.serve.tasks)
        there = f"the session has had {had} of the {len(known.tasks)} tasks below {places}; no other can begin now"
        return (
            there if known.tasks else f"there are no tasks below {places}: `tasks` of [tool.harness.serve] names others"
        )

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
        checkout = checkout_of(self._root, os.environ)
        self._record = RunRecord(
            run=self._run.run_id,
            started=datetime.now(UTC),
            project=self._root.name,
            arguments=("harness", "serve", self._run.plan.task_id),
            environment=dict(self.environment),
            commit=checkout.commit,
            branch=checkout.branch,
            ci=executor_of(os.environ),
        )
        try:
            self._writer = RunWriter(self._root, self._record, Owner.this())
        except HistoryError as error:
            return f"history: {error}"
        return ""

    def finish(self, told: TaskEnded | None) -> str:
        """Write the end of the run, also of one that was cut off; returns what to say about it."""
        records = [self._task(told)] if told is not None else []
        notes = []
        try:
            if records:
                write_last_run(self._root / LAST_RUN, self._run.run_id, records)
        except OSError as error:
            notes.append(f"{LAST_RUN} cannot be written: {error}")
        if self._writer is not None and self._record is not None:
            try:
                for record in records:
                    self._writer.add(self._execution(record, told))
                notes.append(self._writer.finish(self._ended(self._record, told), self._run.settings.history_runs))
            except HistoryError as error:
                notes.append(f"history: {error}")
            finally:
                self._writer.close()
        return "; ".join(filter(None, notes))

    def _task(self, told: TaskEnded) -> TaskRecord:
        good, expect = ended_as_declared(told.plan.spec, told.result), told.plan.spec.expect
        unexpected = expect is not None and not good
        record = task_record(story_of(told.plan, told.result, self._redactor, unexpected=unexpected))
        return (
            record
            if record.artifacts is None
            else record.model_copy(update={"artifacts": kept_place(record.artifacts, self._root)})
        )

    @staticmethod
    def _execution(record: TaskRecord, told: TaskEnded | None) -> Execution:
        good = told is not None and ended_as_declared(told.plan.spec, told.result)
        return Execution(
            nodeid=f"{record.source}::{record.task_id}",
            task_id=record.task_id,
            outcome="skipped" if told is not None and told.result.skipped else "passed" if good else "failed",
            seconds=record.seconds,
            reason=told.result.skipped if told is not None else "",
            at=record.started,
            record=record,
        )

    def _ended(self, record: RunRecord, told: TaskEnded | None) -> RunRecord:
        cut_off = _was_cut_off(told)
        ending: Ending = "interrupted" if cut_off else "finished"
        good = told is not None and ended_as_declared(told.plan.spec, told.result)
        return record.model_copy(
            update={
                "finished": datetime.now(UTC),
                "ending": ending,
                "exit_status": 2 if cut_off else 0 if good else 1,
                "environment": dict(self.environment),
                "happenings": happenings_of(self._root, record.run),
            }
        )
