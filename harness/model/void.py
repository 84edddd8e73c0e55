"""Tells a trial that failed from one that is void: infrastructure broke, so it says nothing about the agent."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

from harness.model.figures import model_calls
from harness.model.inference import ModelCall
from harness.model.record import TaskResult
from harness.recovery.failure import Failure

SITE_CODES = frozenset({
    "SERVICE_DOWN", "CIRCUIT_OPEN", "NET_CONNECTION_REFUSED", "NET_CONNECTION_RESET", "NET_EMPTY_RESPONSE",
    "NET_OFFLINE", "NET_UNREACHABLE", "NET_PROXY", "NET_TIMEOUT", "HTTP_TIMEOUT", "HTTP_RATE_LIMITED",
    "HTTP_UNAVAILABLE",
})  # fmt: skip
"""A site, or the way to it, is down."""
BROWSER_CODES = frozenset({
    "BROWSER_CRASHED", "BROWSER_UNRESPONSIVE", "BROWSER_LAUNCH_FAILED", "BROWSER_ENDPOINT_DOWN",
    "BROWSER_ENDPOINT_UNFIT", "DRIVER_GONE", "PAGE_CRASHED", "WEBMCP_MISSING",
})  # fmt: skip
"""The browser, or a process of it, is gone, or cannot do what the task needs."""
MODEL_CODES = frozenset({
    "MODEL_RATE_LIMITED", "MODEL_OVERLOADED", "MODEL_UNAVAILABLE", "MODEL_TIMEOUT", "MODEL_AUTH", "MODEL_QUOTA",
    "MODEL_REJECTED", "MODEL_NOT_FOUND", "MODEL_UNPRICED", "MODEL_CASSETTE_MISS",
})  # fmt: skip
"""The provider of the model gave no answer, also after retries and fallbacks."""
RUN_CODES = frozenset({
    "TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "TOOL_PROTOCOL", "TOOL_AUTH", "CHANNEL_UNREADABLE", "RESET_FAILED",
    "EPISODE_STATE_LOST", "STORAGE_UNREADABLE", "ARTIFACTS_UNWRITABLE", "INTERRUPTED", "WORKER_CRASHED",
    "WORKER_CUT_OFF", "INTERNAL_ERROR",
})  # fmt: skip
"""The world of the task, a tool server, the machine or the harness itself is broken."""
_KINDS = (SITE_CODES, BROWSER_CODES, MODEL_CODES, RUN_CODES)
VOID = frozenset().union(*_KINDS)
"""The codes that make a trial void. A test names every other code of infrastructure, which counts as a failure."""
_UNPROVOKED = frozenset({"CRITERIA_UNMET", "BUDGET_EXCEEDED"})
"""With the codes of agents, the ends of a task whose agent may have met a dead site and given up."""
_MOST_WAITING = 0.5
"""The share of a task's time above which a TASK_TIMEOUT is the provider's fault."""


def void_reason(result: TaskResult, hosts: Collection[str], of_fault: str | None = None) -> str:
    """The reason why the trial is void, in a sentence; empty if it counts.

    `hosts`: those of the project's services. `of_fault`: the code that an injected fault caused; to fail by it is what
    the trial is about, so it is never void.
    """
    failure = result.failure
    if failure is None or failure.circumstances.injected:
        return ""
    found = _void_code(failure, result, hosts)
    alike = found == of_fault or any({found, of_fault} <= kind for kind in _KINDS)
    if found and not alike:
        return f"{found}: {failure.row.cause if found == failure.code else failure.message}"
    late = failure.code == "TASK_TIMEOUT" and of_fault not in MODEL_CODES
    if late and waited_for_models(model_calls(result)) > _MOST_WAITING * result.elapsed:
        return "TASK_TIMEOUT: more than half of the time went by while no model answered."
    return ""


def _void_code(failure: Failure, result: TaskResult, hosts: Collection[str]) -> str:
    """The code that makes the trial void; empty if there is none."""
    not_installed = failure.code == "AGENT_UNAVAILABLE" and "model" in failure.details
    unreadable = failure.code == "MODEL_GARBLED" and bool(failure.details.get("unreadable"))  # no model has said it
    if failure.code in VOID or not_installed or unreadable:
        return failure.code
    if failure.code == "AGENTS_EXHAUSTED":
        codes = [str(each.get("code", "")) for each in failure.details.get("tried", ())]
        return codes[-1] if codes and VOID.issuperset(codes) else ""
    if failure.code.startswith("AGENT_") or failure.code in _UNPROVOKED:
        return next(_dead_at_the_end(result, hosts), "")
    return ""


def _dead_at_the_end(result: TaskResult, hosts: Collection[str]) -> Iterator[str]:
    """Yield the code of the last step, if it failed because a site of the project or the browser is down."""
    steps = [record for record in result.history if record.index >= 0 and record.step.act != "assert"]
    last = steps[-1].failure if steps else None
    if last is None or last.circumstances.injected:
        return
    host = urlsplit(str(last.details.get("url", ""))).hostname or ""
    if last.code in BROWSER_CODES or (last.code in SITE_CODES and host in hosts):
        yield last.code


def waited_for_models(calls: Collection[ModelCall]) -> float:
    """Seconds of requests that brought no answer, and of the waits before their retries."""
    waited, before = 0.0, None
    for call in calls:
        if before is not None and call.attempt > 1:
            waited += max(0.0, (call.at - before.at).total_seconds() - before.seconds)
        if call.outcome != "answered":
            waited += call.seconds
        before = call
    return waited
