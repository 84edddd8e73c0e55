"""`.harness/agents/<run>/<key>/trajectory.jsonl`: the way that an agent took through a task, also one that passed.

The first line is about the task, and each further line about a choice of an agent: what it saw, what it asked and was
told, and the step that followed, if one did. Snapshots of pages are files beside it. A failed task has a copy of all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.masking import Secrets
from harness.model.inference import ModelCall
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import StepRecord, TaskResult, Warning_, answer_text, seen_writing
from harness.model.settings import Settings
from harness.model.trajectory import (
    Noted,
    SaidAnswer,
    SaidByModel,
    SeenByAgent,
    SeenPage,
    TrajectoryChoice,
    TrajectoryLine,
    TrajectoryStep,
    TrajectoryTask,
)
from harness.model.warnings import trajectory_not_kept
from harness.reporting.files import read_regular, safe_name, write_text
from harness.reporting.redaction import Redactor
from harness.reporting.workspace import Workspace, runs_in
from harness.spec.agents import SCRIPTED
from harness.spec.steps import Step
from harness.values import map_texts

TRAJECTORIES = "trajectories"
"""The folder of an evaluation with the ways of its trials' agents: the project's own are deleted after some runs."""
AGENTS = Path(".harness/agents")
FILE = "trajectory.jsonl"
_SNAPSHOTS = "snapshots"
"""The folder beside the file with what the agents saw."""
MOST = 2000
"""The largest number of looks and answers that are kept of a task."""
LONGEST = 200_000
"""The largest number of characters that are kept of a snapshot or an answer."""


class Trajectory(Struct, frozen=True):
    """What a file has."""

    file: Path
    task: TrajectoryTask
    steps: tuple[TrajectoryStep, ...]
    """The choices that led to steps."""
    choices: tuple[TrajectoryStep | TrajectoryChoice, ...] = ()
    """All choices, in order."""


class TrajectoryError(ValueError):
    """A file that is no trajectory: `file:line: what is wrong`."""


class Trajectories:
    """Writes the trajectories of one run, each by a rename; deletes those of the oldest runs."""

    def __init__(self, settings: Settings, run_id: str, redactor: Redactor) -> None:
        self._root = settings.root / AGENTS
        self._run = safe_name(run_id)
        self._redactor = redactor
        self._pictured = max(1, settings.keep_previous)
        """The number of runs of which the snapshots are kept, with this one."""
        self._runs = max(self._pictured, settings.history_runs)
        self._pruned = False

    def kept(self, plan: Plan, result: TaskResult, noted: Sequence[Noted]) -> tuple[Warning_, ...]:
        """Write the way of a task's agents; returns what a person should know if that was not possible."""
        try:
            self.keep(plan, result, noted)
        except Exception as error:  # noqa: BLE001 - what is lost is a file, and never the task's result
            return (trajectory_not_kept(error),)
        return ()

    def keep(self, plan: Plan, result: TaskResult, noted: Sequence[Noted] = ()) -> Path:
        """Write the file and return it; a copy of all goes to the artifacts of a failed task. Raises OSError."""
        folder = self._root / self._run / safe_name(plan.key)
        redact = self._redactor.plus(plan.all_secrets)
        pages = _Snapshots(redact.text)
        lines = [msgspec.to_builtins(each) for each in _Choices(plan, result, self._run, noted, pages).lines()]
        text = "".join(f"{msgspec.json.encode(redact.strings(line)).decode()}\n" for line in lines)
        for place in (folder, result.artifacts):
            if place is not None:
                pages.write(place)
                write_text(place / FILE, text)
        self._prune()
        return folder / FILE

    def _prune(self) -> None:
        """Keep the newest runs: their names begin with their time. Once for a process is enough."""
        if self._pruned:
            return
        self._pruned, workspace, runs = True, Workspace(self._root, self._run), runs_in(self._root)
        with contextlib.suppress(FileNotFoundError):  # a parallel worker was quicker
            pictures = (each for run in runs[self._pictured :] for each in run.glob(f"*/{_SNAPSHOTS}"))
            for old in (*runs[self._runs :], *pictures):
                workspace.discard(old)


class _Snapshots:
    """The snapshots of one task, redacted; equal ones are one file."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._texts: dict[str, bytes] = {}

    def add(self, seen: SeenByAgent) -> SeenPage:
        text = self._redact(seen.aria).encode("utf-8", "replace")
        digest = sha256(text).hexdigest()
        name = f"{_SNAPSHOTS}/{digest[:16]}.txt"
        self._texts[name] = text
        return SeenPage(at=seen.at, url=seen.url, sha256=digest, file=name)

    def write(self, folder: Path) -> None:
        """Write the files. Raises OSError."""
        for name, text in self._texts.items():
            write_text(folder / name, text.decode())


def _referring(secrets: Iterable[str], given: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """A function that puts `${env:NAME}` in the place of the secrets of the environment, and `given` for others."""
    known = frozenset(secrets)
    names = {value: f"${{env:{name}}}" for name, value in sorted(os.environ.items()) if value in known}
    names = {**(given or {}), **names}
    return Secrets(names, names).mask


class _Choices:
    """Puts what was noted to the steps that followed: what came before the step, and was about it."""

    def __init__(self, plan: Plan, result: TaskResult, run: str, noted: Sequence[Noted], pages: _Snapshots) -> None:
        self._plan, self._result, self._run = plan, result, run
        self._refer = _referring(plan.secrets, plan.given_secrets)
        self._pages = pages
        self._left: list[Noted | ModelCall] = sorted((*noted, *result.model_calls), key=lambda each: each.at)

    def lines(self) -> Iterator[TrajectoryLine]:
        """The line of the task, then its choices in the order of time."""
        yield self._task()
        records = [each for each in self._result.history if each.agent and each.attempts]
        choices: list[TrajectoryStep | TrajectoryChoice] = [self._step(each) for each in records]
        while self._left:
            choices.append(self._choice(self._left[0].agent, self._left[0].step))
        yield from sorted(choices, key=lambda each: each.at)

    def _task(self) -> TrajectoryTask:
        plan, result = self._plan, self._result
        return TrajectoryTask(
            task_id=plan.task_id,
            key=plan.key,
            source=plan.source,
            agent=plan.agent or SCRIPTED,
            run=self._run,
            trial=plan.trial,
            passed=ended_as_declared(plan.spec, result),
            final_state=result.final_state,
            code=result.failure.code if result.failure else None,
            seconds=round(result.elapsed, 3),
        )

    def _step(self, record: StepRecord) -> TrajectoryStep:
        began = record.attempts[0].started
        step = record.lasting_step or record.step
        seen, asked, said = self._taken(record.agent, record.index, began)
        return TrajectoryStep(
            index=record.index,
            agent=record.agent,
            at=began,
            seconds=round(sum(each.seconds for each in record.attempts), 3),
            step=_document(step, self._refer),
            lasting="aria-ref=" not in str(step),
            passed=record.passed,
            seen_writing=seen_writing(record.step, record.sent),
            code=record.failure.code if record.failure else None,
            message=record.failure.message if record.failure else "",
            answer=self._refer(answer_text(record))[:LONGEST],
            seen=seen,
            asked=asked,
            said=said,
        )

    def _choice(self, agent: str, step: int) -> TrajectoryChoice:
        """The choice without a step to which what is left belongs."""
        at = self._left[0].at
        seen, asked, said = self._taken(agent, step, None)
        return TrajectoryChoice(
            index=step, agent=agent, at=at, seen=seen, asked=asked, said=said, code=self._failure(agent, step)
        )

    def _failure(self, agent: str, step: int) -> str | None:
        """Why the agent chose nothing: its own failure, if one followed."""
        failed = [each.failure for each in self._result.takeovers if (each.before, each.index) == (agent, step)]
        last = self._result.failure
        if last is not None and self._result.failed_index == step and last.row.relieves:
            failed.append(last)
        return failed[0].code if failed else None

    def _taken(
        self, agent: str, step: int, until: datetime | None
    ) -> tuple[tuple[SeenPage, ...], tuple[ModelCall, ...], tuple[SaidAnswer, ...]]:
        """What was noted about this choice, which is no longer left."""
        mine = [
            each
            for each in self._left
            if (each.agent, each.step) == (agent, step) and (until is None or each.at <= until)
        ]
        self._left = [each for each in self._left if not any(each is one for one in mine)]
        return (
            tuple(self._pages.add(each) for each in mine if isinstance(each, SeenByAgent)),
            tuple(each for each in mine if isinstance(each, ModelCall)),
            tuple(self._answer(each) for each in mine if isinstance(each, SaidByModel)),
        )

    def _answer(self, said: SaidByModel) -> SaidAnswer:
        arguments = map_texts(said.arguments, self._refer)
        return SaidAnswer(
            at=said.at,
            model=said.model,
            tool=said.tool,
            arguments=arguments,
            text=self._refer(said.text),
            code=said.code,
        )


def _document(step: Step, refer: Callable[[str], str] = str) -> dict[str, Any]:
    """A step as a task file has it; `refer` puts references in the place of secrets."""
    found = {"act": step.act, **step.model_dump(mode="json", exclude_defaults=True, exclude={"act", "t"})}
    return {key: map_texts(value, refer) for key, value in found.items()}


# Reads what was written.


def trajectories(root: Path, task: str) -> Iterator[Trajectory]:
    """Yield the trajectories of a task, the newest first. Raises TrajectoryError.

    `root`: the project's folder. `task`: the task's id, or the key of one of its cases.
    """
    for run in runs_in(root / AGENTS):
        for file in sorted(run.glob(f"*/{FILE}"), reverse=True):
            found = read(file)
            if task in (found.task.task_id, found.task.key):
                yield found


def newest(root: Path) -> Iterator[Trajectory]:
    """Yield the trajectories of the last run, the one that was written last first. Raises TrajectoryError."""
    for run in runs_in(root / AGENTS)[:1]:
        yield from map(read, sorted(run.glob(f"*/{FILE}"), key=lambda file: file.stat().st_mtime, reverse=True))


def read(file: Path) -> Trajectory:
    """Read a file. Raises TrajectoryError, or OSError."""
    lines = [line for line in read_regular(file).splitlines() if line.strip()]
    decoder = msgspec.json.Decoder(TrajectoryLine)
    found: list[TrajectoryLine] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TrajectoryError(f"{file}:{number}: is not a line of a trajectory: {error}") from None
    if not found or not isinstance(found[0], TrajectoryTask):
        raise TrajectoryError(f"{file}:1: the first line must be about the task")
    choices = tuple(each for each in found[1:] if not isinstance(each, TrajectoryTask))
    return Trajectory(file, found[0], tuple(each for each in choices if isinstance(each, TrajectoryStep)), choices)
