"""Steps that change something for good, and how they are declared (DESIGN 4.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.spec.advice.wording import note_says_write, selector_says_write
from harness.spec.element_acts import Check, Click, Select, Type, Uncheck, Upload
from harness.spec.origin import Origin
from harness.spec.page_acts import Dialog, Open, Press, Wait
from harness.spec.problems import Problem, Way
from harness.spec.steps import Step
from harness.spec.task import TaskSpec

_SENDING_KEYS = frozenset({"Enter", "NumpadEnter", "Space", " "})
_FORM = re.compile(r"form|modal|dialog|popup", re.IGNORECASE)


def write_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Writes that cannot be asked about, acts that look like writes, and answers to dialogs that never come."""
    if spec.expect is None or spec.expect.code != "OUTCOME_UNKNOWN":
        yield from _of(spec.steps, ("steps",), origin)
        for number, repair in enumerate(spec.repairs):
            yield from _of(repair.steps, ("repairs", number, "steps"), origin)
    if spec.steps and isinstance(spec.steps[-1], Dialog):
        message = "the last step: no dialog comes after it"
        hint = "put it before the step that brings the dialog up"
        yield origin.problem(("steps", len(spec.steps) - 1), message, hint=hint, severity="warning")


def _of(steps: Sequence[Step], path: Way, origin: Origin) -> Iterator[Problem]:
    for number, step in enumerate(steps):
        if step.effect_class == "write" and step.done_when is None:
            message = "a `write` without `done_when`: when it fails halfway, the task ends with OUTCOME_UNKNOWN"
            hint = "say in `done_when` how to see that it took effect; or `effect: idempotent` when twice does no harm"
            yield origin.problem((*path, number), message, hint=hint, severity="warning")
        elif step.effect is None and (word := _words_of_write(step)) and not _brings_up_form(steps[number + 1 :]):
            yield _undeclared((*path, number), step, word, origin)


def _words_of_write(step: Step) -> str:
    """What makes an act look like one that must not be done twice; empty when nothing does."""
    sends = isinstance(step, Press) and step.value.rpartition("+")[2] in _SENDING_KEYS
    if not (sends or isinstance(step, Click)):
        return ""
    return selector_says_write(step.target or "") or note_says_write(step.note or "")


def _brings_up_form(after: Sequence[Step]) -> bool:
    """Whether what follows on the same page is the real write: a form that is filled in first, or a confirmation."""
    filled = False
    for step in after:
        if isinstance(step, Open):
            return False
        if isinstance(step, Type | Select | Check | Uncheck | Upload) or _FORM.search(_awaited(step)):
            filled = True
        elif (word := _words_of_write(step)) or step.effect_class == "write":
            return filled or "confirm" in (word or step.target or "").lower()
    return False


def _awaited(step: Step) -> str:
    return step.target or "" if isinstance(step, Wait) else ""


def _undeclared(path: Way, step: Step, word: str, origin: Origin) -> Problem:
    message = f"`{word}` looks like something that must not be done twice, and the step has no `effect`"
    hint = "say `effect: write` with a `done_when`; or `effect: idempotent` when doing it twice does no harm"
    return origin.problem(path, f"{message}: a retry would {step.act} again", hint=hint, severity="warning")
