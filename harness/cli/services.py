"""`harness services`: lists, starts and stops the programs of `[tool.harness.services]`, and shows their logs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct, field
from msgspec.structs import asdict

from harness.cli.ending import AsJson, fail
from harness.cli.logs import AsJsonLines, Count, Wait, show_logs
from harness.cli.project import settings_here
from harness.environment.ownership import LOGS, Held, ServiceState, log_file
from harness.environment.persistence import PersistedServices, StartingDaemon, forgotten, keep
from harness.environment.services import Services
from harness.environment.status import ServiceStatus, kept_only, statuses
from harness.model.service_settings import ServiceSettings
from harness.recovery.failure import Failed
from harness.reporting.files import shown_path
from harness.reporting.redaction import redactor_of
from harness.resilience import SystemClock
from harness.spec.problems import did_you_mean


class Chosen(Struct, frozen=True):
    """The chosen services, by their names in pyproject.toml or in the files of their daemons."""

    settings: Mapping[str, ServiceSettings]
    root: Path
    forgotten: Mapping[str, Held] = field(default_factory=dict)
    """The services that are kept although they are no longer in the settings."""

    @property
    def logs(self) -> Path:
        return self.root / LOGS

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.settings, *self.forgotten)

    def look(self) -> tuple[ServiceStatus, ...]:
        clock = SystemClock()
        found = asyncio.run(statuses(self.settings, self.logs, clock))
        return (*found, *(kept_only(name, held, self.logs, clock) for name, held in self.forgotten.items()))


def _chosen_services(names: Sequence[str] | None, *, kept: bool = False) -> Chosen:
    """The services with these names, or all; `kept`: also those only their daemon knows. Ends for an unknown name."""
    settings = settings_here()
    logs = settings.root / LOGS
    alone = forgotten(logs, settings.services, SystemClock()) if kept else {}
    known = (*settings.services, *alone)
    if not known:
        fail(f"there is no [tool.harness.services.<name>] in {shown_path(settings.root / 'pyproject.toml')}")
    for name in names or ():
        if name not in known:
            there = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            fail(f"no service `{name}` in [tool.harness.services]; {there}")
    wanted = names or known
    chosen = {name: settings.services[name] for name in wanted if name in settings.services}
    try:
        Services(chosen, root=settings.root, logs=logs, clock=SystemClock())
    except ValueError as error:
        fail(str(error))
    return Chosen(chosen, settings.root, {name: alone[name] for name in wanted if name in alone})


def _lines(found: ServiceStatus) -> str:
    port = f", port {found.port}" if found.port is not None else ""
    listener = f", pid {found.pid}" if found.pid is not None else ""
    uptime = f" for {_duration(found.uptime)}" if found.uptime is not None and found.state is ServiceState.UP else ""
    restarts = f", {found.restarts} restarts" if found.owner is not None else ""
    facts = {
        "problem": found.problem,
        "hosts": " ".join(f"{host}:{port}" for host, port in found.hosts.items()),
        "runs": found.command,
        "kept by": _daemon(found),
        "log": shown_path(found.log) if found.log.is_file() else "",
    }
    told = "".join(f"\n  {label:8} {text}" for label, text in facts.items() if text)
    state = "not started" if found.state is ServiceState.DOWN and not found.problem else found.state
    return f"{found.name}: {state}{uptime}{port}{listener}{restarts}{told}"


def _daemon(found: ServiceStatus) -> str:
    if found.persisted:
        return f"pid {found.owner}, until `harness services stop`"
    if found.owner is not None:
        return f"pid {found.owner} ({found.owner_command}), and ends with it"
    return "no process of this project; it was started by hand" if found.state is ServiceState.UP else ""


def _document(found: ServiceStatus) -> dict[str, Any]:
    return {**asdict(found), "hosts": dict(found.hosts), "state": str(found.state), "log": str(found.log)}


def _duration(seconds: float) -> str:
    """`42 s`, `3 min`, `2.5 h`, `4 d`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"


_NOT_UP = 3
"""The exit code of `status` if not every service runs, as of an init script."""

_AWAITED = 3
"""The multiple of `ready_timeout` for which a service started by another command is awaited."""

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Show, start and stop the services, and read their logs."
)

_Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Default: all services.")]


@app.command()
def status(names: _Names = None, as_json: AsJson = False) -> None:
    """Show state, pid, ports, uptime, owner and log of the services.

    Exit code: 0 all are up, 3 one is not up, 1 a name or a setting is wrong.

    Example: harness services status
    """
    found = _chosen_services(names, kept=True).look()
    _tell(found, as_json)
    raise typer.Exit(0 if all(each.state is ServiceState.UP for each in found) else _NOT_UP)


@app.command()
def start(
    names: _Names = None,
    persist: Annotated[
        bool, typer.Option("--persist", help="Keep the services running after this command ends.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the services that do not run, until Ctrl-C.

    With --persist a small process stays with each service and restarts it when it dies or hangs; runs of pytest reuse
    it.
    Exit code: 1 when one cannot be started, has failed permanently, or is not known.

    Example: harness services start --persist
    """
    chosen = _chosen_services(names)
    if persist:
        _persist(chosen)
        _tell(chosen.look(), as_json)
    else:
        _attend(chosen, as_json)


@app.command()
def stop(names: _Names = None, as_json: AsJson = False) -> None:
    """Stop the services that `start --persist` keeps running.

    Exit code: 1 when one does not stop or is not known.

    Example: harness services stop
    """
    chosen = _chosen_services(names, kept=True)
    try:
        ended = asyncio.run(_stop(chosen))
    except TimeoutError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps({"stopped": [name for name, was in ended.items() if was]}))
        return
    for name, was in ended.items():
        typer.echo(f"{name}: {'stopped' if was else 'not stopped, because `start --persist` did not start it'}")


@app.command()
def logs(names: _Names = None, count: Count = 20, wait: Wait = False, as_json: AsJsonLines = False) -> None:
    """Show the end of the services' logs.

    Exit code: 1 when a name is not known, or there is no log yet (without --follow).

    Example: harness services logs shop -n 50 --follow
    """
    chosen = _chosen_services(names)
    files = {name: log_file(chosen.logs, name) for name in chosen.settings}
    clean = redactor_of(settings_here(), (), os.environ).text
    show_logs(files, "service", count, wait=wait, as_json=as_json, clean=clean)


def _tell(found: Sequence[ServiceStatus], as_json: bool) -> None:
    typer.echo(json.dumps(list(map(_document, found)), indent=2) if as_json else "\n".join(map(_lines, found)))


def _persist(chosen: Chosen) -> None:
    """Start daemons for those without one, in parallel; after Ctrl-C none is left."""
    kept = {name: PersistedServices(name, chosen.logs, SystemClock()) for name in chosen.settings}
    starting = list[StartingDaemon]()
    try:
        there = [name for name, each in kept.items() if each.daemon()]
        for name in (each for each in kept if each not in there):
            starting.append(StartingDaemon(name, chosen.root, chosen.logs))
        problems: list[str] = []
        for keeping in starting:
            with _noted(problems):
                if not keeping.await_ready() and not kept[keeping.name].daemon():
                    told = "it runs already, kept by another process; `stop` will not end it"
                    typer.echo(f"{keeping.name}: {told}", err=True)
        for name in there:  # another command has begun to keep it, and may be starting it now
            with _noted(problems):
                asyncio.run(kept[name].await_up(_AWAITED * chosen.settings[name].ready_timeout))
    except KeyboardInterrupt:
        for keeping in starting:
            keeping.abandon()
        raise
    if problems:
        fail("\n".join(problems))


@contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        problems.append(str(error))


def _attend(chosen: Chosen, as_json: bool) -> None:
    services = Services(chosen.settings, root=chosen.root, logs=chosen.logs, clock=SystemClock(), kept=True)

    def announce() -> None:
        hint = "Ctrl-C ends what was started here." if services.started else "All of them run already."
        found = services.status()
        print(json.dumps({"services": found}) if as_json else "\n".join([*found, hint]), flush=True)

    try:
        failure = asyncio.run(keep(services, announce))
    except Failed as failed:
        failure = failed.failure
    if failure:
        fail(failure.message)


async def _stop(chosen: Chosen) -> dict[str, bool]:
    clock = SystemClock()
    stopping = (PersistedServices(name, chosen.logs, clock).stop() for name in chosen.names)
    return dict(zip(chosen.names, await asyncio.gather(*stopping), strict=True))
