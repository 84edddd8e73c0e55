"""Chooses the next move: the next line of the script, with the element's ref from the page that was sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from harness.demo.models.protocol import Question

FOLDER: Final = Path(__file__).with_name("scripts")

_NEAR: Final = r"(?: (?P<where>near|after) '(?P<near>[^']*)')?"
_ELEMENT: Final = rf"(?:(?P<role>[a-z]+) )?'(?P<name>[^']*)'{_NEAR}"
SENTENCES: Final = [
    re.compile(form + r"\Z")
    for form in (
        r"(?P<verb>open) (?P<value>\S+)",
        rf"(?P<verb>click|check|download) {_ELEMENT}",
        rf"(?P<verb>type) '(?P<value>[^']*)' into {_ELEMENT}",
        rf"(?P<verb>select) '(?P<value>[^']*)' from {_ELEMENT}",
        rf"(?P<verb>upload) '(?P<value>[^']*)' to {_ELEMENT}",
        r"(?P<verb>press) (?P<value>\S+)",
        r"(?P<verb>wait) for '(?P<value>[^']*)'",
        rf"(?P<verb>remember) (?P<key>[\w.]+) from (?P<role>[a-z]+)(?: '(?P<name>[^']*)')?{_NEAR}",
        r"(?P<verb>call) (?P<value>[\w-]+\.\S+)(?: with (?P<arguments>\{.*\}))?",
        r"(?P<verb>give_up) '(?P<value>[^']*)'",
    )
]
"""The sentences of a script. `near` and `after` say which of several elements is meant; what is called is a tool of a
server, `server.tool`, with arguments in JSON."""


class ScriptError(ValueError):
    """A script has a line that is none of the known sentences."""


class ScriptLine(Struct, frozen=True):
    """One line of a script."""

    verb: str
    text: str
    """The line as it was written."""
    value: str = ""
    """What is typed, chosen, opened, pressed, called or waited for."""
    role: str = ""
    name: str = ""
    where: str = ""
    """``near`` or ``after``."""
    near: str = ""
    """A text of the page."""
    key: str = ""
    """What is remembered."""
    arguments: str = ""
    """The arguments of what is called, as JSON."""

    @property
    def on_element(self) -> bool:
        """Whether the line needs an element of the page."""
        return bool(self.role or self.name)


_BLANK: Final = re.compile(r"<(\w+)>")
"""A blank of a goal: `<product>` stands for what the request has in its place."""


class TaskScript(Struct, frozen=True):
    """What to do for a task."""

    name: str
    goal: str
    """The words that a request must contain, for this script to be followed."""
    lines: Sequence[ScriptLine]

    def fitting(self, asked: str) -> TaskScript | None:
        """The script with its blanks filled in from a request; None if its goal is not in the request."""
        words = _BLANK.sub(r"(?P<\1>[^.,:;]+?)", re.escape(self.goal))
        found = re.search(words, asked, re.IGNORECASE)
        if found is None or not found.groupdict():
            return self if found else None

        def fill(text: str) -> str:
            return _BLANK.sub(lambda blank: found[blank[1]], text)

        return TaskScript(self.name, fill(self.goal), [read_line(fill(line.text)) for line in self.lines])


def read_line(text: str) -> ScriptLine:
    """Read one line of a script. Raises ScriptError."""
    for form in SENTENCES:
        found = form.match(text)
        if found:
            parts = {key: value for key, value in found.groupdict().items() if value is not None}
            return ScriptLine(text=text, **parts)
    raise ScriptError(f"no sentence of a script: {text!r}")


@cache
def all_scripts() -> Sequence[TaskScript]:
    """Every script of the folder. Raises ScriptError."""
    return [read_script(path) for path in sorted(FOLDER.glob("*.yaml"))]


def read_script(path: Path) -> TaskScript:
    """Read a script's file. Raises ScriptError."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return TaskScript(path.stem, content["goal"], [read_line(text) for text in content["lines"]])


def script_for(texts: Sequence[str]) -> TaskScript | None:
    """The script whose goal is in the request; of several the one with the longest goal."""
    asked = " ".join("\n".join(texts).split())
    found = [fitting for script in all_scripts() if (fitting := script.fitting(asked)) is not None]
    return max(found, key=lambda script: len(script.goal), default=None)


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
    shortened = any("earlier steps" in text for text in question.texts)  # the history begins later than the task
    place = progress(script, past_steps(question), page, shortened=shortened)
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


# What has been done so far, as the request tells it: in lines of text, or as calls earlier in the dialogue.

_LINE: Final = re.compile(r"^\s*\d+[.)] (?P<done>.+?) (?:->|→|:) (?P<end>\w.*)$", re.MULTILINE)
"""``3. click button "Add to cart" -> passed``."""
_WORDS: Final = {
    "open": ("open", "navigate"),
    "type": ("type", "fill"),
    "press": ("press",),
    "remember": ("remember",),
    "call": ("tool ",),
}
"""What a tool calls the verb of a script, where it must be that verb: a `check` may be done by a click."""


class PastStep(Struct, frozen=True):
    """A step that was taken."""

    text: str
    passed: bool


class Progress(Struct, frozen=True):
    """How far a task has come in its script."""

    done: int
    """The number of its lines that are done."""
    since: Sequence[PastStep]
    """What was tried after the last of them."""


def past_steps(question: Question) -> list[PastStep]:
    """Every step that the request tells of, in order."""
    told = [
        PastStep(found["done"], found["end"].startswith(("passed", "ok", "done")))
        for text in question.texts
        for found in _LINE.finditer(text)
    ]
    return told + [PastStep(f"{call.name} {call.arguments}", call.succeeded) for call in question.calls]


def progress(script: TaskScript, past: Sequence[PastStep], page: PageSnapshot, *, shortened: bool = False) -> Progress:
    """Find the place in the script. A shortened history begins where most of its steps are lines of the script.

    Steps of somebody else, who named nothing as the script does, say nothing about it: then the first line whose
    element is on the page is next.
    """
    done, last, known = _beginning(script.lines, past) if shortened else 0, 0, False
    for number, step in enumerate(past, 1):
        place = _place_of(step, script.lines, done)
        if place is not None:
            done, last, known = place + 1, number, True
    if not known and any(step.passed for step in past):
        done = next((place for place, line in enumerate(script.lines) if find(page, line)), 0)
    while done < len(script.lines) and script.lines[done].verb == "wait" and page.shows(script.lines[done].value):
        done += 1
    return Progress(done, past[last:])


def find(page: PageSnapshot, line: ScriptLine) -> NamedElement | None:
    """The element that a line is about; None if the page does not have it."""
    if not line.on_element:
        return None
    return page.find(line.role, line.name, **({line.where: line.near} if line.where else {}))


def _beginning(lines: Sequence[ScriptLine], past: Sequence[PastStep]) -> int:
    passed = [step for step in past if step.passed]
    told = [_run(lines[start:], passed) for start in range(len(lines))]
    return told.index(max(told))


def _run(lines: Sequence[ScriptLine], passed: Sequence[PastStep]) -> int:
    """How many steps are one after the other lines of the script, without a gap."""
    acted = (line for line in lines if line.verb != "wait")
    told = (_is_told(line, step.text) for line, step in zip(acted, passed, strict=False))
    return sum(1 for _ in takewhile(bool, told))


def _place_of(step: PastStep, lines: Sequence[ScriptLine], done: int) -> int | None:
    if not step.passed:
        return None
    return next((place for place in range(done, len(lines)) if _is_told(lines[place], step.text)), None)


def _is_told(line: ScriptLine, text: str) -> bool:
    """Return whether the text is about this line: it has the verb, and the element's name or what the verb is about."""
    words = _WORDS.get(line.verb, ())
    if line.verb == "wait" or (words and not any(word in text.lower() for word in words)):
        return False
    return (line.key or line.name or line.value.rstrip("/")) in text.replace('\\"', '"')


# Elements by role and name, in an ARIA snapshot with refs such as Playwright makes for agents.

_NODE: Final = re.compile(r"""(?P<indent>\s*)- '?(?P<role>[a-z]+)(?: "(?P<name>(?:[^"\\]|\\.)*)")?(?P<rest>.*)""")
_REF: Final = re.compile(r"\[ref=(\w+)\]")


class NamedElement(Struct, frozen=True):
    """An element of the page that can be acted on."""

    role: str
    name: str
    ref: str
    place: int
    """Its line in the snapshot."""

    @property
    def description(self) -> str:
        """In words: ``button "Add to cart"``."""
        return f'{self.role} "{self.name}"' if self.name else self.role


class PageSnapshot:
    """A snapshot of a page."""

    def __init__(self, snapshot: str) -> None:
        """Read the snapshot; lines that are no elements are kept as text."""
        self._lines = snapshot.splitlines()
        self._indents = [len(line) - len(line.lstrip()) for line in self._lines]
        self.nodes: Sequence[NamedElement] = [
            node for place, line in enumerate(self._lines) if (node := _node(place, line))
        ]

    def shows(self, text: str) -> bool:
        """Return whether the text is on the page."""
        return any(text in line for line in self._lines)

    def find(self, role: str, name: str, near: str = "", after: str = "") -> NamedElement | None:
        """The first element of that name, exact names first; an empty role matches any that people act on.

        ``near``: of several elements the one that shares the smallest part of the page with this text. ``after``: the
        first one behind this text.
        """
        roles = {role} if role else _ACTED_ON
        found = [node for node in self.nodes if node.role in roles and name.lower() in node.name.lower()]
        exact = [node for node in found if not name or node.name == name] or found
        if not near:
            begin = self._place_of(after) if after else 0
            return next((node for node in exact if node.place >= begin), None)
        return max(
            (node for node in exact if self._depth(node, near) >= 0), key=lambda n: self._depth(n, near), default=None
        )

    def unlike(self, ref: str) -> NamedElement | None:
        """Another element, a heading: nothing happens when it is clicked."""
        return next((node for node in self.nodes if node.role == "heading" and node.ref != ref), None)

    def _place_of(self, text: str) -> int:
        """The line of a text: of a name or a whole text, or else of a part of one."""
        whole = (place for place, line in enumerate(self._lines) if f'"{text}"' in line or line.endswith(f": {text}"))
        part = (place for place, line in enumerate(self._lines) if text in line)
        return next(whole, next(part, len(self._lines)))

    def _depth(self, node: NamedElement, text: str) -> int:
        """How deep the smallest part of the page is that has both; -1 if there is none."""
        depth, place = self._indents[node.place] + 1, node.place
        for start in range(node.place, -1, -1):
            if self._indents[start] >= depth or not self._lines[start].strip():
                continue
            depth, place = self._indents[start], start
            if any(text in line for line in self._part(place)):
                return depth
        return -1

    def _part(self, place: int) -> list[str]:
        end = place + 1
        while end < len(self._lines) and self._indents[end] > self._indents[place]:
            end += 1
        return self._lines[place:end]


_ACTED_ON: Final = frozenset({
    "button", "link", "textbox", "searchbox", "spinbutton", "combobox", "listbox", "checkbox", "radio", "tab",
    "menuitem",
})  # fmt: skip


def _node(place: int, line: str) -> NamedElement | None:
    parts, ref = _NODE.match(line), _REF.search(line)
    if parts is None or ref is None:
        return None
    name = re.sub(r"\\(.)", r"\1", parts["name"] or "").replace("''", "'")
    return NamedElement(parts["role"], name, ref[1], place)


def last_page(texts: Sequence[str]) -> PageSnapshot:
    """The page of the last text that shows one; a page without elements if none does."""
    return PageSnapshot(next((text for text in reversed(texts) if _REF.search(text)), ""))
