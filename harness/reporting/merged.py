"""What `harness merge` adds to a manifest.json: of which merged run the directory is now (`run` stays who wrote it)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.reporting.documents import read_json, write_json
from harness.reporting.manifest import MANIFEST

_KEY = "merged"


def mark(folder: Path, run: str, *, counts: bool) -> None:
    """`counts`: false for an execution that a later one of its task has replaced. Without a manifest nothing is done.

    Raises OSError for a disk that does not take it.
    """
    file = folder / MANIFEST
    try:
        found = read_json(file)
    except (OSError, ValueError):
        return
    if isinstance(found, dict):
        write_json(file, {**found, _KEY: {"run": run, "counts": counts}})


def run_of(manifest: Mapping[str, Any]) -> str:
    """The merged run; else the one that wrote the directory."""
    return str(_mark(manifest).get("run") or manifest.get("run", "unknown"))


def counts(manifest: Mapping[str, Any]) -> bool:
    """Whether the directory is of the last execution of its task in its run."""
    return _mark(manifest).get("counts") is not False


def _mark(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    found = manifest.get(_KEY)
    return found if isinstance(found, dict) else {}
