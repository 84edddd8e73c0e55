"""A task as the text of its file, as a person would write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from harness.spec.readers import UnreadableError, read_yaml
from harness.spec.recorded.journey import WrittenStep

WIDEST = 116
"""Columns up to which a step stands on one line."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _./@+-]*(?<! )")


class TaskText(Struct, frozen=True):
    """The parts of a task's file, in its order."""

    head: tuple[str, ...]
    """Lines of the comment at the top."""
    keys: Mapping[str, Any]
    """`task_id`, `goal` and the other keys before the steps."""
    steps: Sequence[WrittenStep]
    criteria: Sequence[str]
    criteria_notes: tuple[str, ...] = ()
    notes: Mapping[str, str] = {}
    """Key -> the comment behind it."""

    def __str__(self) -> str:
        return (
            "\n".join([*(f"# {line}".rstrip() for line in self.head), *self._keys(), *self._steps(), *self._end()])
            + "\n"
        )

    def _keys(self) -> Iterator[str]:
        for key, value in self.keys.items():
            note = f" # {self.notes[key]}" if key in self.notes else ""
            yield f"{key}: {scalar(value)}{note}"

    def _steps(self) -> Iterator[str]:
        yield "steps:"
        for step in self.steps:
            yield from (f"  # {line}".rstrip() for line in step.notes)
            if step.keys:
                yield from _step_lines(step.keys)

    def _end(self) -> Iterator[str]:
        yield from (f"# {line}" for line in self.criteria_notes)
        if self.criteria:
            yield "success_criteria:"
            yield from (f"  - {_quoted(each)}" for each in self.criteria)


def _step_lines(keys: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a step: one, if it fits."""
    block = [key for key, value in keys.items() if isinstance(value, str) and "\n" in value]
    line = "  - {" + ", ".join(f"{key}: {scalar(value)}" for key, value in keys.items()) + "}"
    if len(line) <= WIDEST and not block:
        yield line
        return
    lead = "  - "
    for key, value in keys.items():
        if key in block and _fits_block(value):
            yield f"{lead}{key}: |-"
            yield from (f"      {line}".rstrip() for line in value.splitlines())
        else:
            yield f"{lead}{key}: {scalar(value)}"
        lead = "    "


def _fits_block(value: str) -> bool:
    """Return whether a text survives as a block: no odd characters, and no white space at the ends of its lines."""
    lines = value.split("\n")
    return value.isprintable() or (
        all(line.isprintable() and line == line.rstrip() for line in lines)
        and lines[0][:1].strip() != ""
        and bool(lines[-1])
    )


def scalar(value: Any) -> str:
    """A value in the flow style of YAML."""
    if isinstance(value, str):
        return value if _is_plain(value) else _quoted(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(scalar, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {scalar(item)}" for key, item in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _is_plain(text: str) -> bool:
    if not _PLAIN.fullmatch(text):
        return False
    try:
        return bool(read_yaml(f"- {text}") == [text])
    except UnreadableError:
        return False


def _quoted(text: str) -> str:
    """A text in quotes, with few backslashes. YAML refuses what is not printable, also where JSON allows it."""
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    written = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in written)
