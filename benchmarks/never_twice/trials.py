"""A trial: one page, one failure, one answer and one way back, drawn from a seed; and the task that is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.never_twice.pages import KINDS
from benchmarks.never_twice.tables import ANSWERS, FAILURES, RULES, WAYS, Way

DELAYS: Final = (0, 100, 300, 700, 1000, 1300, 2000, 3000)
"""Milliseconds after which a page sends that sends late."""
AGAIN: Final = "again"
"""What ends the name of the task that runs in the place of another."""
KILLED: Final = ("store", "worker", "bridge")
"""Kinds of runs whose processes are killed."""
LEAVING: Final = ("refused", "server-error", "not-found", "crashed", "late")
"""Failures that leave the page, at once or on the way back."""
DISTURBING: Final = ("killed", "driver")
"""Failures that end the browser: a few are enough, since each costs a start."""


class Trial(NamedTuple):
    """What is tried."""

    name: str
    kind: str
    failure: str
    answer: str
    way: str
    delay: int = 0
    first: bool = False
    """Whether only the first order is answered so, and the next ones well."""
    once: bool = False
    """Whether the page fails only once."""
    declared: bool = False
    done_when: str = "none"
    pause: float = 0.0
    """Seconds between the act and what fails."""
    optional: bool = False
    """Whether the act is left out if it fails."""

    @property
    def run(self) -> str:
        """The kind of run that plays it."""
        return WAYS[self.way].run

    @property
    def known(self) -> bool:
        """Whether the act is known to be a write before it is done."""
        return self.declared or KINDS[self.kind].act["act"] in ("submit", "api")

    @property
    def sure(self) -> bool:
        """Whether the order is done for certain once the act is done: the task must not pass without it.

        A page that is ended at once, such as by a script that never ends, may not have sent its form yet.
        """
        kind, ended = KINDS[self.kind], FAILURES[self.failure].crashes and not self.pause
        never_late = not kind.late and self.kind not in ("closes", "navigates")
        done = ANSWERS[self.answer].effect and not ANSWERS[self.answer].before
        return kind.effect and never_late and done and not (ended or self.optional)


def drawn(seed: int, number: int) -> Trial:
    """The trial of this number: the same for the same seed."""
    chance = Random(f"{seed}/{number}")
    names = list(WAYS)
    way = names[number % len(names)]
    failures = [name for name, each in FAILURES.items() if not WAYS[way].failures or getattr(each, WAYS[way].failures)]
    kind = chance.choice(list(KINDS))
    failure = chance.choice(failures)
    if failure in DISTURBING and chance.random() < 0.5:
        failure = chance.choice(failures)
    if KINDS[kind].leaving and chance.random() < 0.7:
        failure = chance.choice(LEAVING)
    needs = KINDS[kind].declared
    return Trial(
        f"S{seed}N{number:04}",
        kind,
        failure,
        chance.choice(["200", chance.choice(list(ANSWERS))]),
        way,
        chance.choice(DELAYS),
        first=chance.random() < 0.5,
        once=chance.random() < 0.5,
        declared=chance.random() < 0.4 if needs is None else needs,
        done_when=chance.choice(["none", "none", "none", "channel", "page"]),
        pause=chance.choice([0, 0, 0.3, 0.7, 1.2]),
        optional=chance.random() < 0.1,
    )


def tasks_of(trial: Trial, site: str, closed: str) -> Sequence[dict[str, Any]]:
    """The documents of its task, and of the one that runs in its place; nobody listens at the origin `closed`."""
    way = WAYS[trial.way]
    steps = _steps(trial, site, closed)
    act = next(number for number, step in enumerate(steps) if step.get("note") == "act")
    first = {"act": "open", "url": f"{site}/plain"}
    task = {
        "task_id": trial.name,
        "goal": "The order is placed once.",
        "timeout": 25,
        "step_timeout": 1,
        "steps": steps,
        "success_criteria": list(FAILURES[trial.failure].criteria),
        "error_recovery": _rules(way),
        "faults": _faults(trial, len(steps)),
        **way.keys,
    }
    if way.checkpoint is not None:
        task["checkpoints"] = [max(1, act + way.checkpoint)]
    if way.inside == "repair":
        repair = {"steps": steps}
        return [
            {
                **task,
                "steps": [first],
                "preconditions": ["mem('ready') == 1"],
                "repairs": [repair],
                "faults": [],
            }
        ]
    if way.inside == "alternative":
        plan = {"enabled": True, "alternative_task_id": f"{trial.name}-{AGAIN}"}
        other = {**task, "task_id": f"{trial.name}-{AGAIN}", "faults": []}
        return [{**task, "fallback_plan": plan}, other]
    return [task]


def _steps(trial: Trial, site: str, closed: str) -> list[dict[str, Any]]:
    kind, failure = KINDS[trial.kind], FAILURES[trial.failure]
    fill = {
        "site": site,
        "closed": closed,
        "trial": trial.name,
        "query": f"trial={trial.name}&answer={trial.answer}" + "&first=1" * trial.first,
        "once": "&once=1" * trial.once,
    }
    opened = f"{{site}}/page?{{query}}&kind={trial.kind}&failure={trial.failure}&delay={trial.delay}{{once}}"
    act = {**kind.act, **failure.act, "note": "act", **_declaration(trial)}
    if act["act"] in ("api", "open", "upload"):
        act.pop("expect_request", None)
    if WAYS[trial.way].fallback and act.get("selector") == "#b":
        act["selector"] = "#renamed"
    steps = [
        {"act": "open", "url": "{site}/plain"},
        {"act": "open", "url": opened},
        *kind.before,
        act,
        *([{"act": "wait", "value": trial.pause, "timeout": 5}] if trial.pause else []),
        *failure.steps,
    ]
    return [{key: _filled(value, fill) for key, value in step.items()} for step in steps]


def _filled(value: Any, fill: Mapping[str, str]) -> Any:
    return value.format(**fill) if isinstance(value, str) and "{" in value else value


def _declaration(trial: Trial) -> dict[str, Any]:
    page = "exists('#done')"
    channel = f"json('env', 'by.{trial.name}') >= 1"
    declared: dict[str, Any] = {"effect": "write"} if trial.declared else {}
    declared |= {"optional": True} if trial.optional else {}
    return declared | {"channel": {"done_when": channel}, "page": {"done_when": page}, "none": {}}[trial.done_when]


def _rules(way: Way) -> dict[str, Any]:
    rules = {**RULES, **way.rules}
    if way.fallback:
        found = {**rules["on_element_not_found"], "fallback_selectors": {"#renamed": ["#b"]}}
        rules["on_element_not_found"] = found
    if way.inside == "repair":
        rules["on_precondition_fail"] = "attempt_repair"
    return rules


def _faults(trial: Trial, steps: int) -> list[dict[str, Any]]:
    failure = FAILURES[trial.failure]
    return [{**failure.fault, "step": steps - len(failure.steps)}] if failure.fault else []


def verdict(trial: Trial, effects: int, arrived: int, resent: int, record: Mapping[str, Any] | None) -> str:
    """What is to be said of a trial: `double`, `false green`, `told`, `gap`, `needless` or `once`.

    `told`: done twice, and the report says so. `gap`: done twice, because a process was killed before it could note the
    request of a step that its file does not declare a write (docs/scale.md#the-store). `needless`: the outcome counts
    as unknown although nothing was sent.
    """
    told = {each["type"] for each in (record or {}).get("warnings", ())} & WARNINGS
    code = (record or {}).get("code")
    if effects > 1:
        if effects - resent > 1:
            told -= RESENT  # they are about what Chromium has sent again
        lost = code == "WORKER_CRASHED" and effects - resent <= 1  # whoever saw that Chromium sent it again is dead
        if told or code == "OUTCOME_UNKNOWN" or lost:
            return "told"
        return "gap" if trial.run in KILLED and not trial.known else "double"
    if record and record["final_state"] == "completed" and trial.sure and not effects:
        return "false green"
    return "needless" if code == "OUTCOME_UNKNOWN" and not arrived else "once"


WARNINGS: Final = frozenset({"request_sent_twice", "request_maybe_sent_twice", "write_repeated"})
"""The documented warnings that say that something may have been done twice."""
RESENT: Final = frozenset({"request_sent_twice", "request_maybe_sent_twice"})
