"""Where the services of a project leave what is read from outside."""

from __future__ import annotations

from pathlib import Path

LOGS = Path(".harness/logs")
"""Below the project's folder."""


def log_file(logs: Path, name: str) -> Path:
    """What the service writes, and what its owner notes of it."""
    return logs / f"{name}.log"


def owner_file(logs: Path, name: str) -> Path:
    """Who keeps it running (`Ownership`)."""
    return logs / f"{name}.owner.json"
