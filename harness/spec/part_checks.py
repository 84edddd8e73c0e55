"""Parts of a task that name others: repairs their preconditions, parts of the score each other."""

from __future__ import annotations

from collections.abc import Iterator

from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way, did_you_mean, listed, shown
from harness.spec.task import TaskSpec


def part_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Names of what is not there, and parts that can have no effect (a warning)."""
    for number, repair in enumerate(spec.repairs):
        if repair.precondition is not None and repair.precondition not in spec.preconditions:
            yield _no_precondition(("repairs", number, "precondition"), repair.precondition, spec, origin)
    if spec.repairs and (reason := _idle(spec)):
        yield origin.problem(("repairs",), reason, hint="it has no effect", key=True, severity="warning")
    yield from _scoring(spec, origin)


def _no_precondition(path: Way, wanted: str, spec: TaskSpec, origin: Origin) -> Problem:
    """A repair names its precondition by its text."""
    expected = "the text of one of the `preconditions`" + ("" if spec.preconditions else "; there is none")
    hint = did_you_mean(wanted, spec.preconditions)
    return origin.problem(path, "not a precondition of the task", expected=expected, found=shown(wanted), hint=hint)


def _idle(spec: TaskSpec) -> str:
    """Why the repairs are never made."""
    if not spec.preconditions:
        return "the task has no `preconditions` to repair"
    strategy = spec.error_recovery.on_precondition_fail.strategy
    return "" if strategy == "attempt_repair" else f"`on_precondition_fail` is `{strategy}`, not `attempt_repair`"


def _scoring(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """A part may depend on those before it, so that there is no circle."""
    before: list[str] = []
    for number, part in enumerate(spec.scoring_checkpoints):
        path: Way = ("scoring_checkpoints", number)
        if part.id in before:
            message = f"the id `{part.id}` is that of part {before.index(part.id)} too"
            yield origin.problem((*path, "id"), message, hint="every part needs an id of its own")
        for place, name in enumerate(part.depends_on):
            if name not in before:
                message, hint = f"no part before this one is called `{name}`", did_you_mean(name, before)
                expected = listed(before) if before else "nothing: it is the first"
                yield origin.problem((*path, "depends_on", place), message, expected=expected, hint=hint)
        before.append(part.id)
