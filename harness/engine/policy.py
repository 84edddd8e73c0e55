"""What the agent of a task may do: the acts that it may propose, and the requests that its steps may cause."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

from harness.criteria import parse
from harness.engine.run import Run
from harness.model.plan import Plan
from harness.model.policy import AgentPolicy, AllowedElement, WritePermission, matches_any
from harness.recovery.failure import Failure, Outcome
from harness.spec.allowed_writes import AllowedWrite
from harness.spec.problems import join_or
from harness.spec.references import hiding
from harness.spec.steps import Api, Step, Tool
from harness.spec.url_patterns import RequestPattern, UrlPattern

HELD_BACK = "POLICY_WRITE"
_BEGIN = "${"
ALLOW, REFUSE = "allow", "refuse"


def act_refusal(policy: AgentPolicy, act: str) -> str | None:
    """Why a policy does not allow an act; None: it does."""
    if policy.acts is None or act in policy.acts:
        return None
    return f"the act `{act}` is not allowed: the agent may only {', '.join(policy.acts)}"


def tool_refusal(policy: AgentPolicy, step: Tool) -> str | None:
    """Why an agent may not call a tool; None: it is offered."""
    if _BEGIN in _named(step):
        return "server and tool must be named in full: a reference in them is not filled in"
    if policy.offers(step.server, step.tool):
        return None
    if policy.only is not None and step.server in policy.tools:
        return f"the tool {_named(step)} is not offered to this agent: only {', '.join(policy.only) or 'none'}"
    if step.server not in policy.tools:
        known = f"those of {join_or(sorted(policy.tools))} are" if policy.tools else "none are"
        return f"the tools of the server `{step.server}` are not offered to agents: {known}"
    allowed = ", ".join(policy.tools[step.server])
    return f"the tool `{step.tool}` of the server `{step.server}` is not offered: only {allowed}"


async def undeclared_call(run: Run, step: Tool) -> str | None:
    """Why a call that writes is held back; None: it may be made. Under `writes = "ask"` a person is asked."""
    policy, name = run.ports.policy(run.plan_now), _named(step)
    if not policy.restricts_writes or step.effect_class != "write":
        return None
    if name in run.journal.allowed_tools or _is_declared_call(run.plan, step):
        return None
    arguments = hiding(run.plan.secrets)(json.dumps(step.arguments, ensure_ascii=False))[:_LONGEST_ASKED]
    if policy.writes == "ask" and await _person_allows(run, f"call {name} with {arguments}"):
        run.journal.allowed_tools.add(name)
        return None
    return f"the tool {name} writes, and the task does not declare that it may be called, so it was not called"


def _named(step: Tool) -> str:
    """The tool as `allowed_writes` names it: `server.tool`."""
    return f"{step.server}.{step.tool}"


def with_evidence(plan: Plan, step: Tool) -> Tool:
    """The call with the `done_when` of `allowed_writes`, if the agent has given none."""
    entries = (each for each in plan.spec.allowed_writes if each.tool and each.done_when)
    found = next((each.done_when for each in entries if fnmatchcase(_named(step), each.tool or "")), None)
    return step if step.done_when or found is None else step.model_copy(update={"done_when": found})


_LONGEST_ASKED = 500
"""Characters of the arguments that a person sees."""


def _is_declared_call(plan: Plan, step: Tool) -> bool:
    """Return whether `allowed_writes` or a step of the file names the tool, or the step declares itself a write."""
    patterns = tuple(each.tool for each in plan.spec.allowed_writes if each.tool)
    own = {_named(each) for each in plan.steps if isinstance(each, Tool) and each.effect_class == "write"}
    return _named(step) in own or (bool(patterns) and matches_any(_named(step), patterns)) or _is_declared(plan, step)


def permission(run: Run, step: Step) -> WritePermission | None:
    """The requests that may leave the pages during a step of the agent; None: all."""
    if not run.ports.policy(run.plan_now).restricts_writes:
        return None
    allowed, writes = run.plan.spec.allowed_writes, [each for each in run.plan.steps if each.effect_class == "write"]
    return WritePermission(
        requests=(
            *(pattern for each in allowed if each.selector is None and (pattern := _pattern(each))),
            *(RequestPattern((each.method,), UrlPattern.parse(each.url)) for each in writes if isinstance(each, Api)),
            *run.journal.allowed,
        ),
        elements=(
            *(AllowedElement(each.selector, each.frame, _pattern(each)) for each in allowed if each.selector),
            *(AllowedElement(each.target, getattr(each, "frame", None)) for each in writes if each.target),
        ),
        everything=_is_declared(run.plan, step),
    )


def _pattern(allowed: AllowedWrite) -> RequestPattern | None:
    """The requests that it names; None: all."""
    if allowed.url is None:
        return None
    return RequestPattern((allowed.method,) if allowed.method else (), UrlPattern.parse(allowed.url))


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
    asks = policy.writes == "ask" and wanted not in run.journal.allowed
    if not asks or not await _person_allows(run, f"send {method} {url}"):
        return False
    run.journal.allowed.append(wanted)
    return True


async def _person_allows(run: Run, what: str) -> bool:
    """Ask the person at the terminal; without one nothing is allowed."""
    if run.ports.ask is None:
        return False
    return await run.ports.ask(f"{run.plan.task_id}: agent {run.agent} would {what}. May it?", (ALLOW, REFUSE)) == ALLOW
