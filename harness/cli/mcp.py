"""`harness mcp`: the tasks of a project for an agent that speaks MCP, over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from harness.cli.ending import fail
from harness.cli.project import settings_here
from harness.model.settings import Settings

app = typer.Typer(
    help="Offer the project's tasks to an agent over MCP.",
    invoke_without_command=True,
)
_LOG: Final = Path(".harness/logs/mcp.log")
LAST_WORDS: Final = 0.05
"""Seconds in which answers that are ready are still written after the end of the input."""
_HOOK_WITHIN: Final = 2.0
"""Seconds that a hook may take: the agent waits for it."""
_FOLDER = typer.Option(help="Default: the project of this folder.", show_default=False)


@app.callback()
def mcp(
    context: typer.Context,
    persist: Annotated[bool, typer.Option("--persist", help="Let a server that was started stay.")] = False,
    project: Annotated[Path | None, _FOLDER] = None,
) -> None:
    """Offer the project's tasks to an agent over MCP.

    The server of the project is found, or started in the background until the last agent leaves.

    Example: harness mcp --persist
    """
    if context.invoked_subcommand is not None:
        return
    settings = settings_here(project)
    if find_spec("mcp") is None:
        from harness.bridge.mcp_face import NO_MCP

        fail(NO_MCP)
    try:
        asyncio.run(_serve(settings, persist=persist))
    except OSError as error:
        fail(f"{settings.root / '.harness'} cannot be used: {error.strerror or error}")


async def _serve(settings: Settings, *, persist: bool) -> None:
    """Serve until the input ends, or a signal comes; the process ends in it. Raises OSError."""
    from harness.bridge.mcp_face import serve_stdio
    from harness.cli.mcp_relay import ServerRelay
    from harness.resilience import SystemClock
    from harness.serve.users import ServerUse

    use = ServerUse(settings.root)
    if persist:
        use.persist()
    relay, over = ServerRelay(settings, SystemClock(), use, persist=persist), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    attending = asyncio.create_task(relay.attend())
    serving = asyncio.create_task(serve_stdio(relay.call, _input_lines(over)))  # type: ignore[arg-type]
    ended = asyncio.create_task(over.wait())
    await asyncio.wait({attending, serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait({serving}, timeout=LAST_WORDS)
    done = (each for each in (attending, serving) if each.done() and not each.cancelled())
    _leave(settings.root, use.leave(), next((each.exception() for each in done if each.exception()), None))


def _leave(root: Path, ended: int | None, error: BaseException | None) -> None:
    """Say it, and end the process at once: a thread that reads, or a call under way, must not delay it."""
    why = f"ends: {error!r}" if error is not None else "the input has ended"
    line = f"harness mcp (pid {os.getpid()}): {why}{f'; the server {ended} ends, too' if ended else ''}\n"
    with suppress(OSError):
        sys.stderr.write(line)
        sys.stderr.flush()
    with suppress(OSError):
        (root / _LOG).parent.mkdir(parents=True, exist_ok=True)
        with (root / _LOG).open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {line}")
    os._exit(1 if error is not None else 0)


async def _input_lines(over: asyncio.Event) -> AsyncIterator[str]:
    """The lines of standard input, for the library; it tells when they end."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        yield line.decode("utf-8", "replace")
    over.set()


@app.command()
def hook(project: Annotated[Path | None, _FOLDER] = None) -> None:
    """Pass on an event of a coding agent's hook from standard input.

    It never fails the hook.

    Example: echo '{"hook_event_name": "Stop", "session_id": "s1"}' | harness mcp hook
    """
    from harness.serve.address import addresses_of

    settings = settings_here(project)
    try:
        given = json.loads(sys.stdin.read() or "null")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        typer.echo("harness mcp hook: standard input has no JSON object", err=True)
        return
    for address in addresses_of(settings.root):
        if _told(settings.root, address, _hook_document(given, datetime.now(UTC))):
            return


def _hook_document(given: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The event of 001 that says what a hook of Claude Code was given; one of 001 stays as it is."""
    if "hook_event_name" not in given:
        return dict(given)
    own = ("hook_event_name", "session_id", "transcript_path")
    return {
        "event": given["hook_event_name"],
        "timestamp": now.isoformat(),
        "session_id": given.get("session_id", ""),
        "payload": {key: value for key, value in given.items() if key not in own},
    }


def _told(root: Path, address: Any, document: Mapping[str, Any]) -> bool:
    """Whether the server has taken the event, or said why not."""
    from harness.serve.start import asked
    from harness.serve.tokens import TokenScope

    try:
        status, said = asked(root, address, TokenScope.AGENT, _HOOK_WITHIN, "POST", "/hooks", document)
    except OSError as error:
        typer.echo(f"harness mcp hook: the server does not answer: {error}", err=True)
        return False
    if status not in (200, 404):
        typer.echo(f"harness mcp hook: {said[:1000]}", err=True)
    return status != 404
