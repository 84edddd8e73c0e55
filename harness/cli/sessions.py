"""`harness sessions`: the sessions of agents that run elsewhere, looked at and closed by hand."""

from __future__ import annotations

import json
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from msgspec import to_builtins

from harness.bridge.store import StoredSession, stored_sessions
from harness.cli.ending import AsJson, fail
from harness.cli.project import settings_here
from harness.reporting.files import printable
from harness.serve.address import addresses_of
from harness.serve.tokens import TokenScope
from harness.spec.problems import did_you_mean

app = typer.Typer(help="Show and close the sessions of agents that run elsewhere.")
_ANSWERS_WITHIN = 5.0
"""Seconds that the run of a session has to close it."""
_LABELS = {"turn": "turn when last written", "wrote": "had begun to write", "had": "tasks it has had"}
"""What `show` calls a value, where its name alone would mislead: the store is not written at each turn."""


def _known(root: Path) -> list[StoredSession]:
    try:
        return stored_sessions(root)
    except OSError as error:
        fail(str(error))


def _found(root: Path, name: str) -> StoredSession:
    known = {each.id: each for each in _known(root)}
    if name not in known:
        hint = did_you_mean(name, known)
        fail(f"there is no session {name}{f' ({hint})' if hint else ''}: `harness sessions list` shows all of them")
    return known[name]


def _document(session: StoredSession) -> dict[str, Any]:
    kept = {**to_builtins(session), "pid": session.owner.pid}
    del kept["owner"]
    return {**kept, "running": not session.over and session.owned, "resumable": session.resumable}


def _state(session: StoredSession) -> str:
    return session.state if session.over or session.owned else f"{session.state}, its run has ended"


@app.command("list")
def list_sessions(as_json: AsJson = False) -> None:
    """List the sessions of this project, the newest first."""
    found = _known(settings_here().root)
    if as_json:
        typer.echo(json.dumps([_document(each) for each in found], indent=2))
        return
    for each in found:
        task = f"task {each.task}" if each.task else "no task"
        typer.echo(printable(f"{each.id}: {_state(each)}, {task}, {each.agent or each.client or 'no name'}"))
    if not found:
        typer.echo("there are no sessions: `harness serve` and `pytest --agent bridge` offer tasks to agents elsewhere")


@app.command()
def show(session: Annotated[str, typer.Argument(help="Its id.")], as_json: AsJson = False) -> None:
    """Show all that is kept of one session."""
    found = _document(_found(settings_here().root, session))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for name, each in found.items():
        if each not in (None, "", ()):
            typer.echo(printable(f"{_LABELS.get(name, name)}: {_shown(each)}"))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


@app.command()
def close(session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Close a session of a run or server that goes on; the task that it has taken ends as AGENT_LOST."""
    root = settings_here().root
    found = _found(root, session)
    address = next((each for each in addresses_of(root) if each.pid == found.owner.pid), None)
    if found.over or not found.owned or address is None:
        fail(f"session {session} is not open in any run or server ({_state(found)})")
    from harness.serve.start import asked  # the lists need no server

    path = f"/sessions/{quote(session)}"
    try:
        status, said = asked(root, address, TokenScope.CONTROL, _ANSWERS_WITHIN, "DELETE", path)
    except (OSError, HTTPException) as error:
        fail(f"the run of session {session} cannot be reached: {error}")
    if status >= 300:
        fail(f"session {session} was not closed: {said[:500]}")
    typer.echo(f"session {session} is closed")
