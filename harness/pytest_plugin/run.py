"""Runs one item: dependencies, the engine, and the report to pytest."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from harness.model.events import Event, TaskEnded
from harness.model.figures import UNJUDGED, TaskDone
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.ports import LeftOut
from harness.model.record import TaskResult
from harness.model.warnings import done_twice
from harness.pytest_plugin.errors import CriterionFailed, KnownDefect, TaskFailed
from harness.pytest_plugin.not_run import placeholder_plan
from harness.pytest_plugin.options import WITH_DEPENDENCIES
from harness.pytest_plugin.role import Role, role_of
from harness.pytest_plugin.state import RECORD, STATE, SessionState
from harness.pytest_plugin.telemetry import telemetry_of
from harness.pytest_plugin.terminal import begin_properties
from harness.recovery import FULL, NOTHING
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.recovery.families import Suspect
from harness.recovery.never_twice import Known, RepeatVerdict, RepeatWay, again
from harness.reporting.allure.labels import running_test
from harness.reporting.console import brief, failure_text, printed
from harness.reporting.files import shown_path
from harness.reporting.story import TaskStory
from harness.reporting.task_record import TaskRecord, task_record
from harness.reporting.telling import bare_story, before_the_first_step, story_of
from harness.reporting.words import place
from harness.runner.compile import compile_plan
from harness.runner.not_run import not_run_result
from harness.spec.load import exists
from harness.spec.loaded import Loaded
from harness.spec.names import commandless
from harness.spec.problems import SpecError
from harness.values import replace

if TYPE_CHECKING:
    from harness.model.settings import Settings
    from harness.pytest_plugin.state import SessionState

# Questions to the person at the terminal (`on_state_inconsistency: manual_resolution`).

_Ask = Callable[[str, tuple[str, ...]], str | None]


def asking(state: SessionState, config: pytest.Config) -> _Ask | None:
    """A function that asks a person, without showing secrets; None under xdist. Without a terminal no answer comes."""
    if role_of(config) is not Role.ALONE:
        return None
    redactor = state.harness().archive.redactor
    return lambda question, choices: _ask(config, redactor.text(question), choices)


def _ask(config: pytest.Config, question: str, choices: tuple[str, ...]) -> str | None:
    """Ask for one of the choices, by number or name; None for an empty line, the end of the input, or no terminal."""
    numbered = ", ".join(f"{number}: {choice}" for number, choice in enumerate(choices, 1))
    with _suspend_capture(config):  # else its files replace the terminal, where a person can read and type
        if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__)):
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


@contextlib.contextmanager
def _suspend_capture(config: pytest.Config) -> Any:
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    capture.suspend(in_=True)
    try:
        yield
    finally:
        capture.resume()


# The reason why a task cannot run without the tasks that it depends on.


class Obstacle(Struct, frozen=True):
    """A dependency that did not pass."""

    reason: str
    absent: str = ""
    """The name of a dependency that is not among the tasks of this run."""


_exists = lru_cache(maxsize=1024)(exists)
"""Cached, since many tasks may depend on the same missing one."""


def obstacle(
    wanted: Sequence[str], names: Mapping[str, Sequence[str]], selected: Collection[str], done: Mapping[str, bool]
) -> Obstacle | None:
    """The first dependency that did not pass. `names`: the ids that each name means, from `by_name`."""
    for name in wanted:
        ids = names.get(name, (name,))
        if any(task_id not in selected for task_id in ids):
            return Obstacle(f"depends on {name}, which is not among the tasks of this run", absent=name)
        failed = next((task_id for task_id in ids if not done.get(task_id, False)), None)
        if failed is not None:
            why = "did not pass" if failed in done else "did not pass: it did not run to its end"
            return Obstacle(f"depends on {failed}, which {why}")
    return None


def _advice(item: pytest.Item, name: str) -> str:
    """The command that runs the item with all its dependencies, from this run's folder; or that no file has it."""
    config = item.config
    places = (item.path.parent, *(config.rootpath / each for each in config.getini("testpaths") or ["."]))
    if not _exists(name, places, tuple(config.getini("taskspec_files"))):
        return "no task file of the project has this task: add it, or remove it from `dependencies`"
    if item.config.getoption(WITH_DEPENDENCIES):
        no = "found no file with this task, neither beside the named files nor in the project's testpaths"
        return f"{WITH_DEPENDENCIES} {no}"
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    return f"run: pytest {shlex.quote(f'{path}::{item.name}')} {WITH_DEPENDENCIES}"


def perform(request: pytest.FixtureRequest, loaded: Loaded) -> None:
    """Run the task; raises TaskFailed, or skips if a task that it depends on did not pass."""
    __tracebackhide__ = True
    state, item = request.config.stash[STATE], request.node
    if problems := state.problems.get(loaded.source):
        raise TaskFailed(problems[0].splitlines()[0], "\n".join(problems))
    if failure := item.unloaded or state.lost.get(loaded.spec.task_id):
        if state.ahead is not None:
            state.ahead.skip(item)
        raise _not_begun(state, item, loaded, failure)
    _require(state, item, loaded)
    plan, result, interrupted = _run_to_end(state, item, loaded)
    harness = state.harness()
    defect = None if item.config.option.runxfail else plan.spec.expected_failure
    state.done[plan.task_id] = ended_as_declared(plan.spec, result) and defect is None and interrupted is None
    declares = plan.spec.expect is not None or (defect is not None and result.ok)
    unexpected = declares and not state.done[plan.task_id] and interrupted is None and not result.skipped
    try:
        full, result = traced_in_full(state, item, plan, result) if interrupted is None else ("", result)
    finally:  # Allure copies the files that exist now: the second trace, and the manifest that names it
        story = _story(state, plan, result, unexpected=unexpected)
        _tell_allure(state, plan, story, harness.browser)
    telemetry_of(request.config).attach(plan.task_id)
    record = state.fence.call("task record", task_record, story)
    if interrupted is not None and not isinstance(interrupted, pytest.fail.Exception):
        state.interrupted += [record] if record else []
        raise interrupted.ending if isinstance(interrupted, SessionOver) else interrupted
    if result.skipped:
        raise _skipped(story.skipped)
    if record is not None and defect is not None:
        record = record.model_copy(update={"expected": _is_of_the_task(story), "known_defect": defect})
    _tell(item, story, record, loaded.spec.own.notes)
    _judge(state, plan, story, full, defect)
    if interrupted is not None:  # a task that declares its own timeout has not passed by that of a plugin
        raise interrupted


def _story(state: SessionState, plan: Plan, result: TaskResult, *, unexpected: bool = False) -> TaskStory:
    redactor = state.harness().archive.redactor
    told = state.fence.call("story", partial(story_of, unexpected=unexpected), plan, result, redactor)
    return told or bare_story(plan, result)


class RepairFailed(Exception):  # noqa: N818 - its name is shown to people
    """`pytest.fail` in a repair hook."""


class SessionOver(BaseException):
    """`pytest.exit` in a repair hook: it interrupts the wait for the task, as Ctrl-C does."""

    def __init__(self, ending: BaseException) -> None:
        self.ending = ending
        super().__init__(str(ending))


def _run_to_end(
    state: SessionState, item: pytest.Item, loaded: Loaded
) -> tuple[Plan, TaskResult, BaseException | None]:
    """The result, also of an interrupted task: its report is written before the interruption goes on."""
    __tracebackhide__ = True
    ended: list[TaskEnded] = []
    stream = telemetry_of(item.config).stream

    def sink(event: Event) -> None:
        stream.turn(event, heard=state.ahead is not None)
        if isinstance(event, TaskEnded):
            ended.append(event)

    try:
        return *_run_in_turn(state, item, loaded, sink), None
    except SpecError as error:
        raise _not_begun(state, item, loaded, Failure("INVALID_INPUT", str(error))) from None
    except BaseException as interruption:
        if not ended:
            raise
        return ended[-1].plan, ended[-1].result, interruption


def _run_in_turn(
    state: SessionState, item: pytest.Item, loaded: Loaded, sink: Callable[[Event], None]
) -> tuple[Plan, TaskResult]:
    """Run the task in its turn; under `--task-workers` it may have begun before."""
    idle = telemetry_of(item.config).idle
    if state.ahead is not None:
        ran = state.ahead.run(item, sink, idle)
        return ran.plan, ran.result
    plan = plan_of(state, loaded, judged_later=has_own_fixtures(item))
    return plan, state.harness().run(plan, sink, asking(state, item.config), partial(repair, item.config), idle)


HARMLESS = frozenset({"request", "_pw_trace_api_requests"})
"""Fixtures that do nothing around a task: pytest's own, and what pytest-playwright gives to every test."""


def has_own_fixtures(item: pytest.Item) -> bool:
    """Return whether fixtures are set up for the item itself, or for its file: they are torn down after it."""
    return not set(getattr(item, "fixturenames", ())) <= HARMLESS | set(session_wide(item))


def session_wide(item: Any) -> Iterator[str]:
    """The session-wide fixtures of the item, which are set up already."""
    for name, found in item._fixtureinfo.name2fixturedefs.items():  # noqa: SLF001 - `fixturenames` has no scopes
        if found and found[-1].scope == "session":
            yield name


def plan_of(state: SessionState, loaded: Loaded, *, judged_later: bool = False) -> Plan:
    """Compile the plan. Raises SpecError. A task that runs again after its worker died has a fresh world."""
    plan = compile_plan(loaded, settings=state.settings, run_id=state.run_id, agent=state.chosen)
    if judged_later:
        plan = replace(plan, judged_later=True)
    episode = plan.spec.episode_id
    if episode and state.last.get(episode) != plan.task_id:
        plan = replace(plan, last_of_episode=False)
    return replace(plan, world=f"{plan.world}.{state.afresh}") if state.afresh and not plan.spec.episode_id else plan


def repair(config: pytest.Config, plan: Plan, precondition: str, memory: Mapping[str, Any]) -> Any:
    """The answer of the hook `pytest_taskspec_repair`; False if there is no implementation.

    Raises what pytest's outcomes mean for the task: LeftOut (`skip`), SessionOver (`exit`), else the original error.
    """
    hook = config.hook.pytest_taskspec_repair
    try:
        answer = hook(config=config, task_id=plan.task_id, precondition=precondition, memory=memory)
    except pytest.skip.Exception as skip:
        raise LeftOut(str(skip)) from skip
    except pytest.fail.Exception as failed:  # it is no Exception: it would be taken for Ctrl-C
        raise RepairFailed(str(failed)) from failed
    except pytest.exit.Exception as ending:  # it is an Exception: it would be taken for a hook that fails
        raise SessionOver(ending) from ending
    return False if answer is None else answer


def _require(state: SessionState, item: pytest.Item, loaded: Loaded) -> None:
    __tracebackhide__ = True
    found = obstacle(loaded.spec.dependencies, state.names, state.selected, state.done)
    if found is None:
        return
    if state.ahead is not None:
        state.ahead.skip(item)
    left_out = TaskDone("skipped", seconds=0.0, steps=0, attempts=0, failures=0, reason=found.reason)
    telemetry_of(item.config).stream.tell(left_out, placeholder_plan(loaded, state.run_id))
    if found.absent:
        state.unjudged.append(item)
        raise _skipped(f"{found.reason}; {_advice(item, found.absent)}")
    raise _skipped(found.reason)


def _skipped(reason: str) -> BaseException:
    """A skip that points at the task's file."""
    skip: BaseException = pytest.skip.Exception(commandless(reason), _use_item_location=True)
    return skip


def _tell_allure(state: SessionState, plan: Plan, story: TaskStory, browser: str = "") -> None:
    if running_test() is not None:
        from harness.reporting.allure.sink import AllureSink

        sink = AllureSink(state.harness().archive.kept_files)
        state.fence.call("Allure", sink.finish, plan.spec, story, browser)


def _not_begun(state: SessionState, item: pytest.Item, loaded: Loaded, failure: Failure) -> TaskFailed:
    """The failure of a task without a plan or a process, which is printed, counted and kept like the others."""
    plan = placeholder_plan(loaded, state.run_id)
    result = not_run_result(state.harness().archive, plan, failure)
    story = _story(state, plan, result)
    _tell_allure(state, plan, story)
    telemetry_of(item.config).stream.tell(TaskDone.of(result), plan)
    _tell(item, story, state.fence.call("task record", task_record, story))
    told = story.failure.message if story.failure else ""
    lines = [story.headline, *(f"  {line}" for line in told.splitlines())]
    lines.append(f"  suspect: {story.failure.suspect if story.failure else ''}")
    if story.artifacts:
        lines.append(f"  artifacts: {shown_path(Path(story.artifacts))}")
    return TaskFailed(brief(story), printed(lines), printed([story.cause]))


def _tell(
    item: pytest.Item, story: TaskStory, record: TaskRecord | None, notes: Sequence[tuple[str, object]] = ()
) -> None:
    """Add the data that travels with the report: to junit.xml, and from an xdist worker to its controller."""
    told = [*notes, ("task_id", story.task_id), ("final_state", story.final_state)]
    if story.failure is not None:
        told += [("error_type", story.failure.kind), ("code", story.failure.code)]
    if story.artifacts:
        told.append(("task_artifacts", story.artifacts))
    begin_properties(item, told)
    if record is not None:
        item.stash[RECORD] = record


_NOT_EXCUSED = (Suspect.MACHINE, Suspect.PROJECT)
"""Whom a known defect cannot be due to: a run without a browser or services would be green."""


def _is_of_the_task(story: TaskStory) -> bool:
    """Return whether it failed by itself or by its site, and not because of what surrounds it."""
    failure = story.failure
    return failure is not None and failure.code not in UNJUDGED and failure.suspect not in _NOT_EXCUSED


def _judge(state: SessionState, plan: Plan, story: TaskStory, full_trace: str, defect: str | None) -> None:
    """Raise what the end of the task means for pytest. `defect`: its `expected_failure`, without `--runxfail`."""
    __tracebackhide__ = True
    settings = state.settings
    unserved = None if settings.services else settings.root / "pyproject.toml"
    shown = partial(failure_text, unserved=unserved, full_trace=full_trace)
    text = state.fence.call("terminal", shown, story) or story.headline
    if plan.spec.expect is not None:
        if not story.as_declared:
            told = f"did not end as it declares: {'; '.join(story.differences)}"
            headline = f"{story.task_id} {told}"
            raise CriterionFailed(headline, f"{headline}\n\n{text}", told)
    elif story.unexpected:
        told = f"passed, although `expected_failure` says that it fails: {defect}"
        where = plan.origin.place(("expected_failure",)) if plan.origin else plan.source
        advice = f"If the defect is mended, remove `expected_failure` ({where})."
        raise TaskFailed(f"{story.task_id} {told}", f"{story.task_id} {told}\n  {advice}", told)
    elif story.failure is not None:
        kind = CriterionFailed if story.failure.family is Family.ASSERTION else TaskFailed
        excused = defect is not None and _is_of_the_task(story)
        if defect is not None and not excused:
            text += "\n  `expected_failure` does not excuse a failure of the machine or of what the project provides."
        raise (KnownDefect if excused else kind)(brief(story), text, printed([story.cause]))
    elif story.refused:
        others = story.takeovers
        how = f"was ended by the agent `{others[-1].after}`" if others else f"ended as {story.final_state}"
        raise TaskFailed(f"{story.task_id} {how}, which --taskspec-strict refuses", text)


# `--task-retrace`: runs a failed task once more, recorded in full, if that does no harm.

_OPTION = "--task-retrace"
_SAFE = ("GET", "HEAD", "OPTIONS")
_FRESH = ("world", "reset")
"""Kinds of isolation under which a task that runs again does not see the effects of its first run."""


def traced_in_full(state: SessionState, item: pytest.Item, plan: Plan, result: TaskResult) -> tuple[str, TaskResult]:
    """The line about the full trace for the failure text, and the result; runs the task again if that is requested.

    The line is empty if the trace is full already, if there is none, or if the task did what it declares. The result is
    as it was, with a warning of what the second run may have done twice.
    """
    if result.failure is None or result.artifacts is None or ended_as_declared(plan.spec, result):
        return "", result
    if state.settings.recording == "full" or state.settings.tracing == "on":
        return "", result
    refused = refusal(plan, result, state.settings, alone=state.ahead is None)
    if not state.settings.retrace:
        return "" if refused else f"full trace: {command(item, state)}", result
    if refused:
        return f"{_OPTION}: the task did not run again: {refused}", result
    line, second = _run_again(state, plan)
    return line, replace(result, warnings=(*result.warnings, *done_twice(second, _OPTION)))


def _run_again(state: SessionState, plan: Plan) -> tuple[str, TaskResult]:
    harness = state.harness()
    second = replace(plan, key=f"{plan.key}.retrace", in_full=True)
    result = harness.run(second, lambda _event: None)
    found = harness.archive.retraced(plan, second, result)
    how = "did not fail again" if result.failure is None else f"failed with {result.failure.code}"
    if found is None:
        return f"{_OPTION}: the second run {how}, and left no trace", result
    return f"full trace: {shown_path(found)} (the second run {how})", result


def refusal(plan: Plan, result: TaskResult, settings: Settings, *, alone: bool) -> str | None:
    """The reason why the task must not run a second time; None if it may. `alone`: no other task runs beside it."""
    if settings.tracing == "off":
        return "no trace is recorded with `tracing` off"
    if before_the_first_step(result) or all(each.index < 0 and each.step.act == "assert" for each in result.history):
        return "it failed before it had a page"
    if result.failure is not None and plan.rulebook.evidence(result.failure, FULL) == NOTHING:
        return "the task says `capture: none`"
    if plan.faults and not alone:
        return "its faults could strike the tasks that run at the same time"
    return _effect_of_second_run(plan, result, settings)


def _effect_of_second_run(plan: Plan, result: TaskResult, settings: Settings) -> str | None:
    """The effect of a second run on a state that the first has written to, as a reason; None without any."""
    isolated = settings.isolation in _FRESH and not plan.spec.episode_id
    written = None if isolated else _what_was_written(result)
    if again(RepeatWay.RETRACE, Known(written is not None, undone=isolated)) is RepeatVerdict.AGAIN:
        return None
    if plan.spec.episode_id:
        return f"{written}, and the tasks of an episode share their state"
    return f'{written}, and the project declares neither `isolation = "world"` nor `"reset"`'


def _what_was_written(result: TaskResult) -> str | None:
    """The first thing that the task may have changed on its sites; None if nothing was seen."""
    try:
        document = json.loads(Path(result.artifacts or "", "network_logs.har").read_text("utf-8"))
        requests = [each["request"] for each in document["log"]["entries"]]
    except (OSError, ValueError, KeyError, TypeError):
        return "its requests were not kept, so nobody knows what it wrote"
    sent = (f"it sent {each['method']} {each['url']}" for each in requests if each["method"] not in _SAFE)
    wrote = (record for record in result.history if record.wrote or any(each.unsafe for each in record.sent))
    steps = (f"step {place(each.index, result.steps_total)} ({each.step.act}) may have written" for each in wrote)
    others = (f"a task that ran inside it may have written ({each.step.describe()})" for each in result.written)
    return next(sent, None) or next(steps, None) or next(others, None)


def command(item: pytest.Item, state: SessionState) -> str:
    """The command that runs this item alone with the option, from the folder where pytest was started.

    It has the same faults and the same agent, since it would not fail in the same way without them.
    """
    file, _, name = item.nodeid.partition("::")
    start = item.config.invocation_params.dir
    here = os.path.relpath(item.path, start)
    words = ["pytest", f"{here}::{name}" if name else file, _OPTION]
    for plan in state.settings.faults:
        words += ["--task-faults", os.path.relpath(plan, start)]
    words += ["--task-agent", state.chosen] if state.chosen else []
    return shlex.join(words)
