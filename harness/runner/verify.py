"""Verifies tasks: each does what it declares, and does not pass if nothing is done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.recovery import NoRecovery
from harness.recovery.failure import Failure
from harness.reporting.story import TaskStory
from harness.reporting.telling import story_of
from harness.runner.compile import compile_plan
from harness.runner.schedule import Job
from harness.runner.trials import Play, TrialJob, TrialRunner, runs_alone
from harness.spec.agents import SCRIPTED
from harness.spec.loaded import Loaded
from harness.spec.page_steps import Wait
from harness.spec.problems import SpecError
from harness.spec.steps import Api, Assert, Open, Screenshot, Scroll, Tool
from harness.spec.suite import dependencies, tasks_before, with_episodes
from harness.values import replace

if TYPE_CHECKING:
    from harness.runner.sync import SyncHarness

_IDLE_AGENT = "nobody"
"""The name of the agent of a task whose steps an agent chooses: such a task is run only with no steps."""


class TaskVerification(Struct, frozen=True):
    """The findings about one task."""

    task_id: str
    source: str
    wrong: str = ""
    """Why it does not do what it declares; empty: it does."""
    kept: str = ""
    """The task whose failure was kept under `errors/`; empty: none."""
    hollow: bool = False
    """Whether it passes with no steps, or with only its first page opened: then it tests nothing."""
    idle: tuple[str, ...] = ()
    """Success criteria that hold before anything is done."""
    idle_there: tuple[str, ...] = ()
    """Further criteria that hold on the first page that the task opens, before anything is done there."""

    @property
    def sound(self) -> bool:
        return not self.wrong and not self.hollow


def verify(
    tasks: Sequence[Loaded], harness: SyncHarness, runner: TrialRunner, tell: Callable[[TaskVerification], None]
) -> list[TaskVerification]:
    """Run each task with no steps, on a blank page and on the first one that it opens, then as written.

    Each time its dependencies and its episode's earlier tasks run first. `tell` receives each finding as soon as there
    is one; they are returned in the order of the tasks.
    """
    known, graph = {task.spec.task_id: task for task in tasks}, dependencies(tasks)
    order = with_episodes(tasks, graph)
    last: dict[str, str] = {}
    """Task -> the job that runs it last: of two at once, one would replace what the other has kept of a failure."""
    found: dict[int, TaskVerification] = {}
    jobs = []

    def take(number: int, verdict: TaskVerification) -> None:
        found[number] = verdict
        tell(verdict)

    for number, task in enumerate(tasks):
        wanted = set(tasks_before(task.spec.task_id, graph))
        first = [known[task_id] for task_id in tasks_before(task.spec.task_id, order)]
        name, specs = str(number), [each.spec for each in (*first, task)]
        after = frozenset(last[each.task_id] for each in specs if each.task_id in last)
        last.update(dict.fromkeys((each.task_id for each in specs), name))
        alone = False
        with suppress(SpecError):  # of a fault plan that cannot be read, each verdict tells
            alone = runs_alone(specs, harness.settings)
        job = Job(name, after=after, alone=alone)
        jobs.append(TrialJob(job, partial(_verdict, task, first, wanted, harness), partial(take, number)))
    runner.run(jobs)
    return [found[number] for number in range(len(tasks))]


async def _verdict(
    task: Loaded, first: Sequence[Loaded], wanted: Collection[str], harness: SyncHarness, play: Play
) -> TaskVerification:
    """The findings about a task.

    `first` are the tasks before it, of which the `wanted` ones must do what they should.
    """
    spec, label = task.spec, (task.spec.task_id, task.source)
    try:
        plan = _plan(task, harness, spec.task_id)
        for other in first:
            name = other.spec.task_id
            before = _plan(other, harness, spec.task_id)
            result = await play(before)
            if name in wanted and not ended_as_declared(other.spec, result):
                why, kept = _reason_and_place(story_of(before, result, harness.archive.redactor))
                return TaskVerification(*label, wrong=f"{name}, which it depends on, {why}", kept=kept)
    except SpecError as error:
        return TaskVerification(*label, wrong=str(error))
    nothing = await _try_plan(_do_nothing_plan(plan), play)
    there = await _try_plan(first_page, play) if (first_page := _first_page(plan)) else None
    wrong = kept = ""
    if spec.does_its_steps:
        result = await play(plan)
        if not ended_as_declared(spec, result):
            wrong, kept = _reason_and_place(story_of(plan, result, harness.archive.redactor))
    idle = tuple(_idle(plan, nothing.failure))
    idle_there = tuple(each for each in _idle(plan, there.failure) if each not in idle) if there else ()
    looks = any(isinstance(step, Assert) or (isinstance(step, Api | Tool) and step.expect) for step in plan.steps)
    hollow = ended_as_declared(spec, nothing) or (there is not None and there.ok and not looks)
    words = (tuple(map(harness.archive.redactor.text, each)) for each in (idle, idle_there))
    return TaskVerification(*label, wrong, kept, hollow, *words)


async def _try_plan(plan: Plan, play: Play) -> TaskResult:
    """The result of a run without artifacts and events: that such a run fails is no news."""
    result = await play(plan, quiet=True)
    if result.artifacts is not None:
        shutil.rmtree(result.artifacts, ignore_errors=True)
    return result


def _plan(task: Loaded, harness: SyncHarness, for_task: str) -> Plan:
    """The plan of a task; the tasks of an episode share a world of their own for each task that is verified."""
    agent = SCRIPTED if task.spec.does_its_steps else _IDLE_AGENT
    plan = compile_plan(task, settings=harness.settings, run_id=harness.run_id, agent=agent)
    return replace(plan, world=f"{plan.world}.for.{for_task}") if task.spec.episode_id else plan


_LOOKING = (Wait, Assert, Scroll, Screenshot)
"""Acts without effect."""


def _first_page(plan: Plan) -> Plan | None:
    """The plan of only opening the first page; None if that is all that the task does."""
    step = next((step for step in plan.steps if isinstance(step, Open)), None)
    rest = [other for other in plan.steps if other is not step and not isinstance(other, _LOOKING)]
    if step is None or not rest or plan.spec.expect is not None or step.effect_class == "write":
        return None
    return replace(_do_nothing_plan(plan, plan.spec.expect_timeout), key=f"{plan.key}--first-page", steps=(step,))


def _do_nothing_plan(plan: Plan, expect_timeout: float = 0) -> Plan:
    """The plan of doing nothing; it has no preconditions, so that every criterion is evaluated.

    On a blank page nothing appears by itself, so nothing is waited for there.
    """
    rules = NoRecovery.model_construct(**dict(plan.rulebook))
    return replace(
        plan,
        spec=plan.spec.model_copy(update={"expect_timeout": expect_timeout}),
        key=f"{plan.key}--nothing",
        steps=(),
        agent=None,
        chain=None,
        preconditions=(),
        faults=(),
        alternative=None,
        rulebook=rules,
    )


def _reason_and_place(story: TaskStory) -> tuple[str, str]:
    """Why a task did not end as it declares, and the task whose artifacts show it; empty without any."""
    kept = story.task_id if story.artifacts else ""
    if story.differences:
        return f"did not end as it declares: {'; '.join(story.differences)}", kept
    state = "skipped" if story.skipped else story.final_state
    return f"{state}: {story.failure.message if story.failure else story.skipped}", kept


def _idle(plan: Plan, failure: Failure | None) -> Iterator[str]:
    """The criteria that hold; all of them if the run passed."""
    if failure is not None and failure.code != "CRITERIA_UNMET":
        return
    details = failure.details if failure else {}
    missing = details.get("unmet_criteria", [details.get("criterion")])
    yield from (str(criterion) for criterion in plan.success_criteria if str(criterion) not in missing)
