"""What Playwright's call log says of an act that did not end. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.recovery.catalog import Effect

TAIL = 12
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PERFORMED = re.compile(r"performing \w[\w ]* action|\bpress\(|setInputFiles\(|keyboard\.")
_INSIDE = re.compile(r"(attempting|retrying) (select option|fill) action")
_CHECKED = "waiting for element to be visible"
_FILES = re.compile(r'locator resolved to <(label\b|input\b.*type="file")')


@dataclass(frozen=True, slots=True)
class CallLog:
    """The lines after `Call log:` of an error's message."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, message: str) -> CallLog:
        clean = _ANSI.sub("", message).partition("Browser logs:")[0]
        return cls(tuple(line.strip(" -\t") for line in clean.partition("Call log:")[2].splitlines() if line.strip()))

    @property
    def tail(self) -> list[str]:
        return list(self.lines[-TAIL:])

    def says(self, pattern: str) -> bool:
        return any(re.search(pattern, line) for line in self.lines)

    @property
    def found(self) -> bool:
        """Whether the element was there at all."""
        return self.says(r"locator resolved to")

    @property
    def unsaid(self) -> bool:
        """Whether it ends where Playwright fills, chooses or hands over files: all in one, inside the page.

        It says nothing of it afterwards. A page whose scripts hold it up may have been changed, and may not.
        """
        last = self.lines[-1] if self.lines else ""
        inside = _INSIDE.search(last) or (_CHECKED in last and any(map(_INSIDE.search, self.lines)))
        return bool(inside or _FILES.match(last))

    @property
    def dragging(self) -> bool:
        """Whether a drag was begun, and not ended: pressed, moved, not let go."""
        return self.says(r"move and down action") and not self.says(r"performing move and up action")

    @property
    def effect(self) -> Effect:
        """Whether the act was performed (DESIGN 8). Of a drag, only letting go is what it is done for."""
        if self.says(r"action done") and not self.dragging:
            return Effect.DONE
        return Effect.POSSIBLE if self.unsaid or any(map(_PERFORMED.search, self.lines)) else Effect.NONE

    @property
    def untouched(self) -> bool:
        """Whether the element was not there yet, or still waited for to be ready."""
        waited = self.says(r"waiting for") and not self.found
        return self.effect is Effect.NONE and (waited or self.says(r"attempting \w[\w ]* action"))

    @property
    def covering(self) -> str | None:
        """The element that gets the click instead."""
        for line in reversed(self.lines):
            found = re.search(r"(<.+>.*) intercepts pointer events", line)
            if found:
                return found[1]
        return None
