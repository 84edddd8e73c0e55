"""Which tasks of a run its fault plans strike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.spec.fault_plan import LoadedFaultPlan, PlannedFault
from harness.spec.task import TaskSpec

NAMED = 3
"""How many faults of a plan are named that strike nothing."""


def reach_lines(plans: Sequence[LoadedFaultPlan], specs: Sequence[TaskSpec]) -> Iterator[str]:
    """For the lines after the collection: `taskspec faults: nightly.faults.yaml (3 faults, 15 tasks)`."""
    for each in plans:
        struck = sum(any(planned.strikes(spec) for planned in each.plan.faults) for spec in specs)
        yield f"taskspec faults: {each.source} ({_counted(len(each.plan.faults), 'fault')}, {_counted(struck, 'task')})"


def idle_lines(plans: Sequence[LoadedFaultPlan], specs: Sequence[TaskSpec]) -> Iterator[str]:
    """A line for each plan that, in part or as a whole, strikes none of the tasks."""
    for each in plans:
        idle = [
            f"{each.name_of(number)} (tasks: {', '.join(planned.tasks)})"
            for number, planned in enumerate(each.plan.faults)
            if not _strikes(planned, specs)
        ]
        if len(idle) == len(each.plan.faults):
            yield f"{each.source}: strikes no task of this run: {_few(idle)}"
        elif idle:
            part = f"{len(idle)} of {len(each.plan.faults)} faults"
            yield f"{each.source}: {part} strike no task of this run: {_few(idle)}"


def header_lines(plans: Sequence[LoadedFaultPlan]) -> Iterator[str]:
    """For the header, where nothing is collected in this process."""
    return (f"taskspec faults: {each.source} ({_counted(len(each.plan.faults), 'fault')})" for each in plans)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _strikes(planned: PlannedFault, specs: Sequence[TaskSpec]) -> bool:
    return any(planned.strikes(spec) for spec in specs)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
