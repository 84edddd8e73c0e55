"""What has been done so far, as the request tells it: in lines of text, or as calls earlier in the dialogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct

from harness.demo.models.question import Question
from harness.demo.models.script import ScriptLine, TaskScript
from harness.demo.models.snapshot import NamedElement, PageSnapshot

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


def is_shortened(question: Question) -> bool:
    """Return whether the request leaves out the beginning of the history."""
    return any("earlier steps" in text for text in question.texts)


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
