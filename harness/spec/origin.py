"""Where a task came from, so that a problem in it can be pointed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.spec.problems import Problem, Severity, Way, dotted
from harness.spec.source import Source


@dataclass(frozen=True, slots=True)
class Origin:
    """The files of one task. Without any (a task made in Python) problems have no place."""

    file: str
    main: Source | None = None
    parts: Mapping[str, tuple[Source, Way]] = field(default_factory=dict)
    """Top-level key -> the other file it came from, and where it stands there."""

    def problem(
        self,
        path: Way,
        message: str,
        *,
        expected: str = "",
        found: str = "",
        hint: str = "",
        key: bool = False,
        within: tuple[str, int] | None = None,
        severity: Severity = "error",
    ) -> Problem:
        """A problem at a value, at its key, or at a character of it (`within`: the string and an offset)."""
        source, there = self._stands(path)
        line, column = source.place(there, key, within) if source else (None, None)
        file = source.file if source else self.file
        return Problem(file, line, column, dotted(path), message, expected, found, hint, severity)

    def place(self, path: Way) -> str:
        """File and line of a value, as shown to people; the file alone where there is none to point into."""
        source, there = self._stands(path)
        return f"{source.file}:{source.place(there)[0]}" if source else self.file

    def file_of(self, key: str) -> str:
        """The file that a top-level key of the task stands in, as shown to people."""
        source, _ = self._stands((key,))
        return source.file if source else self.file

    def _stands(self, path: Way) -> tuple[Source | None, Way]:
        if path and str(path[0]) in self.parts:
            source, above = self.parts[str(path[0])]
            return source, (*above, *path[1:])
        return self.main, path

    def mentions(self, text: str) -> bool:
        """Whether one of the files holds the text; true without files."""
        sources = (self.main, *(source for source, _ in self.parts.values()))
        return any(source is None or text in source.text for source in sources)
