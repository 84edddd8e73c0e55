"""What a campaign tries: every fault in every task that it strikes, and every such task as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.compile import compile_plan
from harness.compile.filling import scope_of
from harness.compile.planned import ready, secrets_of, variables_of
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.spec.fault_plan import LoadedFaultPlan
from harness.spec.faults import Fault
from harness.spec.loaded import Loaded
from harness.spec.names import slug
from harness.spec.problems import Problem, SpecError
from harness.spec.suite import before, dependencies, with_episodes


@dataclass(frozen=True, slots=True)
class Attack:
    """One fault in one task; without a fault: the task as it is."""

    task: Loaded
    plan: Plan
    preludes: tuple[Plan, ...]
    """What has to run before it, without the fault."""
    name: str = ""
    """Of the fault; empty: a clean run."""
    fault: Fault | None = None

    @property
    def label(self) -> str:
        """One name of task and fault, for people."""
        return f"{self.task.spec.task_id} {self.name or 'clean'}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One trial to make."""

    attack: Attack
    number: int
    seed: int


def attacks(loaded: LoadedFaultPlan, tasks: Sequence[Loaded], settings: Settings, run: str) -> list[Attack]:
    """For each task that is struck: as it is, then with each of its faults. Raises SpecError."""
    found: list[Attack] = []
    problems: list[Problem] = []
    order = with_episodes(tasks, dependencies(tasks))
    by_id = {task.spec.task_id: task for task in tasks}
    for task in tasks:
        numbers = [number for number, _ in loaded.plan.of(task.spec)]
        if not numbers:
            continue
        try:
            earlier = [by_id[name] for name in before(task.spec.task_id, order)]
            preludes = tuple(compile_plan(each, settings=settings, run_id=run) for each in earlier)
            clean = Attack(task, compile_plan(task, settings=settings, run_id=run), preludes)
            found += [clean, *(_with(clean, loaded, number) for number in numbers)]
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(dict.fromkeys(problems))
    return found


def _with(clean: Attack, loaded: LoadedFaultPlan, number: int) -> Attack:
    spec, declared = clean.task.spec, loaded.plan.faults[number].fault
    fault = ready(loaded, number, spec, scope_of(spec, os.environ))
    secrets = (*clean.plan.secrets, *secrets_of(variables_of(declared), os.environ))
    plan = replace(clean.plan, faults=(*clean.plan.faults, fault), secrets=secrets)
    return replace(clean, plan=plan, name=loaded.name_of(number), fault=fault)


def turns(found: Sequence[Attack], *, trials: int, clean: int, seed: int) -> Iterator[Turn]:
    """Side by side: of each task a clean run, then one with each fault; then the same with the next seed."""
    for number in range(max(trials, clean)):
        for attack in found:
            if number < (clean if attack.fault is None else trials):
                yield Turn(attack, number, seed + number)


def staged(turn: Turn, run: str) -> tuple[Plan, tuple[Plan, ...]]:
    """The plan of a trial and of what runs before it, in a fresh world, with a folder of its own."""
    attack = turn.attack
    key = slug(f"{attack.plan.key}--{attack.name or 'clean'}--{turn.number}")
    world = f"{slug(run)}.{key}"
    plan = replace(attack.plan, key=key, world=world, fault_seed=turn.seed)
    return plan, tuple(_prelude(each, plan) for each in attack.preludes)


def _prelude(earlier: Plan, plan: Plan) -> Plan:
    """In the same world when it is of the same episode."""
    same = earlier.spec.episode_id is not None and earlier.spec.episode_id == plan.spec.episode_id
    key = slug(f"{plan.key}--after--{earlier.key}")
    return replace(earlier, key=key, world=plan.world if same else f"{plan.world}.{earlier.key}")
