"""Does the handlers of a task: what is in the way is removed before a step, or when it covers an element."""

from __future__ import annotations

from harness.criteria import evaluate, parse
from harness.engine.attempt import StepRequest, resolved_criterion
from harness.engine.due import rest_of_group
from harness.engine.run import PageSources, Run, StepTransition, TaskStop, overspent
from harness.engine.step import do_step
from harness.model.plan import ReadyHandler
from harness.recovery.failure import Failed
from harness.resilience import Deadline
from harness.spec.references import MissingMemory
from harness.spec.steps import Api, Dialog, Step, Tool
from harness.values import replace

_SECONDS = 2.0
"""Seconds for one look: a page that is busy is not waited for, since the step waits for it itself."""
_BESIDE_PAGES = (Api, Dialog, Tool)
"""Acts that need nothing of the page: nothing can be in their way."""


async def handle(run: Run, index: int, step: Step) -> StepTransition:
    """Do each handler whose criterion holds now. Returns what follows if one of its steps ends the task.

    None is done while the outcome of a write is open, or between a `dialog` and the step that opens it.
    """
    journal = run.journal
    last = journal.history[-1].step if journal.history else None
    is_open = any(each.index >= index for each in journal.unsure)
    if is_open or isinstance(step, _BESIDE_PAGES) or isinstance(last, Dialog):
        return None
    for number, handler in enumerate(run.plan.handlers):
        run.stage.session.act_as(step.user)
        if journal.handled[number] < handler.times and await _is_in_the_way(run, handler):
            journal.handled[number] += 1
            if turn := await _remove(run, index, handler, step.user):
                return turn
    return None


async def _is_in_the_way(run: Run, handler: ReadyHandler) -> bool:
    """Whether the criterion holds; what cannot be judged does not, and the step itself finds out why."""
    clock = run.ports.clock
    until = Deadline.after(min(_SECONDS * max(1.0, run.plan.timeout_scale), run.left), clock.now())
    try:
        text = await resolved_criterion(run, handler.when, until)
        return (await evaluate(parse(text), PageSources(run, until), clock, until)).holds
    except (Failed, MissingMemory):
        return False


async def _remove(run: Run, index: int, handler: ReadyHandler, user: str | None) -> StepTransition:
    """Do the steps of a handler, by the user who acts unless they name one themselves."""
    steps = list(handler.steps)
    while steps:
        if ending := overspent(run, another=True):
            return ending
        step = steps.pop(0)
        step = step if step.user is not None or user is None else step.model_copy(update={"as": user})
        run.journal.begun += 1
        record, turn = await do_step(run, StepRequest(index, step, expect=run.plan.expect_timeout))
        left = rest_of_group(run, record, steps)
        run.journal.trace += [record, *left.told]
        del steps[: len(left.told) + len(left.unused)]
        if isinstance(turn, TaskStop):
            message = f"{turn.failure.message}; it is a step of the handler of {handler.when}"
            return replace(turn, failure=replace(turn.failure, message=message))
        if turn:
            return turn
    return None
