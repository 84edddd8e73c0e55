"""Kept failures as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from harness.cli.kept import Kept, UnreadableReportError, read_kept


def whole(kept: Sequence[Kept]) -> Mapping[str, Any]:
    """All that is known of each: its report, its manifest, the attempts of its trace."""
    return {
        "failures": [
            {
                "folder": str(each.folder),
                "run": each.run,
                "report": each.report.model_dump(mode="json"),
                "manifest": each.manifest,
                "attempts": list(each.steps),
            }
            for each in kept
        ]
    }


def listed(folders: Iterable[Path], earlier: Mapping[str, Sequence[Path]], last_run: str | None) -> Mapping[str, Any]:
    """A few facts of each, and the earlier runs; what cannot be read is told on stderr."""
    kept = [found for folder in folders if (found := readable(folder)) is not None]
    return {
        "failures": [_facts(each, last_run) for each in kept],
        "earlier": {run: [folder.name for folder in found] for run, found in earlier.items()},
    }


def readable(folder: Path) -> Kept | None:
    """None for a directory that cannot be read: said on stderr."""
    try:
        return read_kept(folder)
    except UnreadableReportError as error:
        typer.echo(str(error), err=True)
        return None


def _facts(kept: Kept, last_run: str | None) -> Mapping[str, Any]:
    report = kept.report
    return {
        "task_id": report.task_id,
        "folder": str(kept.folder),
        "run": kept.run,
        "of_last_run": None if last_run is None else kept.run == last_run,
        "counts": kept.counts,
        "timestamp": report.timestamp.isoformat(),
        "final_state": report.final_state,
        "code": report.code,
        "error_type": str(report.error_type),
        "step_index": report.step_index,
        "message": report.error_message,
        "expected": report.expected,
        "source": report.source,
    }
