"""The trials of an evaluation: in which order they are made, and what the result of one says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from msgspec import Struct

from harness.model.agent_settings import AgentSettings
from harness.model.consumption import ModelFigures
from harness.model.diagnosis import fault_effect
from harness.model.evaluation import EvaluationTrial
from harness.model.figures import attempts_made, figures, model_calls
from harness.model.inference import ModelCall
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import MetFault, TaskResult
from harness.model.settings import Settings
from harness.recovery.failure import Failure
from harness.runner.campaign.trials import Attack, FailedBefore, Outcome, PlannedTrial, attacks
from harness.spec.agents import BUILT_IN
from harness.spec.fault_plan import LoadedFaultPlan
from harness.spec.loaded import Loaded

Place = tuple[str, str, str | None, int]
"""Task, agent, fault and number: what a trial is one of."""


class EvaluationSize(Struct, frozen=True):
    """How much is tried, and the seed of the first trials."""

    trials: int
    seed: int


def agents_attacks(
    agents: Sequence[str], loaded: LoadedFaultPlan | None, tasks: Sequence[Loaded], settings: Settings, run: str
) -> dict[str, list[Attack]]:
    """Agent -> each task as it is, then with each of its faults; the same for all agents. Raises SpecError."""
    return {name: attacks(loaded, tasks, settings, run, agent=name, only_struck=False) for name in agents}


def schedule(found: Mapping[str, Sequence[Attack]], size: EvaluationSize) -> Iterator[PlannedTrial]:
    """All trials: the agents take turns within a task, so that the time of day is not the fate of one of them.

    The order of the tasks differs in each round, by the seed. Who begins changes with each trial of a task.
    """
    places = list(zip(*found.values(), strict=True))
    for number in range(size.trials):
        order = places.copy()
        Random(f"{size.seed}/{number}").shuffle(order)
        for rivals in order:
            first = Random(f"{size.seed}/{rivals[0].label}").randrange(len(rivals)) + number
            for turn in range(len(rivals)):
                yield PlannedTrial(rivals[(first + turn) % len(rivals)], number, size.seed + number)


def place_of(turn: PlannedTrial) -> Place:
    """The place of a planned trial."""
    attack = turn.attack
    return attack.task.spec.task_id, attack.agent, attack.name or None, turn.number


_IN_VAIN = frozenset({
    "MODEL_CASSETTE_MISS", "MODEL_AUTH", "MODEL_NOT_FOUND", "MODEL_QUOTA", "MODEL_UNPRICED", "WEBMCP_MISSING",
})  # fmt: skip
"""Codes of void trials that would be void again."""


def remaining(
    turns: Sequence[PlannedTrial], done: Mapping[Place, Sequence[EvaluationTrial]], *, repair: bool = False
) -> Iterator[list[PlannedTrial]]:
    """The trials that are still to be made; then, once more, those that were void. `done` grows meanwhile.

    `repair`: also those that an earlier command has made in vain, since what was broken may have been mended.
    """
    earlier = {place: len(made) for place, made in done.items()} if repair else {}
    yield [turn for turn in turns if not done.get(place_of(turn))]
    yield [
        PlannedTrial(turn.attack, turn.number, turn.seed, attempt=len(own) + 1)
        for turn in turns
        if (own := done.get(place_of(turn), ()))
        and own[-1].outcome == "void"
        # all attempts are those of an earlier command, or the only one may have been bad luck
        and (len(own) == earlier.get(place_of(turn)) or (len(own) == 1 and own[0].code not in _IN_VAIN))
    ]


NEVER = 1_000_000
"""More failures in a row than an evaluation has."""


def without_memory(settings: Settings, agents: Sequence[str]) -> Settings:
    """The settings in which the failures of an agent keep it from no later trial: each trial stands for itself."""
    names = {name for name in (*agents, *settings.agents) if name not in BUILT_IN}
    tables = {name: settings.agents.get(name, AgentSettings()) for name in names}
    patient = {
        name: each.model_copy(update={"breaker": each.breaker.model_copy(update={"failure_threshold": NEVER})})
        for name, each in tables.items()
    }
    return settings.model_copy(update={"agents": {**settings.agents, **patient}})


class Judging(Struct, frozen=True):
    """What is needed to make a line of a result."""

    hosts: Collection[str]
    """The hosts of the project's services."""
    folder: Path
    """The folder of the evaluation."""
    redacted: Callable[[str, Plan], str]
    """Removes the secrets of a task from a text."""
    now: Callable[[], datetime]

    def line(self, turn: PlannedTrial, result: Outcome) -> EvaluationTrial:
        """The line of a trial. `result` may be the reason why it could not be made.

        A task before it that the agent itself has failed is a failure of the agent.
        """
        task_id, agent, fault, number = place_of(turn)
        label = {"task_id": task_id, "agent": agent, "fault": fault, "number": number}
        label |= {"seed": turn.seed, "attempt": turn.attempt}
        if isinstance(result, FailedBefore):
            if result.agent == agent and not void_reason(result.result, self.hosts):
                return EvaluationTrial(**label, **self._failed_before(turn, result), **_use(result.result))
            result = result.describe()
        if isinstance(result, str):
            return EvaluationTrial(
                **label, outcome="void", why_void=self.redacted(result, turn.attack.plan), started=self.now()
            )
        return EvaluationTrial(**label, **self._end(turn, result), **_use(result), **_times(result))

    def _failed_before(self, turn: PlannedTrial, before: FailedBefore) -> dict[str, object]:
        failure = before.result.failure
        told = f"{before.describe()}: {failure.message if failure else before.result.final_state}"
        return {
            "outcome": "failed",
            "code": failure.code if failure else None,
            "message": self.redacted(told, turn.attack.plan),
            **_times(before.result),
        }

    def _end(self, turn: PlannedTrial, result: TaskResult) -> dict[str, object]:
        """How the task ended, and whether that counts."""
        met = result.faults[-1] if turn.attack.fault is not None and result.faults else None
        passed = ended_as_declared(turn.attack.task.spec, result)
        why = "" if passed else self._why_void(result, met)
        failure, kept = result.failure, result.artifacts
        return {
            "outcome": "passed" if passed else "void" if why else "failed",
            "why_void": self.redacted(why, turn.attack.plan),
            "final_state": "skipped" if result.skipped else result.final_state,
            "code": failure.code if failure else None,
            "message": self.redacted(failure.message if failure else result.skipped, turn.attack.plan),
            "struck": met.count if met else 0,
            "artifacts": kept.relative_to(self.folder).as_posix() if kept else None,
        }

    def _why_void(self, result: TaskResult, met: MetFault | None) -> str:
        if met is not None and met.problem:
            return f"the fault failed: {met.problem}"
        if result.skipped:
            return f"the task was skipped: {result.skipped}"
        struck = met is not None and met.count > 0
        effect = fault_effect(met, result).code if met is not None and struck else None
        return void_reason(result, self.hosts, effect)


def _use(result: TaskResult) -> dict[str, object]:
    """What the task used."""
    return {
        "steps": sum(0 <= record.index < result.steps_total for record in result.history),
        "recovered": figures(result).recovered,
        "takeovers": len(result.takeovers),
        "models": ModelFigures.of(model_calls(result)),
    }


def _times(result: TaskResult) -> dict[str, object]:
    """Where the time of the task went, in seconds."""
    thinking = sum(each.seconds for each in model_calls(result) if each.outcome == "answered")
    acting = sum(attempt.seconds for record in result.history for attempt in attempts_made(record))
    return {
        "started": result.started,
        "seconds": round(result.elapsed, 3),
        "thinking": round(thinking, 3),
        "acting": round(acting, 3),
        "waiting": round(max(0.0, result.elapsed - thinking - acting), 3),
    }


# Tells a trial that failed from one that is void: infrastructure broke, so it says nothing about the agent.

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
_VOID_KINDS = (SITE_CODES, BROWSER_CODES, MODEL_CODES, RUN_CODES)
VOID = frozenset().union(*_VOID_KINDS)
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
    alike = found == of_fault or any({found, of_fault} <= kind for kind in _VOID_KINDS)
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
