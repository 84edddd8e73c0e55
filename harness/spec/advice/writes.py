"""Steps that change something for good, and how they are declared (DESIGN 4.2)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.spec.advice.wording import note_says_write, selector_says_write
from harness.spec.advice.terms import steps_of
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way
from harness.spec.steps import Click, Dialog, Press, Step
from harness.spec.task import TaskSpec

_SENDING_KEYS = frozenset({"Enter", "NumpadEnter", "Space", " "})


def write_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Writes that cannot be asked about, acts that look like writes, and answers to dialogs that never come."""
    for path, step in steps_of(spec):
        if step.effect_class == "write" and step.done_when is None:
            message = "a `write` without `done_when`: when it fails halfway, the task ends with OUTCOME_UNKNOWN"
            hint = "say in `done_when` how to see that it took effect; or `effect: idempotent` when twice does no harm"
            yield origin.problem(path, message, hint=hint, severity="warning")
        elif step.effect is None and (word := _looks_like_write(step)):
            yield _undeclared(path, step, word, origin)
    if spec.steps and isinstance(spec.steps[-1], Dialog):
        message = "the last step: no dialog comes after it"
        hint = "put it before the step that brings the dialog up"
        yield origin.problem(("steps", len(spec.steps) - 1), message, hint=hint, severity="warning")


def _looks_like_write(step: Step) -> str:
    """The word that makes an act look like one that must not be done twice; empty when none does."""
    if isinstance(step, Press):
        sends = step.value.rsplit("+", 1)[-1] in _SENDING_KEYS
    else:
        sends = isinstance(step, Click)
    if not sends:
        return ""
    return selector_says_write(step.target or "") or note_says_write(step.note or "")


def _undeclared(path: Way, step: Step, word: str, origin: Origin) -> Problem:
    message = f"`{word}` looks like something that must not be done twice, and the step has no `effect`"
    hint = "say `effect: write` with a `done_when`; or `effect: idempotent` when doing it twice does no harm"
    return origin.problem(path, f"{message}: a retry would {step.act} again", hint=hint, severity="warning")
