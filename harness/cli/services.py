"""`harness services`: the programs of `[tool.harness.services]`, looked at, started, stopped, read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.chosen_services import Chosen, chosen_services
from harness.cli.ending import JSON_LINES, fail
from harness.cli.service_lines import document, lines
from harness.environment.ownership import State, log_file
from harness.environment.persistence import Keeping, Persisted, keep
from harness.environment.services import Services
from harness.environment.status import Found, follow, last_lines
from harness.recovery.failure import Failed
from harness.reporting.files import shown_path
from harness.resilience import SystemClock

NOT_UP = 3
"""Exit code of `status`, as of an init script: not everything runs."""

AWAITED = 3
"""So many times its `ready_timeout` one is waited for that another command starts."""

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Look at, start, stop and read the sites' programs."
)

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Of [tool.harness.services]; none: all.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]


@app.command()
def status(names: Names = None, as_json: AsJson = False) -> None:
    """Say how the services are: state, pid, ports, uptime, restarts, who keeps them, their log.

    Exit code: 0 all are up, 3 one is not, 1 a name or a setting is wrong.

    Example: harness services status
    """
    found = chosen_services(names, kept=True).look()
    _tell(found, as_json)
    raise typer.Exit(0 if all(each.state is State.UP for each in found) else NOT_UP)


@app.command()
def start(
    names: Names = None,
    persist: Annotated[bool, typer.Option("--persist", help="Keep them when this command is over.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start the services that do not run, and keep them: until Ctrl-C, or (--persist) until `harness services stop`.

    With --persist a small process stays with each of them: what dies or hangs is started again, and runs of
    pytest reuse it. What runs already is left to whoever keeps it.
    Exit code: 0 all are up, 1 one cannot be started, has failed for good, or is not known.

    Example: harness services start --persist
    """
    chosen = chosen_services(names)
    if persist:
        _persist(chosen)
        _tell(chosen.look(), as_json)
    else:
        _attend(chosen, as_json)


@app.command()
def stop(names: Names = None, as_json: AsJson = False) -> None:
    """End the services that `start --persist` has left running, and nothing else.

    Those too that have been renamed or removed in pyproject.toml since.

    Exit code: 0 none of them runs any more, 1 one does not end, or is not known.

    Example: harness services stop
    """
    chosen = chosen_services(names, kept=True)
    try:
        ended = asyncio.run(_stop(chosen))
    except TimeoutError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps({"stopped": [name for name, was in ended.items() if was]}))
        return
    for name, was in ended.items():
        typer.echo(f"{name}: {'stopped' if was else 'not started with `start --persist`, so it was not stopped'}")


@app.command()
def logs(
    names: Names = None,
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last lines.")] = 20,
    wait: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_LINES)] = False,
) -> None:
    """Show the end of what the services have written.

    Exit code: 0, or 1 when a name is not known or (without --follow) nothing was ever written.

    Example: harness services logs shop -n 50 --follow
    """
    chosen = chosen_services(names)
    files = {name: log_file(chosen.logs, name) for name in chosen.settings}
    if not wait and not any(file.is_file() for file in files.values()):
        fail(f"no log yet: {', '.join(shown_path(file) for file in files.values())}")
    several = len(files) > 1
    for name, file in files.items():
        for line in last_lines(file, count):
            _tell_line(name, line, several, as_json)
    if wait:
        asyncio.run(_follow(files, several, as_json))


async def _follow(files: Mapping[str, Path], several: bool, as_json: bool) -> None:
    async for name, line in follow(files, SystemClock()):
        _tell_line(name, line, several, as_json)


def _tell_line(name: str, line: str, several: bool, as_json: bool) -> None:
    text = json.dumps({"service": name, "line": line}) if as_json else f"{name} | {line}" if several else line
    print(text, flush=True)


def _tell(found: Sequence[Found], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([document(each) for each in found], indent=2))
        return
    for each in found:
        typer.echo(lines(each))


def _persist(chosen: Chosen) -> None:
    """Those that are not kept yet, all at once; a Ctrl-C leaves none of them."""
    kept = {name: Persisted(name, chosen.logs, SystemClock()) for name in chosen.settings}
    starting = list[Keeping]()
    try:
        there = [name for name, each in kept.items() if each.keeper()]
        for name in kept:
            if name not in there:
                starting.append(Keeping(name, chosen.root, chosen.logs))
        problems = [_problem(keeping, kept[keeping.name]) for keeping in starting]
        problems += [_problem_elsewhere(chosen, kept[name]) for name in there]
    except KeyboardInterrupt:
        for keeping in starting:
            keeping.abandon()
        raise
    if any(problems):
        fail("\n".join(filter(None, problems)))


def _problem_elsewhere(chosen: Chosen, kept: Persisted) -> str:
    """Of one that another command has begun to keep: it may be starting now."""
    try:
        asyncio.run(kept.up(AWAITED * chosen.settings[kept.name].ready_timeout))
    except ValueError as error:
        return str(error)
    return ""


def _problem(keeping: Keeping, kept: Persisted) -> str:
    try:
        started = keeping.started()
    except ValueError as error:
        return str(error)
    if not started and not kept.keeper():
        typer.echo(f"{keeping.name}: runs already, and is left to whoever keeps it; `stop` will not end it", err=True)
    return ""


def _attend(chosen: Chosen, as_json: bool) -> None:
    """Keep them in this process."""
    services = Services(chosen.settings, root=chosen.root, logs=chosen.logs, clock=SystemClock(), kept=True)

    def announce() -> None:
        lines_ = json.dumps({"services": services.status()}) if as_json else "\n".join(services.status())
        print(f"{lines_}{'' if as_json else _hint(services)}", flush=True)

    try:
        failure = asyncio.run(keep(services, announce))
    except Failed as failed:
        failure = failed.failure
    if failure:
        fail(failure.message)


def _hint(services: Services) -> str:
    return "\nCtrl-C ends what was started here." if services.started else "\nAll of them run already."


async def _stop(chosen: Chosen) -> dict[str, bool]:
    clock = SystemClock()
    stopping = (Persisted(name, chosen.logs, clock).stop() for name in chosen.names)
    return dict(zip(chosen.names, await asyncio.gather(*stopping), strict=True))
