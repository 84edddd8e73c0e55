"""`harness serve`: the server of a project, with the live page of its runs, and its tasks for agents."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from errno import ENOSPC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from harness.cli.ending import fail
from harness.cli.project import settings_here
from harness.model.serve_settings import ServeSettings
from harness.model.settings import Settings
from harness.reporting.files import shown_path
from harness.serve.address import AlreadyServedError, ServeAddress, address_of, only_server, port_of_a_killed_server
from harness.serve.tokens import KEY, Tokens, TokenScope, live_address
from harness.serve.users import is_used

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from harness.reporting.live.pages import LiveView
    from harness.resilience import Clock
    from harness.runner.bridging import BridgeHost
    from harness.runner.requested import RequestedRuns

app = typer.Typer(help="Serve a page that shows the project's runs as they happen.", invoke_without_command=True)
_FOR = re.compile(r"([0-9]{1,5})(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TAKEN_WITHIN = 60.0
"""Seconds for which a started task waits for the session that has asked for it."""
_NOT_RUNNING = 3
"""The exit code of `status` without a server, as of an init script."""


def _tokens_of(settings: Settings) -> Tokens:
    """The tokens of the project; ends the command if its key cannot be read or made."""
    try:
        return Tokens.of(settings.root)
    except OSError as error:
        fail(_no_key(settings, error))


def _no_key(settings: Settings, error: OSError) -> str:
    why = f"{shown_path(settings.root / KEY)}: {error.strerror or error}{_space(error)}"
    return f"the key of the server's tokens cannot be used: {why}"


def _space(error: OSError) -> str:
    return "; free space on the disk" if error.errno == ENOSPC else ""


def _address(settings: Settings, address: ServeAddress) -> str:
    """The address to open in a browser; ends the command if the key of tokens cannot be used."""
    try:
        return live_address(settings.root, address.url, datetime.now(UTC))
    except OSError as error:
        fail(_no_key(settings, error))


@app.callback()
def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: `serve.host`, 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one. Default: `serve.port`, 0.", min=0, max=65535)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen without TLS on an address that other machines reach.")
    ] = False,
    page_only: Annotated[bool, typer.Option("--page-only", help="Only show runs: take nothing from agents.")] = False,
    persist: Annotated[
        bool, typer.Option("--persist", help="Serve in the background until `harness serve stop`.")
    ] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    idle: Annotated[
        float | None,
        typer.Option(help="End after so many seconds without a viewer and without a run.", min=1, show_default=False),
    ] = None,
    while_used: Annotated[bool, typer.Option("--while-used", hidden=True)] = False,
) -> None:
    """Serve a page that shows the project's runs as they happen, only on this machine, until Ctrl-C.

    Example: harness serve --open
    """
    if context.invoked_subcommand is not None:
        return
    settings = settings_here()
    given = {name: each for name, each in (("host", host), ("port", port)) if each is not None}
    settings = settings.model_copy(update={"serve": settings.serve.model_copy(update=given)})
    _check_reach(settings.serve, insecure)
    if (running := address_of(settings.root)) is not None:
        _reuse(settings, running, open_it)
    elif persist:
        flags = {"--insecure": insecure, "--page-only": page_only}
        _keep(settings, [flag for flag, given in flags.items() if given], idle, open_it)
    else:
        try:
            with only_server(settings.root):
                _serve(settings, open_it, ServeLimits(idle, page_only, while_used))
        except AlreadyServedError:
            typer.echo("a server of this project is being started by another process")
        except OSError as error:
            why = f"{error.strerror or error}{_space(error)}"
            fail(f"{shown_path(settings.root / '.harness')} cannot be written: {why}")


class ServeLimits(Struct, frozen=True):
    """What a server does not do for ever, and not for everybody."""

    idle: float | None
    page_only: bool
    while_used: bool
    """Whether it ends with the last `harness mcp` that uses it."""


def _check_reach(serve: ServeSettings, insecure: bool) -> None:
    """End the command if other machines would reach the server without TLS."""
    if not serve.is_local and serve.tls_cert is None and not insecure:
        fail(
            f"other machines reach {serve.host}, and tokens would be sent to it unencrypted: set `tls_cert` and "
            "`tls_key` in [tool.harness.serve], or use --insecure in a network that you trust"
        )


def _reuse(settings: Settings, running: ServeAddress, open_it: bool) -> None:
    wanted = settings.serve
    if wanted.port not in (0, running.port) or wanted.host != running.host:
        fail(
            f"a server of this project runs already, pid {running.pid}, at {running.url}: `harness serve stop` ends it"
        )
    address = _address(settings, running)
    typer.echo(f"a server of this project runs already (pid {running.pid}): {address}")
    if open_it:
        typer.launch(address)


def _keep(settings: Settings, flags: list[str], idle: float | None, open_it: bool) -> None:
    from harness.resilience import SystemClock
    from harness.serve.start import NotServedError, serving

    place = ["--host", settings.serve.host, "--port", str(settings.serve.port)]
    try:
        found = asyncio.run(serving(settings.root, SystemClock(), idle, [*place, *flags]))
    except NotServedError as error:
        fail(str(error))
    address = _address(settings, found)
    typer.echo(f"pid {found.pid} serves {address} until `harness serve stop`")
    if open_it:
        typer.launch(address)


def _serve(settings: Settings, open_it: bool, limits: ServeLimits) -> None:
    from harness.reporting.live.pages import LiveView
    from harness.resilience import SystemClock
    from harness.serve.server import CannotListenError, ProjectServer, check_certificate

    tokens, clock, wanted = _tokens_of(settings), SystemClock(), settings.serve
    live = LiveView(settings.root, settings.root / settings.artifacts)
    certificate = wanted.certificate(settings.root)
    try:
        check_certificate(certificate)
        listener = _listener(settings)
    except CannotListenError as error:
        fail(f"{error}; port 0 takes a free one" if wanted.port else str(error))
    except ValueError as error:
        fail(str(error))

    def ready() -> None:
        found = address_of(settings.root)
        if found is not None:
            address = _address(settings, found)
            typer.echo(f"live view at {address} (Ctrl-C ends)")
            if open_it:
                typer.launch(address)

    async def serving() -> None:
        async with _agents_of(settings, limits) as agents:
            server = ProjectServer(
                settings.root, [*live.routes, *agents.routes], clock, tokens, read_only=limits.page_only
            )
            server.stopping = agents.stop
            needed = partial(is_used, settings.root) if limits.while_used else _needed(live, agents, clock, limits.idle)
            await server.run(listener, ready, needed, host=wanted.host, certificate=certificate)

    asyncio.run(serving())


def _listener(settings: Settings) -> socket.socket:
    """Listen as the settings say. Without a port, at that of a killed server, if it is still free."""
    from harness.serve.server import CannotListenError, bind

    wanted = settings.serve
    if not wanted.port and (before := port_of_a_killed_server(settings.root)):
        with suppress(CannotListenError):
            return bind(wanted.host, before)
    return bind(wanted.host, wanted.port)


def _needed(live: LiveView, agents: ServedAgents, clock: Clock, idle: float | None) -> Callable[[], bool]:
    """Whether the server is still needed: always, or while somebody looks, an agent is there or a run goes on."""
    last = clock.now()

    def is_needed() -> bool:
        nonlocal last
        if idle is not None and (agents.busy or live.viewers or live.something_runs()):
            last = clock.now()
        return idle is None or clock.now() - last < idle

    return is_needed


@asynccontextmanager
async def _agents_of(settings: Settings, limits: ServeLimits) -> AsyncIterator[ServedAgents]:
    """The bridge of the server, for agents that take the project's tasks; without routes if it only shows pages."""
    if limits.page_only:
        yield ServedAgents()
        return
    from harness.resilience import SystemClock
    from harness.runner.bridging import BridgeHost
    from harness.runner.requested import RequestedRuns, report_dead_tasks

    for told in await asyncio.to_thread(report_dead_tasks, settings):  # before a session goes on here
        typer.echo(told)
    runs = RequestedRuns(settings.root, settings.serve.workers, typer.echo)
    host = BridgeHost(settings, SystemClock(), runs.emit, _TAKEN_WITHIN)
    runs.serve(host)
    if host.note:
        typer.echo(host.note)
    agents = ServedAgents((host, runs))
    try:
        yield agents
    finally:
        await agents.close()


class ServedAgents:
    """What a server does for agents; nothing without a bridge."""

    def __init__(self, served: tuple[BridgeHost, RequestedRuns] | None = None) -> None:
        self._served = served
        self._stopping: asyncio.Task[None] | None = None
        self.routes: list[BaseRoute] = served[0].routes if served else []

    @property
    def busy(self) -> bool:
        """Whether an agent is there, or a task runs."""
        if self._served is None:
            return False
        host, runs = self._served
        return any(each.attached for each in host.hub.sessions.values()) or runs.busy

    def stop(self) -> None:
        """Begin to end tasks and sessions, so that their clients still hear of it."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())

    async def _stop(self) -> None:
        if self._served is not None:
            host, runs = self._served
            await runs.close()
            await host.close(resumable=True)

    async def close(self) -> None:
        """End them. Bounded."""
        self.stop()
        if self._stopping is not None:
            await self._stopping


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False) -> None:
    """Show whether a server of this project runs, and its address."""
    settings = settings_here()
    found = address_of(settings.root)
    if as_json:
        typer.echo(json.dumps({"running": found is not None, "pid": found and found.pid, "url": found and found.url}))
    elif found is None:
        typer.echo("no server of this project runs: `harness serve` starts one")
    else:
        typer.echo(f"pid {found.pid} serves {_address(settings, found)}")
    if found is None:
        raise typer.Exit(_NOT_RUNNING)


@app.command()
def stop() -> None:
    """End the server of this project."""
    settings = settings_here()
    found = address_of(settings.root)
    if found is None:
        typer.echo("no server of this project runs")
        return
    os.kill(found.pid, signal.SIGTERM)
    typer.echo(f"the server (pid {found.pid}) ends")


@app.command()
def token(
    scope: Annotated[
        str, typer.Option(help="What it allows: `view`, `agent` (also to take tasks) or `control` (everything).")
    ] = "view",
    valid: Annotated[str, typer.Option("--for", help="How long it is valid, such as 30m, 8h or 7d.")] = "8h",
) -> None:
    """Print a token for the server of this project.

    Example: harness serve token --scope view --for 8h
    """
    names = [each.name.lower() for each in TokenScope]
    if scope not in names:
        fail(f"there is no scope {scope!r}; there are: {', '.join(names)}")
    if (length := _FOR.fullmatch(valid)) is None:
        fail(f"--for {valid!r} is no duration: write a number and s, m, h or d, as in 8h")
    lasts = timedelta(**{_UNITS[length[2]]: int(length[1])})
    typer.echo(_tokens_of(settings_here()).issue(TokenScope[scope.upper()], datetime.now(UTC), lasts))


@app.command()
def client() -> None:
    """Print the JavaScript client of the bridge.

    Example: harness serve client > bridge.mjs
    """
    import harness.bridge.client

    shipped = Path(harness.bridge.client.__file__).with_name("bridge.mjs")  # in the wheel; a clone has it elsewhere
    file = shipped if shipped.is_file() else shipped.parents[3] / "clients/js/bridge.mjs"
    typer.echo(file.read_text("utf-8"), nl=False)
