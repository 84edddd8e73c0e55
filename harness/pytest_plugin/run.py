"""Running one item: dependencies, the engine, and what pytest is told."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import pytest

from harness.model.events import Event, TaskEnded
from harness.model.outcome import reached, unmet
from harness.model.plan import Plan
from harness.model.ports import LeftOut
from harness.model.record import TaskResult
from harness.model.settings import Settings
from harness.pytest_plugin.errors import CriterionFailed, TaskFailed
from harness.pytest_plugin.retrace import traced_in_full
from harness.pytest_plugin.state import RECORD, STATE, SessionState
from harness.pytest_plugin.telemetry import telemetry_of
from harness.pytest_plugin.unrun import bare_plan, unrun
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.reporting.allure.sink import AllureSink
from harness.reporting.console import brief, cause, failure_text, headline
from harness.reporting.files import commandless, shown_path
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import TaskRecord, task_record
from harness.runner.compile import compile_plan
from harness.spec.load import exists
from harness.spec.loaded import Loaded
from harness.spec.problems import SpecError

# Asking the person at the terminal (`on_state_inconsistency: manual_resolution`).

Ask = Callable[[str, tuple[str, ...]], str | None]


def person(config: pytest.Config) -> Ask | None:
    """Who can be asked; None under xdist. In CI, and wherever no terminal is, nobody answers."""
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None):
        return None
    return lambda question, choices: _ask(config, question, choices)


def _ask(config: pytest.Config, question: str, choices: tuple[str, ...]) -> str | None:
    """One of the choices, by its number or its name; None for an empty line, the end of the input, no terminal."""
    numbered = ", ".join(f"{number}: {choice}" for number, choice in enumerate(choices, 1))
    with _uncaptured(config):
        if not _terminal():
            return None
        print(f"\n{question}\n{numbered}, empty: neither", flush=True)  # noqa: T201 - it is a conversation
        while True:
            try:
                answer = input("> ").strip()
            except EOFError:
                return None
            if not answer:
                return None
            if answer.isdigit() and 1 <= int(answer) <= len(choices):
                return choices[int(answer) - 1]
            if answer in choices:
                return answer
            print(f"please answer {numbered}, or nothing", flush=True)  # noqa: T201


def _terminal() -> bool:
    """Whether a person can read and type. While pytest captures, its files stand in place of the terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__))


@contextlib.contextmanager
def _uncaptured(config: pytest.Config) -> Any:
    """pytest's capturing off, of the input too."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    capture.suspend(in_=True)
    try:
        yield
    finally:
        capture.resume()


# Why a task cannot run without the tasks that it depends on.

OPTION = "--task-with-deps"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A dependency that did not pass."""

    reason: str
    absent: str = ""
    """The name of what is not among the tasks of this run."""


_exists = lru_cache(maxsize=1024)(exists)
"""Many tasks may depend on what is not there."""


def obstacle(
    wanted: Sequence[str], names: Mapping[str, Sequence[str]], selected: Collection[str], done: Mapping[str, bool]
) -> Obstacle | None:
    """The first of the dependencies that stands in the way. `names`: what each name stands for, by `by_name`."""
    for name in wanted:
        ids = names.get(name, (name,))
        if any(task_id not in selected for task_id in ids):
            return Obstacle(f"depends on {name}, which is not among the tasks of this run", absent=name)
        failed = next((task_id for task_id in ids if not done.get(task_id, False)), None)
        if failed is not None:
            why = "did not pass" if failed in done else "did not pass: it did not run to its end"
            return Obstacle(f"depends on {failed}, which {why}")
    return None


def advice(item: pytest.Item, name: str) -> str:
    """What runs the item with all that it depends on, to be typed where this run was started; of a task that no file
    has, that."""
    config = item.config
    places = (item.path.parent, *(config.rootpath / each for each in config.getini("testpaths") or ["."]))
    if not _exists(name, places, tuple(config.getini("taskspec_files"))):
        return "no task file of the project has it: add the task, or take it out of `dependencies`"
    if item.config.getoption(OPTION):
        return f"{OPTION} found no task file that has it, neither beside the files named nor in the project's testpaths"
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    return f"run: pytest {shlex.quote(f'{path}::{item.name}')} {OPTION}"


def perform(request: pytest.FixtureRequest, loaded: Loaded) -> None:
    """Run the task; raises TaskFailed, or skips when a task that it depends on did not pass."""
    __tracebackhide__ = True
    state, item = request.config.stash[STATE], request.node
    if problems := state.problems.get(loaded.source):
        raise TaskFailed(problems[0].splitlines()[0], "\n".join(problems))
    _require(state, item, loaded)
    plan, result, interrupted = _played(state, item, loaded)
    harness = state.harness()
    state.done[plan.task_id] = reached(plan.spec, result)
    unexpected = plan.spec.expect is not None and not state.done[plan.task_id] and interrupted is None
    try:
        full = traced_in_full(state, item, plan, result) if interrupted is None else ""
    finally:  # Allure copies what is there now: the second trace, and the manifest that speaks of it
        AllureSink(harness.redactor, harness.archive.kept).finish(plan, result, harness.browser)
    telemetry_of(request.config).attach(plan.task_id)
    record = task_record(plan, result, harness.redactor, unexpected=unexpected)
    if interrupted is not None:
        state.interrupted.append(record)
        raise interrupted.ending if isinstance(interrupted, SessionOver) else interrupted
    if result.skipped:
        raise _skipped(harness.redactor.text(result.skipped))
    item.user_properties += list(loaded.spec.own.notes)
    _tell(item, result, record)
    _judge(plan, result, harness.redactor, state.settings, full)


class RepairFailed(Exception):  # noqa: N818 - its name is shown to people
    """`pytest.fail` in a repair hook."""


class SessionOver(BaseException):
    """`pytest.exit` in a repair hook: breaks into the wait for the task, as Ctrl-C does."""

    def __init__(self, ending: BaseException) -> None:
        self.ending = ending
        super().__init__(str(ending))


def _played(state: SessionState, item: pytest.Item, loaded: Loaded) -> tuple[Plan, TaskResult, BaseException | None]:
    """The result, also of a task that was interrupted: its report is written before the interruption goes on."""
    __tracebackhide__ = True
    ended: list[TaskEnded] = []
    telemetry = telemetry_of(item.config)

    def sink(event: Event) -> None:
        if state.ahead is None:
            telemetry.on(event)
        else:  # it was heard when it happened
            telemetry.deliver()
        state.progress.on(event)
        if isinstance(event, TaskEnded):
            ended.append(event)

    try:
        return *_ran(state, item, loaded, sink), None
    except SpecError as error:
        raise _unready(state, item, loaded, error) from None
    except BaseException as interruption:
        if not ended:
            raise
        return ended[-1].plan, ended[-1].result, interruption


def _ran(
    state: SessionState, item: pytest.Item, loaded: Loaded, sink: Callable[[Event], None]
) -> tuple[Plan, TaskResult]:
    """In its turn; under `--task-workers` it may have begun before."""
    if state.ahead is not None:
        ran = state.ahead.run(item, sink)
        return ran.plan, ran.result
    plan = plan_of(state, loaded)
    return plan, state.harness().run(plan, sink, asking(state, item.config), partial(repair, item.config))


def plan_of(state: SessionState, loaded: Loaded) -> Plan:
    """Raises SpecError. What a worker of xdist has left behind that died is not met by a task that runs again."""
    plan = compile_plan(loaded, settings=state.settings, run_id=state.run_id, agent=state.chosen)
    episode = plan.spec.episode_id
    if episode and state.last.get(episode) != plan.task_id:
        plan = replace(plan, last_of_episode=False)
    return replace(plan, world=f"{plan.world}.{state.afresh}") if state.afresh and not plan.spec.episode_id else plan


def asking(state: SessionState, config: pytest.Config) -> Ask | None:
    """Who can be asked, without being shown secrets."""
    ask, redactor = person(config), state.harness().redactor
    return ask and (lambda question, choices: ask(redactor.text(question), choices))


def repair(config: pytest.Config, plan: Plan, precondition: str, memory: Mapping[str, Any]) -> Any:
    """What the hook `pytest_taskspec_repair` says; False where nobody implements it.

    Raises what an outcome of pytest means for the task: LeftOut (`skip`), SessionOver (`exit`), else what was raised.
    """
    hook = config.hook.pytest_taskspec_repair
    try:
        answer = hook(config=config, task_id=plan.task_id, precondition=precondition, memory=memory)
    except pytest.skip.Exception as skip:
        raise LeftOut(str(skip)) from skip
    except pytest.fail.Exception as failed:  # no Exception: it would be taken for Ctrl-C
        raise RepairFailed(str(failed)) from failed
    except pytest.exit.Exception as ending:  # an Exception: it would be taken for a hook that fails
        raise SessionOver(ending) from ending
    return False if answer is None else answer


def _require(state: SessionState, item: pytest.Item, loaded: Loaded) -> None:
    __tracebackhide__ = True
    found = obstacle(loaded.spec.dependencies, state.names, state.selected, state.done)
    if found is None:
        return
    if state.ahead is not None:
        state.ahead.skip(item)
    if found.absent:
        state.unjudged.append(item)
        raise _skipped(f"{found.reason}; {advice(item, found.absent)}")
    raise _skipped(found.reason)


def _skipped(reason: str) -> BaseException:
    """A skip that points at the task's file."""
    skip: BaseException = pytest.skip.Exception(commandless(reason), _use_item_location=True)
    return skip


def _unready(state: SessionState, item: pytest.Item, loaded: Loaded, error: SpecError) -> TaskFailed:
    """A task that no plan can be made of reads, counts and is kept like the others."""
    plan, redactor = bare_plan(loaded, state.run_id), state.harness().redactor
    result = unrun(state, plan, Failure("INVALID_INPUT", str(error)))
    AllureSink(redactor).finish(plan, result)
    _tell(item, result, task_record(plan, result, redactor))
    lines = [headline(plan, result, redactor), *(f"  {line}" for line in str(error).splitlines())]
    if result.artifacts is not None:
        lines.append(f"  artifacts: {shown_path(result.artifacts)}")
    return TaskFailed(brief(plan, result, redactor), "\n".join(lines), cause(plan, result, redactor))


def _tell(item: pytest.Item, result: TaskResult, record: TaskRecord) -> None:
    """What travels with the report: to junit.xml, and from an xdist worker to its controller."""
    item.user_properties += [("task_id", result.task_id), ("final_state", result.final_state)]
    if result.failure is not None:
        item.user_properties += [("error_type", str(result.failure.type)), ("code", result.failure.code)]
    if result.artifacts is not None:
        item.user_properties.append(("task_artifacts", str(result.artifacts)))
    item.stash[RECORD] = record


def _judge(plan: Plan, result: TaskResult, redactor: Redactor, settings: Settings, full_trace: str) -> None:
    __tracebackhide__ = True
    unserved = None if settings.services else settings.root / "pyproject.toml"
    expect = plan.spec.expect
    text = failure_text(plan, result, redactor=redactor, unserved=unserved, full_trace=full_trace)
    if expect is not None:
        if wrong := unmet(expect, result):
            told = f"did not show the outcome it declares: {'; '.join(wrong)}"
            headline = f"{plan.task_id} {told}"
            raise CriterionFailed(headline, f"{headline}\n\n{text}", told)
    elif result.failure is not None:
        kind = CriterionFailed if result.failure.family is Family.ASSERTION else TaskFailed
        raise kind(brief(plan, result, redactor), text, cause(plan, result, redactor))
    elif result.final_state == "partial_success" and plan.strict:
        raise TaskFailed(f"{plan.task_id} ended as partial_success, which --taskspec-strict refuses", text)
