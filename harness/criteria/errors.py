"""What is wrong with the text of a criterion, and where."""

from __future__ import annotations

from unicodedata import east_asian_width

WINDOW = 60


class CriterionError(ValueError):
    """A criterion that cannot be read. `offset` counts from 0, `line` and `column` from 1."""

    def __init__(self, text: str, offset: int, problem: str, expected: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(text, offset, problem, expected, hint)
        self.text = text
        self.offset = offset
        self.problem = problem
        self.expected = expected
        self.hint = hint
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - text.rfind("\n", 0, offset)

    def __str__(self) -> str:
        parts = [f"{self.problem} (line {self.line}, column {self.column})", *_marked(self.text, self.offset)]
        if self.expected:
            parts.append("expected: " + " or ".join(self.expected))
        if self.hint:
            parts.append("hint: " + self.hint)
        return "\n".join(parts)


def _marked(text: str, offset: int) -> tuple[str, str]:
    """The line around the offset, cut to a window, and a caret under the place."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    left, right = max(start, offset - WINDOW), min(end, offset + WINDOW)
    before, after = text[left:offset], text[offset:right]
    shown = ("..." if left > start else "") + before
    return (
        "  " + (shown + after + ("..." if right < end else "")).replace("\t", " "),
        "  " + " " * _width(shown) + "^",
    )


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
