"""What a task has begun, written and ended, and what runs again when the process that had it is gone. Pure.

One vocabulary (`Word`), one codec (`Note`), one decision (`what_runs_again`), and one table of what differs (`RULES`).
The file of a worker, the wire of a slot, the file of a cluster's run, the store of a part and the sessions of the
bridge only carry what is known, and ask here. docs/design/never-twice.md shows all answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import inf
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from harness.model.events import Event, StepEnded, StepStarted, TaskEnded, TaskStarted, WriteSeen
from harness.model.plan import Plan
from harness.recovery import never_twice
from harness.recovery.failure import Failed, Failure
from harness.recovery.never_twice import WROTE, Known, RepeatVerdict, RepeatWay
from harness.values import replace

Word = Literal["turn", "running", "wrote", "over", "again", "crashed"]
"""What is noted of an item before it is so: its turn has come, its task runs, begins to write, has ended; and what was
decided when its process was gone: it runs again, or has ended with it."""


def words_of(event: Event, *, asks: bool = False) -> tuple[Word, ...]:
    """What an event says of its task. `asks`: a declared write asks before it begins, so its start says nothing yet."""
    match event:
        case TaskStarted(plan=plan):
            return ("running", "wrote") if any(map(_writes, _inner_plans(plan))) else ("running",)
        case StepStarted(step=step) if step.effect_class == "write" and not asks:
            return ("wrote",)
        case WriteSeen():  # a click that sends a POST
            return ("wrote",)
        case StepEnded(record=record) if record.may_have_written:  # it leaves open whether it has
            return ("wrote",)
        case TaskEnded():
            return ("over",)
    return ()


def _inner_plans(plan: Plan) -> list[Plan]:
    """The plans that may run in the middle of this one and emit no events of their steps."""
    return [each for each in (plan.alternative, *(repair.task for repair in plan.repairs)) if each is not None]


def _writes(plan: Plan) -> bool:
    own = plan.agent is not None or any(step.effect_class == "write" for step in plan.steps)
    return own or any(map(_writes, _inner_plans(plan)))


class NewWords:
    """What events say that was not said before: a page may send many requests, and one note of them is enough."""

    def __init__(self, *, asks: bool = False) -> None:
        self._asks = asks
        self._wrote: set[str] = set()
        """Ids of the tasks that have written since they began."""

    def of(self, event: Event) -> list[Word]:
        task_id, words = event.plan.task_id, words_of(event, asks=self._asks)
        if "running" in words or "over" in words:
            self._wrote.discard(task_id)
        new = [word for word in words if word != "wrote" or task_id not in self._wrote]
        if "wrote" in new:
            self._wrote.add(task_id)
        return new


class Note(Struct, frozen=True, array_like=True):
    """One line: a word about an item, by its node id or the id of its task."""

    word: Word
    name: str
    why: str = ""

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


read_note: Final = msgspec.json.Decoder(Note).decode
"""Read a line. Raises ValueError."""


class ItemFacts(Struct, frozen=True):
    """What is known of one item when a process that had it is gone."""

    begun: bool = False
    """It ran in that process when that ended, or may have."""
    wrote: bool = False
    """It had begun to write there, whether or not it has ended."""
    ended: bool = False
    task: bool = True
    """Whether it is a task: what an ordinary test does is unknown."""
    episode: str = ""
    losses: int = 1
    """How often a process was lost while it ran, this one included."""
    alone: int = 0
    """In how many of them nothing else could run."""

    def after(self, word: Word) -> ItemFacts:
        """What is known after a note."""
        if word == "wrote":
            return replace(self, wrote=True)
        if word in ("over", "crashed"):
            return replace(self, begun=False, ended=True)
        return replace(self, begun=word != "again", wrote=False, ended=False)  # it begins, perhaps once more


def facts_of(notes: Iterable[Note], known: Mapping[str, ItemFacts] = {}) -> dict[str, ItemFacts]:
    """What is known of each item after notes, by its name. `known`: what was before."""
    found = dict(known)
    for note in notes:
        found[note.name] = found.get(note.name, ItemFacts()).after(note.word)
    return found


class Gone(StrEnum):
    """The process that is gone; another one could run its items."""

    WORKER = "a worker of pytest-xdist"
    SLOT = "a slot of a cluster"
    DRIVER = "the driver of a cluster, with `--task-resume`"
    PART = "a process of a run with `--task-store`"
    SERVER = "the server of a bridge session"


class LossRule(Struct, frozen=True):
    """What differs between processes that are gone."""

    alone: float = inf
    """So many deaths of processes in which a task was alone show that it causes them."""
    losses: float = inf
    """A task that ran in so many processes that were lost is not tried in one more."""
    tests: bool = False
    """Ordinary tests run again, whatever they may have done."""
    episode: Literal["goes on", "is lost", "begins anew"] = "is lost"
    """What becomes of an episode of which a task has ended; it does not begin anew if one has begun to write."""
    no_end: frozenset[str] = frozenset()
    """Failures that lie with the process: a task that ended so, and had not begun to write, has not ended."""


RULES: Final[Mapping[Gone, LossRule]] = {
    # As in pytest-xdist, what was alone in a worker has ended it. The environment of an episode is the same elsewhere.
    Gone.WORKER: LossRule(alone=1, episode="goes on"),
    # Machines are taken away for many reasons, and a task may have been there by chance.
    Gone.SLOT: LossRule(alone=2, losses=3, no_end=frozenset({"WORKER_CUT_OFF", "BROWSER_LAUNCH_FAILED"})),
    # A person asks for it, so nothing is counted.
    Gone.DRIVER: LossRule(),
    # Only the ends of tasks are stored, and the last one counts: so an episode may begin anew, with the ended ones.
    Gone.PART: LossRule(tests=True, episode="begins anew", no_end=frozenset({"WORKER_CUT_OFF", "INTERRUPTED"})),
    Gone.SERVER: LossRule(),
}

UNKNOWN = "what an ordinary test has done is unknown, so it does not run again"
ALONE = "it was alone in its slot, and two slots died under it"
TOO_OFTEN = "it ran {} times, each time on a slot that was lost"
STATE_LOST = "the state of its episode was lost with the process that had run {}"


class LossVerdict(Struct, frozen=True):
    """What becomes of the items of a process that is gone; each is in one of these, in the order of the facts."""

    kept: tuple[str, ...] = ()
    """They have ended, and stay so."""
    fresh: tuple[str, ...] = ()
    """They had not begun: they run as if nothing had happened."""
    again: tuple[str, ...] = ()
    """They run again."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Those that do not run again, and have no end -> why."""


def what_runs_again(facts: Mapping[str, ItemFacts], gone: Gone) -> LossVerdict:
    """Decide about items, by their node ids in order. Of an episode, those that have ended are among them."""
    reasons = {node: "" if each.ended else why_not(each, gone) for node, each in facts.items()}
    spent = _spent_episodes(facts, reasons, gone)
    unfinished = {each.episode for each in facts.values() if not each.ended} - {*spent, ""}
    anew = unfinished if RULES[gone].episode == "begins anew" else ()
    kept, fresh, again, lost = list[str](), list[str](), list[str](), dict[str, str]()
    for node, each in facts.items():
        if each.ended and each.episode not in anew:
            kept.append(node)
        elif why := reasons[node] or spent.get(each.episode, ""):
            lost[node] = why
        else:
            (again if each.begun or each.ended else fresh).append(node)
    return LossVerdict(tuple(kept), tuple(fresh), tuple(again), lost)


def _spent_episodes(facts: Mapping[str, ItemFacts], reasons: Mapping[str, str], gone: Gone) -> dict[str, str]:
    """The episodes of which nothing more can run -> why."""
    match RULES[gone].episode:
        case "goes on":
            return {}
        case "is lost":
            spent, why = [node for node, each in facts.items() if each.ended or reasons[node]], STATE_LOST
        case "begins anew":
            spent, why = [node for node, each in facts.items() if each.wrote], f"{STATE_LOST}, which had begun to write"
    return {facts[node].episode: why.format(node.rpartition("::")[2]) for node in spent if facts[node].episode}


def why_not(facts: ItemFacts, gone: Gone) -> str:
    """Why an item without an end does not run in another process, its episode aside; empty if it does."""
    if never_twice.again(RepeatWay.RERUN, Known(facts.wrote)) is not RepeatVerdict.AGAIN:
        return WROTE
    if facts.begun and not (facts.task or RULES[gone].tests):
        return UNKNOWN
    if facts.begun and facts.alone >= RULES[gone].alone:
        return ALONE
    if facts.begun and facts.losses >= RULES[gone].losses:
        return TOO_OFTEN.format(facts.losses)
    return ""


CUT_OFF: Final = "WORKER_CUT_OFF"


def cut_off(why: str) -> Failed:
    """The failure of a task that must not begin to write, so that its process may end it, and another one run it."""
    return Failed(Failure(CUT_OFF, f"{why}: nothing was sent"))
