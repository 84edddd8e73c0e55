"""`.harness/agents/<run>/<key>/trajectory.jsonl`: the way that an agent took through a task, also one that passed.

The first line is about the task, and each further line about a step that the agent chose.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.model.inference import ModelCall
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import StepRecord, TaskResult
from harness.reporting.archive import Workspace
from harness.reporting.files import read_regular, safe_name, write_text
from harness.reporting.redaction import Redactor
from harness.spec.agents import SCRIPTED
from harness.spec.references import SHORTEST
from harness.spec.steps import Step

AGENTS = Path(".harness/agents")
FILE = "trajectory.jsonl"


class TrajectoryTask(Struct, frozen=True, kw_only=True, tag="task", tag_field="line"):
    """The task, and how it ended."""

    task_id: str
    key: str
    source: str
    """The task's file, as shown to people."""
    agent: str
    """The name of its first agent; `scripted` for the steps of the file."""
    run: str
    trial: int
    passed: bool
    """Whether it ended as its file declares."""
    final_state: str
    code: str | None
    seconds: float


class TrajectoryStep(Struct, frozen=True, kw_only=True, tag="step", tag_field="line"):
    """A step that an agent chose, what it asked for the choice, and what became of it."""

    index: int
    agent: str
    at: datetime
    seconds: float
    step: dict[str, Any]
    """As a task file has it, with lasting selectors where they are known."""
    lasting: bool
    """Whether the step can be done again: it has no ref, which holds only for one view of a page."""
    passed: bool
    code: str | None
    asked: tuple[ModelCall, ...] = ()
    """The requests to models that led to the step."""


class Trajectory(Struct, frozen=True):
    """What a file has."""

    file: Path
    task: TrajectoryTask
    steps: tuple[TrajectoryStep, ...]


class TrajectoryError(ValueError):
    """A file that is no trajectory: `file:line: what is wrong`."""


class Trajectories:
    """Writes the trajectories of one run, each by a rename; deletes those of the oldest runs."""

    def __init__(self, root: Path, run_id: str, redactor: Redactor, runs: int) -> None:
        """`runs`: the number of runs that are kept, with this one."""
        self._root = root / AGENTS
        self._run = safe_name(run_id)
        self._redactor = redactor
        self._runs = max(1, runs)
        self._workspace = Workspace(self._root, self._run)

    def keep(self, plan: Plan, result: TaskResult) -> Path:
        """Write the file and return it. Raises OSError."""
        target = self._root / self._run / safe_name(plan.key) / FILE
        redact = self._redactor.plus(plan.all_secrets).strings
        refer = referring(plan.secrets)
        lines = (redact(msgspec.to_builtins(each)) for each in _lines(plan, result, self._run, refer))
        write_text(target, "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines))
        self._prune()
        return target

    def _prune(self) -> None:
        """Keep the newest runs: their names begin with their time."""
        with contextlib.suppress(FileNotFoundError):  # a parallel worker was quicker
            for old in _runs(self._root)[self._runs :]:
                self._workspace.discard(old)


def referring(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that puts `${env:NAME}` in the place of the secrets of the environment."""
    known = {secret for secret in secrets if len(secret) >= SHORTEST}
    names = {value: f"${{env:{name}}}" for name, value in sorted(os.environ.items()) if value in known}
    if not names:
        return str
    pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    return lambda text: pattern.sub(lambda found: names[found[0]], text)


def _lines(
    plan: Plan, result: TaskResult, run: str, refer: Callable[[str], str]
) -> Iterator[TrajectoryTask | TrajectoryStep]:
    yield TrajectoryTask(
        task_id=plan.task_id,
        key=plan.key,
        source=plan.source,
        agent=plan.agent or SCRIPTED,
        run=run,
        trial=plan.trial,
        passed=ended_as_declared(plan.spec, result),
        final_state=result.final_state,
        code=result.failure.code if result.failure else None,
        seconds=round(result.elapsed, 3),
    )
    calls = result.model_calls
    for record in result.history:
        if record.agent and record.attempts:
            asked = tuple(call for call in calls if _belongs(call, record))
            calls = tuple(call for call in calls if call not in asked)
            yield _step(record, asked, refer)


def _belongs(call: ModelCall, record: StepRecord) -> bool:
    """Whether the record came of this request. Refused proposals have the index of the step that comes after them."""
    same = (call.step, call.agent) == (record.index, record.agent)
    return same and call.at <= record.attempts[0].started


def _step(record: StepRecord, asked: tuple[ModelCall, ...], refer: Callable[[str], str]) -> TrajectoryStep:
    step = record.lasting_step or record.step
    return TrajectoryStep(
        index=record.index,
        agent=record.agent,
        at=record.attempts[0].started,
        seconds=round(sum(each.seconds for each in record.attempts), 3),
        step=document(step, refer),
        lasting="aria-ref=" not in str(step),
        passed=record.passed,
        code=record.failure.code if record.failure else None,
        asked=asked,
    )


def document(step: Step, refer: Callable[[str], str] = str) -> dict[str, Any]:
    """A step as a task file has it; `refer` puts references in the place of secrets."""
    found = {"act": step.act, **step.model_dump(mode="json", exclude_defaults=True, exclude={"act", "t"})}
    return {key: _in_texts(value, refer) for key, value in found.items()}


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _in_texts(each, change) for key, each in value.items()}
    return [_in_texts(each, change) for each in value] if isinstance(value, list) else value


# Reads what was written.


def trajectories(root: Path, task_id: str) -> Iterator[Trajectory]:
    """Yield the trajectories of a task, the newest first. `root`: the project's folder. Raises TrajectoryError."""
    for run in _runs(root / AGENTS):
        for file in sorted(run.glob(f"*/{FILE}"), reverse=True):
            found = read(file)
            if found.task.task_id == task_id:
                yield found


def read(file: Path) -> Trajectory:
    """Read a file. Raises TrajectoryError, or OSError."""
    lines = [line for line in read_regular(file).splitlines() if line.strip()]
    decoder = msgspec.json.Decoder(TrajectoryTask | TrajectoryStep)
    found: list[TrajectoryTask | TrajectoryStep] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TrajectoryError(f"{file}:{number}: is not a line of a trajectory: {error}") from None
    if not found or not isinstance(found[0], TrajectoryTask):
        raise TrajectoryError(f"{file}:1: the first line must be about the task")
    return Trajectory(file, found[0], tuple(each for each in found[1:] if isinstance(each, TrajectoryStep)))


def _runs(root: Path) -> list[Path]:
    """The folders of the runs, the newest first."""
    with contextlib.suppress(FileNotFoundError):
        return sorted((path for path in root.iterdir() if not path.name.startswith(".")), reverse=True)
    return []
