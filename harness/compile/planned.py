"""The faults of `--task-faults` that strike a task, made ready like its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.model.settings import Settings
from harness.spec.fault_plan import LoadedFaultPlan, load_fault_plan
from harness.spec.faults import Fault
from harness.spec.problems import Problem, SpecError
from harness.spec.references import BadReferenceError, Scope, interpolate_step, references
from harness.spec.task import TaskSpec


@dataclass(frozen=True, slots=True)
class Planned:
    """What is added to a task, and the variables of the environment that it refers to."""

    faults: tuple[Fault, ...] = ()
    seed: int | None = None
    """What chances are drawn from; None: from the task's own seed."""
    variables: tuple[str, ...] = ()


def plans_of(settings: Settings) -> list[LoadedFaultPlan]:
    """The fault plans of a run. Raises SpecError for one that cannot be used."""
    channels = frozenset(settings.channels) or None
    return [_read_once(file, channels) for file in settings.faults]


@cache
def _read_once(file: Path, channels: frozenset[str] | None) -> LoadedFaultPlan:
    return load_fault_plan(file, channels)


def planned(spec: TaskSpec, scope: Scope, plans: Iterable[LoadedFaultPlan]) -> Planned:
    """Raises SpecError for references that the task cannot fill in."""
    faults: list[Fault] = []
    seeds: list[int] = []
    problems: list[Problem] = []
    variables: list[str] = []
    for loaded in plans:
        found = list(loaded.plan.of(spec))
        seeds += [loaded.plan.seed] if found and loaded.plan.seed is not None else []
        for number, fault in found:
            variables += variables_of(fault)
            try:
                faults.append(ready(loaded, number, spec, scope))
            except SpecError as error:
                problems += error.problems
    if problems:
        raise SpecError(problems)
    return Planned(tuple(faults), seeds[0] if seeds else None, tuple(variables))


def ready(loaded: LoadedFaultPlan, number: int, spec: TaskSpec, scope: Scope) -> Fault:
    """One fault with its references filled in, and a name that is its own in every task. Raises SpecError."""
    try:
        fault = interpolate_step(loaded.plan.faults[number].fault, scope, last=True)
    except BadReferenceError as error:
        message = f"in {spec.task_id}, which it strikes: {error}"
        raise SpecError([loaded.origin.problem(("faults", number), message)]) from None
    named = fault.model_copy(update={"id": f"{loaded.name}/{loaded.name_of(number)}"})
    return named.placed(loaded.origin.place(("faults", number)))


def variables_of(fault: Fault) -> Iterator[str]:
    """The variables of the environment that a fault refers to."""
    for _, value in fault:
        with suppress(BadReferenceError):
            yield from (each.name for _, each in references(str(value)) if each.namespace == "env")


def secrets_of(names: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of these variables, each once."""
    return tuple(dict.fromkeys(environ[name] for name in names if environ.get(name)))
