"""The scripts that the models follow: for each task the names of what is to be clicked, typed and chosen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

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
