"""What one task has done so far; kept outside of the run, so that an interruption loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from harness.model.ports import Kept, Saved
from harness.model.record import Sent, StepRecord, seen_writing
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.spec.steps import Dialog, Hover, Open, Step, SwitchPage, Type

_PASSING = (Hover, Type, Dialog, SwitchPage)
"""Acts that do not write by what leaves meanwhile, nor end the page of the act before."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state just before a step (DESIGN 4.5). `page` is None for the start of the task: an empty browser."""

    index: int
    page: Saved | None
    world: Kept


@dataclass(slots=True)
class Journal:
    """History is what counts, and a rewind slices it; the trace is append-only (DESIGN 3)."""

    history: list[StepRecord] = field(default_factory=list)
    """Of the steps that the agent chose."""
    trace: list[StepRecord] = field(default_factory=list)
    """All that happened: preconditions, repairs, criteria, and what was done again."""
    under_way: int = -1
    """Number of the step that runs; -1 before the first."""
    begun: int = 0
    """Steps begun, those done again included."""
    admitted: bool = False
    """The preconditions held."""
    start: Checkpoint | None = None
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)
    """Checkpoints that could not be taken, and why."""
    lost_on_the_way: list[float] = field(default_factory=list)
    """When page or browser were lost on the way back to a checkpoint, in seconds of the task."""
    unsure: list[StepRecord] = field(default_factory=list)
    """Writes done before a rewind that did not undo them: `done_when` decides before they are done again."""
    unshown: bool = False
    """The environment was as saved when the task went back: no channel showed what the writes had done."""
    relaxed: Failure | None = None
    """The unmet criterion in whose place the relaxed ones hold."""

    @property
    def set_up(self) -> list[StepRecord]:
        """Steps of repairs, as long as the preconditions do not hold: until then they may be done again."""
        return [] if self.admitted else [record for record in self.trace if record.index < 0]

    @property
    def spent(self) -> int:
        """Retries and fallbacks of all steps together; going back to a checkpoint is a retry."""
        return sum(record.spent for record in self.trace)

    def attribute(self, sent: tuple[Sent, ...], *, opening: bool = False) -> None:
        """What has left the pages since the last act is that act's doing: its record gets it, in both lists.

        What left a page before it was left for another one is the doing of the act before that `open`, which is still
        under way when `opening`.
        """
        acts = [place for place, each in enumerate(self.trace) if not each.step.looks_only]
        self._charge(tuple(each for each in sent if not each.before), acts[-1:])
        last_opened = bool(acts) and not opening and isinstance(self.trace[acts[-1]].step, Open)
        self._charge(tuple(each for each in sent if each.before), acts[-2:-1] if last_opened else acts[-1:])

    def _charge(self, sent: tuple[Sent, ...], places: list[int]) -> None:
        if not (sent and places):
            return
        (place,) = places
        last = self.trace[place]
        self._tell(last, sent)
        self.pass_on(last.step, sent, place)

    def pass_on(self, step: Step, sent: tuple[Sent, ...], place: int | None = None) -> None:
        """What left by a step that is no write by it, since it hovers or types, may be late, of the act before.

        `place` is that of its record in the trace, when it has one already. What it says of its effect is believed.
        """
        late = tuple(each for each in sent if each.unsafe and not seen_writing(step, (each,)))
        if not late or step.effect is not None or not isinstance(step, _PASSING):
            return
        acts = (each for each in reversed(self.trace[:place]) if not each.step.looks_only)
        act = next((each for each in acts if not isinstance(each.step, _PASSING)), None)
        if act is not None and seen_writing(act.step, late):
            self._tell(act, late)

    def _tell(self, record: StepRecord, sent: tuple[Sent, ...]) -> None:
        told = replace(record, sent=(*record.sent, *sent))
        for records in (self.history, self.trace):
            records[:] = [told if each is record else each for each in records]

    def done_before(self, index: int, step: Step, *, by_agent: bool) -> StepRecord | None:
        """The record of this very write before a rewind. An agent may choose it at another place."""
        return next((r for r in self.unsure if r.step == step and (by_agent or r.index == index)), None)

    def crashes(self, since: float) -> int:
        """How often the browser was lost since then, in seconds of the task, by no fault and no other task."""
        attempts = [attempt for record in self.trace for attempt in record.attempts if attempt.t >= since]
        lost = (attempt.outcome for attempt in attempts)
        again = sum(t >= since for t in self.lost_on_the_way)
        return again + sum(isinstance(each, Failure) and counts(each) for each in lost)


def counts(failure: Failure) -> bool:
    """Whether a lost page or browser counts against the task (DESIGN 4.4: the third is permanent).

    What a fault plan has ended, and what was ended for another task's sake, does not.
    """
    return failure.family is Family.BROWSER and not failure.details.keys() & {"injected", "innocent"}
