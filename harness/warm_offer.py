"""A browser that waits for a run, as it is written down: for its owner alone.

The file holds the key of the browser's https, and the address at which the browser obeys.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(".harness/browser")
"""Below the project's folder."""
OFFER = "ready.json"
KEEPER = "harness.cli.browser_keeper"
"""The module that runs as its keeper."""
KEPT = "kept.json"
"""Who keeps one."""
TEMP = "taskspec-kept-"
"""How the temporary folder of a kept browser begins. It is not below the project: sockets need short paths."""


def write_private(file: Path, document: Mapping[str, Any]) -> None:
    """JSON for its owner alone, and whole at once."""
    new = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        json.dump(document, out)
    new.replace(file)


def kept_in(folder: Path) -> dict[str, Any]:
    """What the keeper of the browser in this folder has written of itself; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        said = json.loads((folder / KEPT).read_text("utf-8"))
        return said if isinstance(said, dict) else {}
    return {}


@dataclass(frozen=True, slots=True)
class Offer:
    """A browser that waits."""

    url: str
    mark: str
    """A flag that no other browser has."""
    key: str
    """PEM."""
    ports: Mapping[str, int]
    """Host -> the port of its https."""
    traces: str
    temp: str
    """What the browser keeps while it lives, below the folder for temporary files."""
    server: int
    """The process that answers at the URL, whose child the browser is."""
    fits: Mapping[str, Any]
    """What a run must want, to the letter (`wanted`)."""
    sandbox: str
    """On or off, in words."""

    def write(self, folder: Path) -> None:
        write_private(folder / OFFER, asdict(self))

    @classmethod
    def read(cls, file: Path) -> Offer | None:
        """None where there is none, or it is none of ours."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            if file.stat().st_uid == os.geteuid() and not file.stat().st_mode & 0o077:
                return cls(**json.loads(file.read_text("utf-8")))
        return None
