"""Where the services of a project leave what is read from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_OWNER = ".owner.json"

LOGS = Path(".harness/logs")
"""Below the project's folder."""


def log_file(logs: Path, name: str) -> Path:
    """What the service writes, and what its owner notes of it."""
    return logs / f"{name}.log"


def lock_file(logs: Path, name: str) -> Path:
    """Held while it is found out that nobody keeps it, and it is started."""
    return logs / f"{name}.lock"


def owner_file(logs: Path, name: str) -> Path:
    """Who keeps it running (`Ownership`)."""
    return logs / f"{name}{_OWNER}"


def owned(logs: Path) -> Iterator[str]:
    """The names of the services that have such a file."""
    return (file.name.removesuffix(_OWNER) for file in sorted(logs.glob(f"*{_OWNER}")))
