"""Decides whether `.venv` can be used as it is, by a stamp of its contents, never by file times."""

from __future__ import annotations

import enum
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BUILDING = "building\n"


class State(enum.Enum):
    """What must be done with `.venv`."""

    READY = "nothing to do"
    STALE = "install the project again"
    BROKEN = "make it anew"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the environment was made from: Python's X.Y, the project's path and its pyproject.toml."""

    python: str
    project: Path

    @property
    def path(self) -> Path:
        return self.project / ".venv" / ".bootstrap"

    @property
    def text(self) -> str:
        digest = hashlib.sha256((self.project / "pyproject.toml").read_bytes()).hexdigest()
        return f"{self.python}\n{self.project}\n{digest}\n"

    def state(self) -> State:
        if not (self.project / ".venv" / "bin" / "python").exists():
            return State.BROKEN
        written = self.path.read_text() if self.path.exists() else None
        if written is None:
            return State.STALE if self._made_here() else State.BROKEN
        if written == self.text:
            return State.READY
        return State.STALE if written.splitlines()[:2] == self.text.splitlines()[:2] else State.BROKEN

    def building(self) -> None:
        """Write that work has begun: a stamp in this state means that the work was cut off."""
        self.path.write_text(BUILDING)

    def ready(self) -> None:
        self.path.write_text(self.text)

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)

    def _made_here(self) -> bool:
        """Return whether an environment without a stamp, made by hand, has this Python and was not moved."""
        venv = self.project / ".venv"
        if not ((venv / "pyvenv.cfg").exists() and (venv / "bin" / "activate").exists()):
            return False
        version = re.search(r"^version(?:_info)? *= *(\d+\.\d+)\b", (venv / "pyvenv.cfg").read_text(), re.MULTILINE)
        same_python = version is not None and version[1] == self.python
        return same_python and str(venv) in (venv / "bin" / "activate").read_text()
