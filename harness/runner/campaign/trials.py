"""The trials of campaigns and evaluations: what they try, how one is made, and what its result says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import psutil
from msgspec import Struct
from pydantic import ValidationError

from harness.model.diagnosis import FaultEffect, fault_effect, unmet_expectations
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import MetFault, TaskResult
from harness.model.report import ErrorReport
from harness.model.settings import Settings
from harness.reporting.files import MANIFEST, NAMES
from harness.resilience.replaced import try_lock
from harness.runner.campaign.document import Trial
from harness.runner.compile import compile_plan, prepare_fault, variables_of
from harness.runner.schedule import Job
from harness.runner.trials import Play, TrialJob, TrialRunner, runs_alone
from harness.spec.expressions import scope_of, secrets_of
from harness.spec.fault_plan import CLEAN, LoadedFaultPlan
from harness.spec.faults import Fault, ServiceFault
from harness.spec.loaded import Loaded
from harness.spec.names import slug
from harness.spec.problems import Problem, SpecError
from harness.spec.suite import dependencies, tasks_before, with_episodes
from harness.values import replace

# Checks whether a failure left all of its artifacts.


def missing_artifacts(folder: Path | None) -> tuple[str, ...]:
    """The problems of a failure's directory, a line each; none if it is complete."""
    if folder is None:
        return ("no directory was written",)
    return (*_of_manifest(folder), *_of_report(folder / "error_report.json"))


def _of_manifest(folder: Path) -> Iterator[str]:
    try:
        document = json.loads((folder / MANIFEST).read_text("utf-8"))
        entries: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in document["artifacts"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield f"{MANIFEST}: {error}"
        return
    for name in NAMES:
        entry = entries.get(name)
        if entry is None:
            yield f"{name}: not in {MANIFEST}"
        elif entry["status"] == "taken" and not (folder / name).is_file():
            yield f"{name}: the manifest says that it was taken, but it is missing"
        elif entry["status"] != "taken" and not entry.get("reason"):
            yield f"{name}: {entry['status']}, without a reason"


def _of_report(file: Path) -> Iterator[str]:
    try:
        ErrorReport.model_validate_json(file.read_bytes())
    except OSError as error:
        yield f"{file.name}: {error.strerror}"
    except ValidationError as error:
        yield f"{file.name}: {error.error_count()} values that its schema refuses"


# The trials of a campaign: every fault in every task that it strikes, and every such task without faults.


class Attack(Struct, frozen=True):
    """One fault in one task; without a fault, the task as it is."""

    task: Loaded
    plan: Plan
    preludes: tuple[Plan, ...]
    """The tasks that run before it, without the fault."""
    name: str = ""
    """The name of the fault; empty: a clean run."""
    fault: Fault | None = None
    agent: str = ""
    """The agent that is evaluated; empty: that of the task."""

    @property
    def label(self) -> str:
        """Task and fault in one name for people."""
        return f"{self.task.spec.task_id} {self.name or CLEAN}"


class PlannedTrial(Struct, frozen=True):
    """One trial to make."""

    attack: Attack
    number: int
    seed: int
    attempt: int = 1
    """Above 1 for a trial that is made again."""


def attacks(
    loaded: LoadedFaultPlan | None,
    tasks: Sequence[Loaded],
    settings: Settings,
    run: str,
    *,
    agent: str = "",
    only_struck: bool = True,
) -> list[Attack]:
    """The attacks: each task as it is, then with each of its faults. Raises SpecError.

    `loaded`: the faults, if any. `agent`: the agent of all tasks; empty: that of each task. `only_struck`: only tasks
    that have a fault.
    """
    found: list[Attack] = []
    problems: list[Problem] = []
    order = with_episodes(tasks, dependencies(tasks))
    by_id = {task.spec.task_id: task for task in tasks}
    for task in tasks:
        numbers = [number for number, _ in loaded.plan.of(task.spec)] if loaded else []
        if not numbers and only_struck:
            continue
        try:
            earlier = [by_id[name] for name in tasks_before(task.spec.task_id, order)]
            first = [compile_plan(each, settings=settings, run_id=run, agent=_before(each, agent)) for each in earlier]
            plan = compile_plan(task, settings=settings, run_id=run, agent=agent or None)
            clean = Attack(task, plan, tuple(first), agent=agent)
            found += [clean, *(_attack_with(clean, loaded, number) for number in numbers if loaded)]
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(dict.fromkeys(problems))
    return found


def _before(task: Loaded, agent: str) -> str | None:
    """The agent of a task that runs before a trial: its own steps only prepare what is evaluated."""
    return None if task.spec.does_its_steps else agent or None


def _attack_with(clean: Attack, loaded: LoadedFaultPlan, number: int) -> Attack:
    spec, declared = clean.task.spec, loaded.plan.faults[number].fault
    fault = prepare_fault(loaded, number, spec, scope_of(spec, os.environ, clean.plan.generated))
    secrets = (*clean.plan.known_secrets, *secrets_of(variables_of(declared), os.environ))
    plan = replace(clean.plan, faults=(*clean.plan.faults, fault), known_secrets=secrets)
    return replace(clean, plan=plan, name=loaded.name_of(number), fault=fault)


def ends_services(found: Iterable[Attack]) -> bool:
    """Return whether one of the attacks changes services of the project, which other campaigns would notice."""
    plans = (plan for attack in found for plan in (attack.plan, *attack.preludes))
    return any(isinstance(fault, ServiceFault) for plan in plans for fault in plan.faults)


def turns(found: Sequence[Attack], *, trials: int, clean: int, seed: int) -> Iterator[PlannedTrial]:
    """All trials: for each task a clean run, then one with each fault; then the same with the next seed."""
    for number in range(max(trials, clean)):
        for attack in found:
            if number < (clean if attack.fault is None else trials):
                yield PlannedTrial(attack, number, seed + number)


def staged(turn: PlannedTrial, run: str) -> tuple[Plan, tuple[Plan, ...]]:
    """The plan of a trial and of the tasks before it, in a fresh world, with a folder of its own."""
    attack = turn.attack
    names = (attack.plan.key, attack.agent, attack.name or CLEAN, str(turn.number))
    again = {1: "", 2: "--again"}.get(turn.attempt, f"--again-{turn.attempt}")
    key = slug("--".join(filter(None, names)) + again)
    world = f"{slug(run)}.{key}"
    recorded = {"trial": turn.number, "recorded_as": attack.plan.key}
    plan = replace(attack.plan, key=key, world=world, fault_seed=turn.seed, **recorded)
    if attack.agent:  # an agent that draws lots draws others in each trial
        plan = replace(plan, spec=plan.spec.model_copy(update={"seed": turn.seed}))
    return plan, tuple(_prelude(each, plan) for each in attack.preludes)


def _prelude(earlier: Plan, plan: Plan) -> Plan:
    """The plan of a task before the trial, in the same world if it is of the same episode."""
    same = earlier.spec.episode_id is not None and earlier.spec.episode_id == plan.spec.episode_id
    key = slug(f"{plan.key}--after--{earlier.key}")
    world = plan.world if same else f"{plan.world}.{earlier.key}"
    return replace(earlier, key=key, world=world, trial=plan.trial, recorded_as=earlier.key)


# Keeps two campaigns of one project apart: they share its services.


class BusyError(RuntimeError):
    """Another campaign runs in the project, and the two cannot run at the same time."""


@contextmanager
def reserved(file: Path, name: str, *, alone: bool) -> Iterator[None]:
    """Hold the lock of the project's campaigns during the block; raises BusyError at once, or OSError.

    The kernel releases the lock when the process dies. `alone`: the campaign ends services of the project, so no other
    may run; the others share the lock.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        if not try_lock(lock, shared=not alone):
            raise BusyError(_busy(lock))
        if alone:
            lock.truncate(0)  # the processes named there have ended
        lock.write(f"{os.getpid()} {' '.join(name.split())}\n")
        lock.flush()
        yield


def _busy(lock: TextIO) -> str:
    lock.seek(0)
    entries = [line.strip().partition(" ") for line in lock]
    running = [f"pid {pid}, {name}" for pid, _, name in entries if pid.isdigit() and psutil.pid_exists(int(pid))]
    who = f" ({'; '.join(running)})" if running else ""
    return (
        f"another campaign runs in this project{who}: both would share the services, and a fault that ends "
        "a service would fail the other's trials. Start this campaign after that one has ended"
    )


class FailedBefore(Struct, frozen=True):
    """A task that runs before a trial did not end as it declares, so the trial was not made."""

    agent: str | None
    """The agent that chose its steps."""
    result: TaskResult

    def describe(self) -> str:
        """The reason why there is no trial."""
        return f"{self.result.task_id}, which runs before it, did not end as it declares"


Outcome = TaskResult | FailedBefore | str
"""The result of a trial, or why it could not be made."""


async def run_turn(turn: PlannedTrial, play: Play, run: str) -> Outcome:
    """Make one trial, after the tasks that run before it."""
    try:
        plan, preludes = staged(turn, run)
        for prelude in preludes:
            result = await play(prelude)
            if not ended_as_declared(prelude.spec, result):
                return FailedBefore(prelude.agent, result)
        return await play(plan)
    except Exception as error:  # noqa: BLE001 - one trial that cannot be made must not take the others along
        return f"{type(error).__name__}: {error}"


def trial_jobs(
    turns: Iterable[PlannedTrial], run: str, settings: Settings, take: Callable[[PlannedTrial, Outcome], None]
) -> Iterator[TrialJob[Outcome]]:
    """The trials for a TrialRunner. Those that record into one file are made one after the other, in their order."""
    recording = settings.cassettes.mode in ("record", "auto")
    before: dict[tuple[str, str, int], frozenset[str]] = {}
    for turn in turns:
        attack = turn.attack
        place = (attack.task.spec.task_id, attack.agent, turn.number)
        name = f"{place} {attack.name} {turn.attempt}"
        specs = [each.spec for each in (*attack.preludes, attack.plan)]
        alone = runs_alone(specs, settings, [attack.fault] if attack.fault else ())
        job = Job(name, after=before.get(place, frozenset()), alone=alone)
        if recording:
            before[place] = frozenset({name})
        yield TrialJob(job, partial(run_turn, turn, run=run), partial(take, turn))


def judge_trial(turn: PlannedTrial, result: Outcome, root: Path) -> Trial:
    """The trial with the facts of a result. `root` is the folder that paths of artifacts are relative to."""
    attack = turn.attack
    if not isinstance(result, TaskResult):
        why = result if isinstance(result, str) else result.describe()
        label = {"task_id": attack.task.spec.task_id, "fault": attack.name or None}
        return Trial(**label, number=turn.number, seed=turn.seed, seconds=0, error=why, unmet=(why,))
    good = ended_as_declared(attack.task.spec, result)
    met = result.faults[-1] if attack.fault is not None and result.faults else None
    found = fault_effect(met, result) if met else FaultEffect(struck=False)
    missing = missing_artifacts(result.artifacts) if result.failure and not result.skipped else None
    return Trial(
        task_id=result.task_id,
        fault=attack.name or None,
        number=turn.number,
        seed=turn.seed,
        seconds=round(result.elapsed, 3),
        final_state="skipped" if result.skipped else result.final_state,
        code=result.failure.code if result.failure else None,
        reached=good,
        struck=met.count if met else 0,
        seen=found.code,
        recovery_seconds=found.seconds if good else None,
        missing=missing,
        artifacts=result.artifacts.relative_to(root).as_posix() if result.artifacts else None,
        error=met.problem if met else "",
        unmet=tuple(_unmet_expectations(turn, result, met, found, good)),
    )


def _unmet_expectations(
    turn: PlannedTrial, result: TaskResult, met: MetFault | None, found: FaultEffect, good: bool
) -> Iterator[str]:
    fault = turn.attack.fault
    ended = result.failure.message if result.failure else result.skipped or result.final_state
    if fault is None:
        if not good:
            yield f"the clean trial did not end as the task declares: {ended}"
        return
    if met is None:
        yield f"the task could not begin: {ended}"
    elif met.problem:
        yield f"the fault failed: {met.problem}"
    elif not found.struck and fault.probability == 1:
        yield "the fault never struck" + ("" if result.failure is None else f", because the task ended before: {ended}")
    elif met is not None:
        yield from unmet_expectations(met, found, reached=good)


# One campaign under way.


class Size(Struct, frozen=True):
    """How much is tried."""

    trials: int
    clean: int
    seed: int


@dataclass
class Running:
    """A campaign under way. What was done stays, however it ends."""

    loaded: LoadedFaultPlan
    attacks: Sequence[Attack]
    size: Size
    run: str
    folder: Path
    """The folder of its failures."""
    done: list[Trial] = field(default_factory=list)

    @property
    def schedule(self) -> list[PlannedTrial]:
        return list(turns(self.attacks, trials=self.size.trials, clean=self.size.clean, seed=self.size.seed))

    @property
    def ends_services(self) -> bool:
        """Whether it changes services of the project, which other campaigns would notice."""
        return ends_services(self.attacks)

    def make(self, runner: TrialRunner, tell: Callable[[Trial], None]) -> None:
        """Make the trials; `tell` receives each one that is over."""

        def take(turn: PlannedTrial, outcome: Outcome) -> None:
            self.done.append(judge_trial(turn, outcome, self.folder))
            tell(self.done[-1])

        runner.run([*trial_jobs(self.schedule, self.run, runner.settings, take)])
