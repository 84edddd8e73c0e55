"""Chooses the next move: the next line of the script, with the element's ref from the page that was sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from harness.demo.models.history import Progress, find, is_shortened, past_steps, progress
from harness.demo.models.question import Question
from harness.demo.models.script import ScriptLine, TaskScript, all_scripts, script_for
from harness.demo.models.snapshot import PageSnapshot, last_page

_PATIENCE: Final = 3
"""Tries after which a model gives up on a line."""


class Model(Struct, frozen=True):
    """A model of the site: how much it can read, and how well it does."""

    name: str
    window: int = 128_000
    """The most tokens of a request with its answer."""
    slips: float = 0.0
    """The part of the lines at which it makes a mistake first, and does it right when it is told. The first is one."""
    stamina: int | None = None
    """The number of lines after which it gives up."""


MODELS: Final[Mapping[str, Model]] = {
    model.name: model
    for model in (
        Model("scripted-fast"),
        Model("scripted-clumsy", slips=0.25),
        Model("scripted-weak", slips=0.25, stamina=12),
        Model("scripted-small", window=4_000),
    )
}


class Move(Struct, frozen=True):
    """What the model wants to do. The values are given to a tool as far as it takes them."""

    verb: str
    text: str
    """In words."""
    element: str = ""
    ref: str = ""
    value: str = ""
    key: str = ""
    """What is remembered."""
    arguments: str = ""
    """The arguments of a tool of a server, as JSON."""


def next_move(model: Model, question: Question) -> Move:
    """Choose. The same request gets the same answer."""
    script, page = script_for(question.texts), last_page(question.texts)
    if script is None:
        goals = "; ".join(script.goal for script in all_scripts())
        return _give_up(f"I have no script for this. I know: {goals}")
    place = progress(script, past_steps(question), page, shortened=is_shortened(question))
    if place.done >= len(script.lines):
        return Move("done", f"I have done all {len(script.lines)} lines of the script {script.name}.")
    if model.stamina is not None and place.done >= model.stamina:
        return _give_up("This is longer than I can follow.")
    line = script.lines[place.done]
    if len(place.since) >= _PATIENCE:
        return _give_up(f"I cannot do this: {line.text}")
    move = _move(line, page, question)
    if not place.since and _slips(model, question.seed, script, place):
        return _mistake(move, page, question.seed + place.done)
    return move


def _give_up(reason: str) -> Move:
    return Move("give_up", reason, value=reason)


def _move(line: ScriptLine, page: PageSnapshot, question: Question) -> Move:
    if not line.on_element:
        return Move(line.verb, f"Next: {line.text}.", value=line.value, arguments=line.arguments)
    node = find(page, line)
    if node is None:
        verb = "look" if any("left out" in text for text in question.texts) else "wait_a_second"
        return Move(verb, f"I do not see {line.name!r} yet.", value=line.name or line.near)
    text = f"Next: {line.text}."
    return Move(line.verb, text, element=node.description, ref=node.ref, value=line.value, key=line.key)


# The mistakes of models that make some.


def _slips(model: Model, seed: int, script: TaskScript, place: Progress) -> bool:
    """Return whether the model makes a mistake here; by the request's seed, so that a request is answered the same."""
    if not model.slips or not script.lines[place.done].on_element:
        return False
    if not any(line.on_element for line in script.lines[: place.done]):
        return True
    digest = hashlib.sha256(f"{seed}/{script.name}/{place.done}".encode()).digest()
    return digest[0] < model.slips * 256


def _mistake(move: Move, page: PageSnapshot, number: int) -> Move:
    """The move with a ref that is not on the page, or with none, or with another element's that cannot be typed into.

    A click on another element would pass, and the model would never learn of it.
    """
    other = None if move.verb == "click" else page.unlike(move.ref)
    wrong = ("e99999", "", other.ref if other else "e99999")[number % 3]
    return Move(move.verb, move.text, element=move.element, ref=wrong, value=move.value, key=move.key)
