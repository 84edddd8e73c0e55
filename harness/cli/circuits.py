"""`harness circuits`: the circuits that `persist` keeps between runs, looked at and closed by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.ending import AsJson, fail
from harness.cli.project import settings_at
from harness.reporting.files import printable
from harness.reporting.tables import columns
from harness.resilience import SystemClock
from harness.resilience.circuits import CircuitFigures
from harness.resilience.events import CircuitChanged, ResilienceEvent, written
from harness.runner.circuits import kept_circuits


def circuits(
    reset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Close this circuit, for example origin:http://shop.local. Repeatable."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Close all circuits.")] = False,
    project: Annotated[Path | None, typer.Option(metavar="DIR", help="Default: the project of this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the circuits of sites, tools and models, or close them.

    They are kept with `persist = true` in [tool.harness.breaker]. A run that is under way notices when one is closed
    here.
    Exit code: 1 when no circuits are kept or none has this name.

    Example: harness circuits --reset origin:http://shop.local
    """
    if reset and everything:
        raise typer.BadParameter("--reset closes one circuit and --all closes all of them: give only one of the two")
    told: list[ResilienceEvent] = []
    try:
        with kept_circuits(settings_at(project or Path.cwd()), SystemClock(), told.append) as kept:
            for name in reset or ():
                kept.reset(name)
            if everything:
                kept.reset_all()
            rows = [_row(name, figures) for name, figures in kept.figures().items()]
    except (LookupError, ValueError) as error:
        fail(str(error.args[0]))
    done = [written(event) for event in told if isinstance(event, CircuitChanged)]
    if as_json:
        typer.echo(json.dumps({"circuits": rows, "reset": done}, indent=2, ensure_ascii=False))
        return
    typer.echo("\n".join(_table(rows)) if rows else "no circuit has counted a call yet")
    for each in done:
        typer.echo(f"{each['circuit']}: {each['from']} -> {each['to']} ({each['reason']})")
    if (reset or everything) and not done:
        typer.echo("no circuit was open: only the failures counted so far were forgotten")


def _row(name: str, figures: CircuitFigures) -> dict[str, Any]:
    failed = None if figures.last_failure is None else datetime.fromtimestamp(figures.last_failure, UTC)
    return {
        "circuit": name,
        "state": figures.state.value,
        "failures": figures.failures,
        "reopens_in": None if figures.reopens_in is None else round(figures.reopens_in, 1),
        "last_failure": figures.last_error,
        "last_failure_at": None if failed is None else failed.isoformat(timespec="seconds"),
    }


def _table(rows: list[dict[str, Any]]) -> list[str]:
    cells = (
        (
            each["circuit"],
            each["state"],
            str(each["failures"]),
            "" if each["reopens_in"] is None else f"{each['reopens_in']} s",
            each["last_failure_at"] or "",
            printable(each["last_failure"]),
        )
        for each in rows
    )
    return columns([("circuit", "state", "failures", "reopens in", "failed at", "last failure"), *cells])
