"""Where a tool server is, by its settings: how a connection to it is made, and what its state file says of it."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from harness.model.tool_settings import REFERENCE, ToolServerSettings, header_problem
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.resilience.owner import Owner
from harness.resilience.process import Program
from harness.spec.problems import join_or
from harness.tools.catalogue import effect_of
from harness.tools.exchange import Connect, Connection, ConnectionEvents
from harness.tools.server import Connector, ToolServer
from harness.tools.statefile import KeptState, ListedTool

PYTHON: Final = "{python}"
_LOGS: Final = Path(".harness/logs")


def log_of(root: Path, server: str) -> Path:
    """The file for the standard error of a server with a `command`."""
    return root / _LOGS / f"tool-{server}.log"


class ServerPlace(Struct, frozen=True):
    """A server as the settings name it, seen from one slot."""

    name: str
    settings: ToolServerSettings
    root: Path
    hosts: Mapping[str, int]
    """Host name, in lower case -> port on 127.0.0.1; read at each request."""
    clock: Clock
    clean: Callable[[str], str] = str
    """Takes secrets out of what its process writes to its standard error."""

    def argv(self) -> tuple[str, ...]:
        assert self.settings.command is not None
        return tuple(sys.executable if word == PYTHON else word for word in self.settings.command)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What the environment of the process has in addition. Raises Failed for a variable that is not set."""
        own = self.settings.environment
        return {key: self._filled(value, f"environment.{key}", environ) for key, value in own.items()}

    def headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The headers of each request. Raises Failed for a variable that is not set or a value that cannot be sent."""
        own = self.settings.headers
        found = {key: self._filled(value, f"headers.{key}", environ) for key, value in own.items()}
        for key, value in found.items():
            if problem := header_problem(value):
                raise Failed(self._unfit(key, problem, environ))
        return found

    def _unfit(self, key: str, problem: str, environ: Mapping[str, str]) -> Failure:
        """The failure of a header that cannot be sent; its value is not told."""
        names = REFERENCE.findall(self.settings.headers[key])
        empty = [name for name in names if not environ[name].strip()]
        why = f"the variable {empty[0]} is empty" if empty else f"its value {problem}"
        table = f"[tool.harness.tools.{self.name}]"
        message = f"Tool server `{self.name}`: `headers.{key}` of {table} cannot be sent: {why}"
        advice = f"Look at the value of {join_or(empty or names)} in the environment of the run."
        return Failure("TOOL_AUTH", message, details={"server": self.name}, advice=advice)

    def _filled(self, text: str, key: str, environ: Mapping[str, str]) -> str:
        if missing := [name for name in REFERENCE.findall(text) if name not in environ]:
            table = f"[tool.harness.tools.{self.name}]"
            message = f"Tool server `{self.name}`: the variable {missing[0]} is not set, which `{key}` of {table} names"
            advice = f"Set it in the environment of the run: `export {missing[0]}=...`."
            raise Failed(Failure("TOOL_AUTH", message, details={"server": self.name}, advice=advice))
        return REFERENCE.sub(lambda found: environ[found[1]], text)

    @property
    def folder(self) -> Path:
        return self.root / (self.settings.cwd or ".")


def connector(place: ServerPlace, environ: Mapping[str, str]) -> Connector:
    """A function that makes connections to the server; it imports the SDK, in threads, since that takes 0.6 s."""

    async def connect(events: ConnectionEvents) -> Connection:
        if find_spec("mcp") is None:
            message = f"Tool server `{place.name}` cannot be used, since the package `mcp` is not installed"
            details, advice = {"server": place.name}, "Install it: pip install 'pytest-taskspec[mcp]'."
            raise Failed(Failure("INVALID_INPUT", message, details=details, advice=advice))
        make = await _connect_of(place, environ)
        await asyncio.to_thread(import_module, "harness.tools.session")
        return make(events)

    return connect


async def _connect_of(place: ServerPlace, environ: Mapping[str, str]) -> Connect:
    if place.settings.url is not None:
        headers = place.headers(environ)
        await asyncio.to_thread(import_module, "harness.tools.http")
        from harness.tools.http import over_http

        return over_http(place.settings.url, headers, lambda: place.hosts, place.clock)
    from harness.tools.stdio import over_stdio

    program = Program(place.argv(), place.environment(environ), place.folder)
    return over_stdio(program, log_of(place.root, place.name), place.clock, place.clean)


def kept_state(server: ToolServer, run: str, clean: Callable[[str], str] = str) -> KeptState:
    """What people are told of the server. `clean` takes secrets out of what it has said itself."""
    phase, info, settings = server.phase, server.info, server.settings
    command = [word if word == PYTHON else shlex.quote(word) for word in settings.command or ()]
    return KeptState(
        server=server.name,
        place=" ".join(command) or _address(str(settings.url)),
        stdio=server.stdio,
        state=phase.state,
        reason=clean(phase.reason),
        since=phase.since.isoformat(),
        run=run,
        owner=Owner.this(),
        crashes=server.crashes,
        pid=server.pid,
        introduced=clean(f"{info.name} {info.version}".strip()) if info else "",
        protocol=info.protocol if info else "",
        tools=tuple(
            ListedTool(
                clean(each.name),
                effect_of(each.name, each.hints, settings),
                clean(each.description),
                settings.allows(each.name),
            )
            for each in server.catalogue.tools
        ),
        stale=server.catalogue.stale,
    )


def _address(url: str) -> str:
    """The address without what may be a secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
