"""What became of a task: its final state, its failure, its warnings. Pure over what was played."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from harness.engine.journal import Journal
from harness.engine.run import Ending, Run
from harness.model.diagnosis import aftermath, disappointments
from harness.model.outcome import reached, shortcomings
from harness.model.plan import Plan
from harness.model.ports import Ports
from harness.model.record import MetFault, Score, TaskResult, Warning_
from harness.model.warnings import warnings
from harness.recovery.failure import Failure
from harness.spec.task import FinalState


@dataclass(slots=True)
class Played:
    """A task whose steps are over, and what is needed to end it."""

    plan: Plan
    ports: Ports
    folder: Path
    """For what it writes while it runs."""
    started: datetime
    began: float
    """Monotonic, in seconds."""
    unready: Failure | None = None
    """Why there is no such folder, so that the task cannot begin."""
    journal: Journal = field(default_factory=Journal)
    run: Run | None = None
    """None when its stage could not be opened."""
    ending: Ending | None = None
    alternative: TaskResult | None = None

    @property
    def failed(self) -> Ending | None:
        """The ending, unless the alternative task made up for it."""
        return None if self.alternative and self.alternative.ok else self.ending


def judged(played: Played, score: Score | None) -> TaskResult:
    """The result with its final state, its failure and its warnings; what is written to disk is not in it yet."""
    result = _judged(played, score)
    return replace(result, warnings=(*result.warnings, *_unlike_expected(played.plan, result)))


def _judged(played: Played, score: Score | None) -> TaskResult:
    plan, journal, ending = played.plan, played.journal, played.failed
    memory = dict(played.run.stage.world.memory()) if played.run else {}
    result = TaskResult(
        task_id=plan.task_id,
        key=plan.key,
        final_state="completed",
        history=tuple(journal.trace),
        started=played.started,
        elapsed=played.ports.clock.now() - played.began,
        steps_total=len(plan.steps) if plan.agent is None else len(journal.history),
        warnings=tuple(_warnings(played, score)),
        memory=memory,
        score=score,
        alternative=played.alternative,
        faults=played.run.stage.injector.met() if played.run else (),
    )
    if ending is None:
        return replace(result, final_state=_passed(played, score))
    if ending.skipped:
        return replace(result, final_state="aborted", skipped=ending.failure.message)
    failure = _with_alternative(ending, played.alternative)
    return replace(result, final_state=ending.give_up.final_state, failure=failure, failed_index=ending.index)


def _passed(played: Played, score: Score | None) -> FinalState:
    """`partial_success` when something of the task was left out, replaced or relaxed (DESIGN 4.4)."""
    journal = played.journal
    skipped = any(record.skipped for record in journal.trace)
    partial = skipped or played.alternative or journal.relaxed or (score and score.unmet)
    return "partial_success" if partial else "completed"


def _with_alternative(ending: Ending, alternative: TaskResult | None) -> Failure:
    if alternative is None:
        return ending.failure
    why = alternative.failure.message if alternative.failure else alternative.skipped or alternative.final_state
    message = f"{ending.failure.message}; the alternative task {alternative.task_id} did not succeed either: {why}"
    return replace(ending.failure, message=message)


def _warnings(played: Played, score: Score | None) -> Iterator[Warning_]:
    yield from warnings(tuple(played.journal.trace))
    for index, why in played.journal.unsaved.items():
        text = f"The checkpoint before step {index} could not be taken: {why}"
        yield Warning_("checkpoint_not_saved", text, index)
    if played.alternative and played.alternative.ok and played.ending:
        yield _alternative_used(played.ending, played.alternative)
    if played.run is not None:
        yield from _unmet_faults(played.run.stage.injector.met())
    if played.failed is not None or played.run is None:
        return
    if relaxed := played.journal.relaxed:
        text = f"Only the relaxed success criteria hold. {relaxed.message}"
        yield Warning_("criteria_relaxed", text, played.journal.under_way, {"unmet": relaxed.message})
    for part in score.unmet if score else ():
        yield Warning_("required_part_unmet", f"The scoring checkpoint {part!r} is required and not met", None)
    if not played.alternative:
        stage = played.run.stage
        yield from shortcomings(played.plan.spec, stage.world.memory(), stage.session.files)


def _unmet_faults(faults: tuple[MetFault, ...]) -> Iterator[Warning_]:
    """A fault that nothing met shows nothing. Faults of one name are one, done in several places."""
    struck = {met.name for met in faults if met.count}
    for met in faults:
        if met.problem or (met.name not in struck and met.fault.probability == 1):
            yield Warning_("fault_not_met", f"Fault {met.describe()}", None, {"fault": met.name})


def _unlike_expected(plan: Plan, result: TaskResult) -> Iterator[Warning_]:
    """Faults whose `expect` says otherwise than what happened."""
    for met in result.faults:
        found = aftermath(met, result)
        if said := list(disappointments(met, found, reached=reached(plan.spec, result))):
            text = f"Fault {met.describe()}: {'; '.join(said)}"
            yield Warning_("fault_not_as_expected", text, found.step, {"fault": met.name})


def _alternative_used(ending: Ending, alternative: TaskResult) -> Warning_:
    failure = ending.failure
    text = f"{alternative.task_id} was run in its place, for: {failure.message}"
    details = {
        "alternative_task_id": alternative.task_id,
        "alternative_state": alternative.final_state,
        "error_type": str(failure.type),
        "code": failure.code,
        "error_message": failure.message,
    }
    return Warning_("alternative_task_used", text, ending.index, details)
