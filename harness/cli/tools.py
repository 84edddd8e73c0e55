"""`harness tools`: the tool servers of `[tool.harness.tools]`: their states, tools and logs, calls, and restarts."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from harness.cli.ending import AsJson, fail
from harness.cli.logs import AsJsonLines, Count, Wait, show_logs
from harness.cli.project import settings_here
from harness.model.settings import Settings
from harness.model.tools import PAGE, ToolState
from harness.reporting.files import printable, shown_path, visible
from harness.reporting.redaction import Redactor
from harness.reporting.tables import columns
from harness.reporting.telemetry.metrics import UNWELL
from harness.reporting.tool_lines import as_text
from harness.reporting.words import shortened
from harness.spec.problems import did_you_mean, join_or
from harness.tools.places import log_of
from harness.tools.statefile import KeptState, kept_states, order_restart
from harness.tools.statefile import as_json as state_document

NOT_WELL = 3
"""The exit code of `status` if a server cannot be used, as of `harness services status`."""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show tool servers, list and call their tools, read their logs.",
)

_Names = Annotated[list[str] | None, typer.Argument(metavar="SERVER", help="Default: all of [tool.harness.tools].")]
_Name = Annotated[str, typer.Argument(metavar="SERVER", help="A server of [tool.harness.tools].")]


def _project() -> Settings:
    """The settings of this folder's project. Ends without tool servers."""
    settings = settings_here()
    if not settings.tools:
        fail(f"there is no [tool.harness.tools.<name>] in {shown_path(settings.root / 'pyproject.toml')}")
    return settings


def _check_names(names: Iterable[str], known: Collection[str]) -> None:
    """End for a name that is not known, with the nearest one."""
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            fail(f"no server `{name}` in [tool.harness.tools]; {near}")


def _placed(settings: Settings, name: str) -> str:
    """The name of a server with a place of its own; ends for `page`, which only a task has."""
    _check_names((name,), settings.tools)
    if name == PAGE:
        fail(f"`{PAGE}` stands for the page of a task: its tools are there only while a task runs")
    return name


@app.command()
def status(names: _Names = None, as_json: AsJson = False) -> None:
    """Show the state of tool servers, as runs have seen it.

    Nothing is connected to.
    Exit code: 0 all are well as far as is known, 3 one cannot be used, 1 a name or a setting is wrong.

    Example: harness tools status
    """
    settings = _project()
    found = kept_states(settings.root)
    known = tuple(dict.fromkeys((*settings.tools, *(each.server for each in found))))
    _check_names(names or (), known)
    wanted = tuple(names or known)
    states = [each for each in found if each.server in wanted]
    unseen = [name for name in wanted if all(each.server != name for each in states)]
    if as_json:
        never = [{"server": name, "kind": _kind(settings, name), "state": ToolState.UNKNOWN.value} for name in unseen]
        documents = [{"kind": "stdio" if each.stdio else "http", **state_document(each)} for each in states]
        typer.echo(json.dumps([*documents, *never], indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(_table(settings, states, unseen)))
    raise typer.Exit(NOT_WELL if any(each.state in UNWELL for each in states) else 0)


def _kind(settings: Settings, name: str) -> str:
    if name == PAGE:
        return PAGE
    found = settings.tools.get(name)
    return "" if found is None else "stdio" if found.command else "http"


_REASON = 60
"""Characters of a reason that the table shows; `--json` has it whole."""


def _table(settings: Settings, states: Sequence[KeptState], unseen: Sequence[str]) -> list[str]:
    """A head and a line for each server and process; then what is to be done."""
    head = ("server", "kind", "state", "reason", "tools", "crashes", "since", "run")
    lines = columns([head, *map(_row, states), *(_unseen(settings, name) for name in unseen)])
    return [*lines, *dict.fromkeys(mended for each in states if (mended := _mended(each)))]


def _row(each: KeptState) -> tuple[str, ...]:
    count = f"{len(each.tools)}{' (old list)' if each.stale else ''}" if each.tools else ""
    since = datetime.fromisoformat(each.since).astimezone()
    run = f"{each.run} ({'running' if each.alive else 'over'})"
    kind, reason = "stdio" if each.stdio else "http", shortened(printable(each.reason), _REASON)
    crashes, began = str(each.crashes or ""), f"{since:%Y-%m-%d %H:%M:%S}"
    return each.server, kind, each.state.value, reason, count, crashes, began, run


def _unseen(settings: Settings, name: str) -> tuple[str, ...]:
    why = "the page of each task" if name == PAGE else "no run has used it"
    return name, _kind(settings, name), ToolState.UNKNOWN.value, why, "", "", "", ""


def _mended(each: KeptState) -> str:
    """What a person can do about a server that does not come back by itself."""
    name = each.server
    if each.state is ToolState.PERMANENTLY_FAILED:
        return f"{name}: look at its end (`harness tools logs {name}`), mend it, then `harness tools restart {name}`"
    if each.state is ToolState.REQUIRES_REAUTH:
        return f"{name}: give it valid credentials, then `harness tools restart {name}`"
    return ""


@app.command("list")
def list_(
    names: _Names = None,
    seconds: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Limit for each server.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Connect to tool servers and list their tools, with effects.

    Exit code: 1 when a server cannot be connected to or is not known.

    Example: harness tools list mail
    """
    from harness.cli.tool_calls import listed  # it needs the room of tools, and the SDK

    settings = _project()
    for name in names or ():
        _placed(settings, name)
    wanted = names or [name for name in settings.tools if name != PAGE]
    found, redactor = asyncio.run(listed(settings, wanted, seconds)), Redactor.of(settings)
    if as_json:
        documents = redactor.json([each.as_json() for each in found])
        typer.echo(json.dumps(documents, indent=2, ensure_ascii=False))
    else:
        for each in found:
            typer.echo(redactor.text("\n".join(map(visible, each.lines()))))
    if PAGE in settings.tools and not names and not as_json:
        typer.echo(f"{PAGE}: the tools of the page of each task")
    raise typer.Exit(1 if any(each.problem for each in found) else 0)


@app.command()
def call(
    server: _Name,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Name of the tool.")],
    arguments: Annotated[str, typer.Argument(metavar="ARGUMENTS", help="Arguments as a JSON object.")] = "{}",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a call that writes.")] = False,
    seconds: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Limit. Default: as in the settings.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool and print its result.

    A call that writes is asked about first.
    Exit code: 1 when there is no answer, the tool answers that it failed, or the call was not made.

    Example: harness tools call mail get_code '{"to": "ann@shop.local"}'
    """
    from harness.cli.tool_calls import CallByHand

    settings = _project()
    redactor = Redactor.of(settings)
    by_hand = CallByHand(settings, _placed(settings, server), tool, _object(arguments), seconds, redactor.text)
    name = printable(f"{server}.{tool}")
    found = asyncio.run(by_hand.made(lambda effect, source: ask_before(name, effect, source, yes)))
    if as_json:
        typer.echo(json.dumps(redactor.json(found.as_json()), indent=2, ensure_ascii=False, default=str))
    else:
        result = found.answer.document
        text = as_text(result) if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False)
        typer.echo(visible(redactor.text(text)))
    if found.answer.is_error:
        fail(f"{name} answered that it failed")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        fail(f'ARGUMENTS is not JSON: {error}: expected an object such as \'{{"to": "ann@shop.local"}}\'')
    if not isinstance(found, dict):
        fail(f'ARGUMENTS must be a JSON object such as \'{{"to": "ann@shop.local"}}\', not {text}')
    return found


def ask_before(name: str, effect: str, source: str, yes: bool) -> None:
    """Say the effect of a call on stderr; end if it writes and nobody agrees."""
    typer.echo(f"{name}: {effect} ({source})", err=True)
    if effect != "write" or yes:
        return
    if not sys.stdin.isatty():
        fail(f"{name} was not called: it writes, and nobody can be asked here; `--yes` calls it all the same")
    if not typer.confirm(f"Call {name}?", err=True):
        fail(f"{name} was not called")


@app.command()
def restart(server: _Name, as_json: AsJson = False) -> None:
    """Let runs connect anew to a server that crashed or refused.

    A run notices it within a second. Later runs begin without crashes and refusals anyway.

    Example: harness tools restart mail
    """
    settings = _project()
    name = _placed(settings, server)
    try:
        using = order_restart(settings.root, name)
    except OSError as error:
        fail(f"the order cannot be written: {error}")
    if as_json:
        typer.echo(json.dumps({"server": name, "ordered": [state_document(each) for each in using]}, indent=2))
        return
    for each in using:
        crashes = f", {each.crashes} crashes forgotten" if each.crashes else ""
        typer.echo(
            f"{name}: restart ordered of run {each.run} (pid {each.owner.pid}); it was {each.state.value}{crashes}"
        )
    if not using:
        typer.echo(f"{name}: no run uses it now, and the next one begins without crashes and refusals")


@app.command()
def logs(names: _Names = None, count: Count = 20, wait: Wait = False, as_json: AsJsonLines = False) -> None:
    """Show the end of the standard error of tool servers.

    Exit code: 1 when a name is not known, or there is no log yet (without --follow).

    Example: harness tools logs mail -n 50 --follow
    """
    settings = _project()
    for name in names or ():
        _placed(settings, name)
    started = [name for name, each in settings.tools.items() if each.command is not None]
    if elsewhere := [name for name in names or () if name not in started]:
        fail(f"`{elsewhere[0]}` has a `url`: whoever runs it has its log")
    files = {name: log_of(settings.root, name) for name in names or started}
    if not files:
        fail(f"no server in [tool.harness.tools] has a `command`: {join_or(settings.tools)} run elsewhere")
    clean = Redactor.of(settings).text
    show_logs(files, "server", count, wait=wait, as_json=as_json, clean=clean)
