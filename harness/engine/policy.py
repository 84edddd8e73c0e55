"""What the agent of a task may do: the acts that it may propose, and the requests that its steps may cause."""

from __future__ import annotations

from collections.abc import Iterator

from harness.criteria import parse
from harness.engine.run import Run
from harness.model.plan import Plan
from harness.model.policy import AgentPolicy, AllowedElement, WritePermission
from harness.recovery.failure import Failure, Outcome
from harness.spec.steps import Api, Step
from harness.spec.task import AllowedWrite
from harness.spec.url_patterns import RequestPattern, UrlPattern

HELD_BACK = "POLICY_WRITE"
ALLOW, REFUSE = "allow", "refuse"


def act_refusal(policy: AgentPolicy, act: str) -> str | None:
    """Why a policy does not allow an act; None: it does."""
    if policy.acts is None or act in policy.acts:
        return None
    return f"the act `{act}` is not allowed: the agent may only {', '.join(policy.acts)}"


def permission(run: Run, step: Step) -> WritePermission | None:
    """The requests that may leave the pages during a step of the agent; None: all."""
    if not run.ports.policy(run.plan_now).restricts_writes:
        return None
    allowed = run.plan.spec.allowed_writes
    return WritePermission(
        requests=(
            *(pattern for each in allowed if each.selector is None and (pattern := _pattern(each))),
            *_requests_of_steps(run.plan),
            *run.journal.allowed,
        ),
        elements=(
            *(AllowedElement(each.selector, each.frame, _pattern(each)) for each in allowed if each.selector),
            *_elements_of_steps(run.plan),
        ),
        everything=_is_declared(run.plan, step),
    )


def _pattern(allowed: AllowedWrite) -> RequestPattern | None:
    """The requests that it names; None: all."""
    if allowed.url is None:
        return None
    return RequestPattern((allowed.method,) if allowed.method else (), UrlPattern.parse(allowed.url))


def _requests_of_steps(plan: Plan) -> Iterator[RequestPattern]:
    for step in plan.steps:
        if isinstance(step, Api) and step.effect_class == "write":
            yield RequestPattern((step.method,), UrlPattern.parse(step.url))


def _elements_of_steps(plan: Plan) -> Iterator[AllowedElement]:
    for step in plan.steps:
        if step.effect_class == "write" and step.target:
            yield AllowedElement(step.target, getattr(step, "frame", None))


def _is_declared(plan: Plan, step: Step) -> bool:
    """Return whether a step declares itself a write by a criterion of the file that reads the environment.

    A criterion of the agent's own proves nothing: it would let any write pass.
    """
    if step.effect_class != "write" or step.done_when is None:
        return False
    known = {str(each).strip() for each in plan.success_criteria}
    known |= {each.done_when.strip() for each in plan.steps if each.done_when}
    if step.done_when.strip() not in known:
        return False
    criterion = parse(step.done_when)
    return bool(criterion.channels) and not criterion.looks_at_page


async def allowed_by_person(run: Run, outcome: Outcome) -> bool:
    """Ask the person at the terminal, under `writes = "ask"`, about a request that was held back.

    If it is allowed, it may leave for the rest of the task.
    """
    if not isinstance(outcome, Failure) or outcome.code != HELD_BACK or run.ports.ask is None:
        return False
    policy, method, url = run.ports.policy(run.plan_now), str(outcome.details["method"]), str(outcome.details["url"])
    wanted = RequestPattern((method,), UrlPattern.parse(url))
    if policy.writes != "ask" or wanted in run.journal.allowed:
        return False
    question = f"{run.plan.task_id}: agent {run.agent} would send {method} {url}. May it?"
    if await run.ports.ask(question, (ALLOW, REFUSE)) != ALLOW:
        return False
    run.journal.allowed.append(wanted)
    return True
