"""From what an agent proposes to a step: checked like a step of a file, references filled in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.model.plan import Plan
from harness.spec.checks import check_spec, check_steps
from harness.spec.load import validated
from harness.spec.problems import Problem
from harness.spec.references import BadReferenceError, Scope, escaped, hiding, interpolate_step
from harness.spec.source import Origin, Source
from harness.spec.steps import Step
from harness.spec.task import TaskSpec
from harness.spec.validation import complaints

LONGEST_SHOWN = 300
_PLACE = "steps[0]"


class BadProposalError(ValueError):
    """What an agent proposed is no step; the message says why."""


def step_of(proposal: Any, plan: Plan) -> Step:
    """The step to do. It may refer to inputs, persona and memory, and to the variables that the task's file uses.

    Raises BadProposalError.
    """
    document = _document(proposal, plan)
    origin = Origin(_PLACE, Source(_PLACE, json.dumps(document), document, is_json=True))
    environ = {name: value for name, value in os.environ.items() if value and value in plan.secrets}
    spec = _typed(document, origin)
    spec.inputs, spec.persona = escaped(plan.spec.inputs), escaped(plan.spec.persona)
    _refuse(check_spec(spec, origin, plan.folder, None, environ), plan)
    step = _filled(spec.steps[0], plan, environ)
    _refuse(check_steps((step,), origin, plan.folder, hiding(plan.secrets)), plan)
    return step


def described(proposal: Any) -> str:
    """A proposal as reports show it, shortened."""
    text = str(_plain(proposal)) if isinstance(proposal, BaseModel | Mapping) else repr(proposal)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def _document(proposal: Any, plan: Plan) -> dict[str, Any]:
    """A task of this one step."""
    if not isinstance(proposal, BaseModel | Mapping):
        kind = type(proposal).__name__
        raise BadProposalError(f"it is a {kind}, not a step, a mapping with `act`, or None ({described(proposal)})")
    document = {"task_id": plan.task_id, "steps": [_plain(proposal)]}
    try:
        return json.loads(json.dumps(document, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError, RecursionError) as error:
        raise BadProposalError(f"it holds what JSON cannot: {error}") from None


def _plain(proposal: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(proposal, BaseModel):
        act = {"act": proposal.act} if hasattr(proposal, "act") else {}
        return {**act, **proposal.model_dump(exclude_unset=True, warnings=False)}
    return dict(proposal)


def _typed(document: dict[str, Any], origin: Origin) -> TaskSpec:
    try:
        return validated(document)
    except ValidationError as error:
        raise BadProposalError(_told(each for _, _, each in complaints(error, document, origin))) from None


def _filled(step: Step, plan: Plan, environ: Mapping[str, str]) -> Step:
    """Like a step of the file: memory is filled in when it is done, and `--task-timeout-scale` holds."""
    try:
        made = interpolate_step(step, Scope(plan.spec.inputs, plan.spec.persona, environ))
    except BadReferenceError as error:
        raise BadProposalError(hiding(plan.secrets)(str(error))) from None
    if made.timeout is None or plan.timeout_scale == 1:
        return made
    return made.model_copy(update={"timeout": made.timeout * plan.timeout_scale})


def _refuse(problems: Iterable[Problem], plan: Plan) -> None:
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise BadProposalError(hiding(plan.secrets)(_told(errors)))


def _told(problems: Iterable[Problem]) -> str:
    return "; ".join(map(_line, problems))


def _line(problem: Problem) -> str:
    place = problem.path.removeprefix(_PLACE).removeprefix(".")
    head = ": ".join(part for part in (place, problem.message) if part)
    more = (("expected", problem.expected), ("found", problem.found), ("", problem.hint))
    said = ", ".join(f"{name} {text}".strip() for name, text in more if text)
    return f"{head} ({said})" if said else head
