"""Reads JSON that nobody vouches for: bounded in size and depth, and every refusal has a reason."""

from __future__ import annotations

import json
from pathlib import Path

from harness.model.ports import Json

LARGEST = 32 * 1024 * 1024
DEEPEST = 100


class UnusableEvidenceError(ValueError):
    """A directory, or a file in it, that nothing can be judged by; the message says why."""


def document(path: Path) -> Json:
    """Raises UnusableEvidenceError."""
    if path.is_symlink() or not path.is_file():
        raise UnusableEvidenceError(f"{path.name} is not there")
    if path.stat().st_size > LARGEST:
        raise UnusableEvidenceError(f"{path.name} is larger than {LARGEST // 1024 // 1024} MiB")
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UnusableEvidenceError(f"{path.name} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UnusableEvidenceError(f"{path.name} is no JSON: half-written, or not ours") from None
    except (RecursionError, ValueError):  # a number of too many digits
        raise UnusableEvidenceError(f"{path.name} is nested too deeply, or holds too long a number") from None
    if _deeper(found, DEEPEST):
        raise UnusableEvidenceError(f"{path.name} is nested more than {DEEPEST} deep")
    return found


def table(path: Path) -> dict[str, Json]:
    """A document that is an object. Raises UnusableEvidenceError."""
    found = document(path)
    if not isinstance(found, dict):
        raise UnusableEvidenceError(f"{path.name} is not an object")
    return found


def _deeper(value: Json, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)
