"""Makes the trials, one after the other; what goes wrong with one does not end the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.campaign.artifacts import missing_artifacts
from harness.campaign.cells import Turn, staged
from harness.campaign.document import Trial
from harness.model.diagnosis import Aftermath, aftermath, disappointments
from harness.model.outcome import reached
from harness.model.plan import Plan
from harness.model.record import MetFault, TaskResult

RunTask = Callable[[Plan], TaskResult]


def made(turns: Iterable[Turn], run_task: RunTask, run: str, root: Path) -> Iterator[Trial]:
    """A trial for each turn. `root` is the folder that paths of artifacts are shown relative to."""
    for turn in turns:
        yield _made(turn, run_task, run, root)


def _made(turn: Turn, run_task: RunTask, run: str, root: Path) -> Trial:
    try:
        plan, preludes = staged(turn, run)
        for prelude in preludes:
            result = run_task(prelude)
            if not reached(prelude.spec, result):
                return _impossible(turn, f"{prelude.task_id}, which runs before it, did not do what it declares")
        return judged(turn, run_task(plan), root)
    except Exception as error:  # noqa: BLE001 - one trial that cannot be made must not take the others along
        return _impossible(turn, f"{type(error).__name__}: {error}")


def _impossible(turn: Turn, why: str) -> Trial:
    task_id, fault = turn.attack.task.spec.task_id, turn.attack.name or None
    return Trial(task_id=task_id, fault=fault, number=turn.number, seed=turn.seed, seconds=0, error=why, unmet=(why,))


def judged(turn: Turn, result: TaskResult, root: Path) -> Trial:
    """What the result of a trial says."""
    attack = turn.attack
    good = reached(attack.task.spec, result)
    met = result.faults[-1] if attack.fault is not None and result.faults else None
    found = aftermath(met, result) if met else Aftermath(struck=False)
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
        unmet=tuple(_unmet(turn, result, met, found, good)),
    )


def _unmet(turn: Turn, result: TaskResult, met: MetFault | None, found: Aftermath, good: bool) -> Iterator[str]:
    fault = turn.attack.fault
    ended = result.failure.message if result.failure else result.skipped or result.final_state
    if fault is None:
        if not good:
            yield f"the clean trial did not do what the task declares: {ended}"
        return
    if met is None:
        yield f"the task could not begin: {ended}"
    elif met.problem:
        yield f"the fault failed: {met.problem}"
    elif not found.struck and fault.probability == 1:
        yield "the fault never struck" + ("" if result.failure is None else f", for the task ended before: {ended}")
    elif met is not None:
        yield from disappointments(met, found, reached=good)
