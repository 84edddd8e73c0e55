"""`[tool.harness.services.<name>]`: the settings of a service, and the values of its placeholders. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Protocol, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.problems import did_you_mean

HIGHEST_PORT = 65_535
PORT_VARIABLE = "HARNESS_PORT_"
"""The prefix of an environment variable that sets a port; the service's name in capitals follows."""
AUTO = "auto"
_PLACEHOLDERS = ("port", "ports", "folder", "python")
_PLACEHOLDER = re.compile(r"\{(\{[a-z][a-z_]*(?::[^{}]*)?\})\}|\{([a-z][a-z_]*)(?::([^{}]*))?\}")


def _port_or_auto(value: Any) -> Any:
    """Return the value; raises one ValueError where pydantic would report one for the number and one for the word."""
    number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= HIGHEST_PORT
    if not number and value != AUTO:
        raise ValueError(f'is neither "{AUTO}" nor a port from 1 to {HIGHEST_PORT}')
    return value


def _reset_way(value: object) -> object:
    """Return the value; raises ValueError if it is neither a command nor "restart"."""
    command = isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value)
    if value is not None and value != "restart" and not command:
        raise ValueError('must be "restart", or a command as a list: ["{python}", "reset.py"]')
    return tuple(value) if isinstance(value, list) else value


_Port = Annotated[int | Literal["auto"], BeforeValidator(_port_or_auto)]


class ServiceSettings(Declaration):
    """One program that serves some hosts on ports of 127.0.0.1."""

    command: tuple[str, ...] | None = Field(
        None,
        description="Program and arguments, which a run starts and ends. Without it, others start the service, and a "
        "run waits until it answers.",
    )
    port: _Port | None = Field(
        None,
        description="Port of all hosts, when `hosts` is a list. Default: `auto`, a free one in each run.",
    )
    hosts: dict[str, _Port] = Field(description="Host names: a list (all on `port`), or a table host -> port.")
    health: str = Field(description="URL on one of the hosts that answers 200 when the service is ready.")
    identity: dict[str, str] = Field(
        default_factory=dict,
        description="Values that the JSON of the health answer must have: so no other program is taken for it.",
    )
    ready_timeout: float = Field(
        30.0, gt=0, le=300, description="Seconds from the start until the service must be healthy."
    )
    health_interval: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="Seconds between two health checks; 0: none.",
    )
    health_patience: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="Seconds for the last health check before a service counts as hanging, and is restarted.",
    )
    environment: dict[str, str] = Field(default_factory=dict, description="Additional environment variables.")
    cwd: str | None = Field(
        None,
        description="Folder in which it is started. Default: the project's.",
    )
    template: str | None = Field(
        None,
        description="Folder or file that is copied into the emptied `{folder}` at the start of a run and at resets, "
        "not after a crash.",
    )
    instances: int = Field(1, ge=1, le=100, description="Processes of the service, each with its own ports and folder.")
    reset: Annotated[tuple[str, ...] | Literal["restart"] | None, BeforeValidator(_reset_way)] = Field(
        None,
        description="How its first state is restored: a command, which runs in the project's folder, or `restart` "
        "(stop, copy `template` again, start).",
    )
    reset_timeout: float = Field(30.0, gt=0, le=300, description="Seconds for the command of `reset`.")

    @model_validator(mode="before")
    @classmethod
    def _hosts_as_a_table(cls, table: Any) -> Any:
        if not isinstance(table, dict) or not isinstance(hosts := table.get("hosts"), list | tuple | dict):
            return table
        if not hosts:
            raise ValueError('`hosts` is empty: name the host names that it serves, as in hosts = ["shop.test"]')
        if isinstance(hosts, dict):
            return table
        if wrong := [each for each in hosts if not isinstance(each, str)] or _doubles(hosts):
            raise ValueError(f"`hosts` must name each host once, as text (found: {wrong[0]!r})")
        port = table.get("port", AUTO)
        return {**table, "port": port, "hosts": dict.fromkeys(hosts, AUTO)}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.port is not None and set(self.hosts.values()) != {AUTO}:
            raise ValueError("`port` belongs to `hosts` as a list; in a table each host has its own")
        if self.command is None:
            self._check_without_command()
            return self
        for key, text in self._texts():
            _check_placeholders(key, text, self.hosts)
        if self.instances > 1 and any(port != AUTO for port in self.declared.values()):
            raise ValueError(
                f"`instances = {self.instances}` needs a port for each instance, so every port must be `auto`"
            )
        if uncovered := [host for host, port in self.declared.items() if port == AUTO and not self.says_port(host)]:
            raise ValueError(_port_not_passed(uncovered[0], self.health_host))
        return self

    def _check_without_command(self) -> None:
        if any(port == AUTO for port in self.declared.values()):
            raise ValueError(
                "a service without `command` is started by others, who know its port: `port` must be a number"
            )
        keys = {
            "cwd": self.cwd,
            "template": self.template,
            "reset": self.reset,
            "environment": self.environment or None,
        }
        given = [key for key, value in keys.items() if value is not None] + ["instances"] * (self.instances > 1)
        if given:
            raise ValueError(f"`{given[0]}` belongs to a service that the run starts, but `command` is missing")

    @property
    def declared(self) -> dict[str, int | str]:
        """Host name, in lower case -> its port, or `auto`."""
        return {host.lower(): port if self.port is None else self.port for host, port in self.hosts.items()}

    @property
    def health_host(self) -> str:
        """The host whose port is `{port}`; empty if the address names none."""
        try:
            return urlsplit(self.health).hostname or ""
        except ValueError:
            return ""

    def says_port(self, host: str) -> bool:
        """Return whether the command or the environment pass the port of this host to the program."""
        found = [match for _, text in self._texts() for match in _PLACEHOLDER.finditer(text)]
        told = {(match[2], (match[3] or "").lower()) for match in found if match[2]}
        if self.port is not None and any(name in ("port", "ports") for name, _ in told):
            return True
        return bool(told & {("ports", ""), ("port", host)}) or (host == self.health_host and ("port", "") in told)

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Key and text of all settings that may have placeholders."""
        yield from (("command", each) for each in self.command or ())
        yield from ((f"environment.{name}", each) for name, each in self.environment.items())
        yield from (("cwd", each) for each in (self.cwd,) if each is not None)
        yield from (("reset", each) for each in self.reset or () if self.reset != "restart")

    def with_port(self, port: int | str, host: str = "") -> ServiceSettings:
        """Return a copy with another port, for one host or all. ValueError if the program would not receive it."""
        declared = self.declared
        if host and host not in declared:
            raise ValueError(
                f"there is no host `{host}`; {did_you_mean(host, declared) or f'there are: {_list_or_none(declared)}'}"
            )
        if not host and self.port is None and len(declared) > 1:
            raise ValueError(f"it has {len(declared)} ports: say which one, as in `NAME:{next(iter(declared))}=PORT`")
        named = host or next(iter(declared))
        if self.command is not None and not self.says_port(named):
            raise ValueError(_port_not_passed(named, self.health_host))
        given = self.model_dump(exclude_unset=True)
        alone = self.port is not None
        change = {"hosts": list(self.hosts), "port": port} if alone else {"hosts": {**declared, named: port}}
        return ServiceSettings.model_validate({**given, **change})


def placeholders_in(text: str) -> list[str]:
    """The names of the placeholders in a text."""
    return [name for name, _ in targets_in(text)]


def targets_in(text: str) -> list[tuple[str, str | None]]:
    """The placeholders in a text: the name of each, and what follows its colon."""
    return [(match[2], match[3]) for match in _PLACEHOLDER.finditer(text) if match[2]]


class Values(Protocol):
    """Placeholder, with what follows its colon in lower case -> its value."""

    def __getitem__(self, placeholder: str, /) -> str: ...


def expand(text: str, values: Values) -> str:
    """Replace each placeholder by its value; `{{port}}` is the text `{port}`."""

    def value(match: re.Match[str]) -> str:
        name = match[2] if match[3] is None else f"{match[2]}:{match[3].lower()}"
        return match[1] or values[name]

    return _PLACEHOLDER.sub(value, text)


def overridden(services: Mapping[str, ServiceSettings], ports: Mapping[str, str]) -> dict[str, ServiceSettings]:
    """The services with ports from outside: `NAME` or `NAME:HOST` -> port. Raises ValueError."""
    changed = dict(services)
    for target, text in ports.items():
        name, _, host = target.partition(":")
        if name not in changed:
            hint = did_you_mean(name, changed) or f"there are: {_list_or_none(changed)}"
            raise ValueError(f"{target}={text}: there is no service `{name}` in [tool.harness.services]; {hint}")
        try:
            port = int(text) if text.isascii() and text.isdigit() else text
            changed[name] = changed[name].with_port(_port_or_auto(port), host.lower())
        except ValidationError as error:
            raise ValueError(f"{target}={text}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
        except ValueError as error:
            raise ValueError(f"{target}={text}: {error}") from None
    return changed


def ports_of_environment(services: Mapping[str, ServiceSettings], environ: Mapping[str, str]) -> dict[str, str]:
    """Name of a service -> the port in `HARNESS_PORT_<SERVICE>`. Raises ValueError for an unknown service."""
    names = {re.sub(r"[^A-Z0-9]", "_", name.upper()): name for name in services}
    set_here = {key.removeprefix(PORT_VARIABLE): text for key, text in environ.items() if key.startswith(PORT_VARIABLE)}
    for key in set_here if services else ():
        if key not in names:
            known = _list_or_none([f"{PORT_VARIABLE}{name}" for name in names])
            raise ValueError(f"{PORT_VARIABLE}{key} matches no service in [tool.harness.services]; there are: {known}")
    return {names[key]: text for key, text in set_here.items() if key in names}


def _check_placeholders(key: str, text: str, hosts: Mapping[str, object]) -> None:
    known = {host.lower() for host in hosts}
    for match in _PLACEHOLDER.finditer(text):
        name, host = match[2], match[3]
        if name is None:
            continue
        if name not in _PLACEHOLDERS or (host is not None and name != "port"):
            meant = (
                did_you_mean(name, _PLACEHOLDERS) or f"there are: {', '.join(f'{{{each}}}' for each in _PLACEHOLDERS)}"
            )
            raise ValueError(f"{key}: unknown placeholder `{match[0]}` ({meant}); `{{{match[0]}}}` is that text itself")
        if host is not None and host.lower() not in known:
            meant = did_you_mean(host, known) or f"there are: {_list_or_none(known)}"
            raise ValueError(f"{key}: `{match[0]}` names no host of this service ({meant})")


def _port_not_passed(host: str, health_host: str) -> str:
    text = "{port}" if host == health_host else f"{{port:{host}}}"
    return (
        f"the port of {host} is set from outside, but the program does not learn it: write `{text}` into `command` or "
        "`environment` where the port belongs"
    )


def _doubles(names: list[str] | tuple[str, ...]) -> list[str]:
    lower = [name.lower() for name in names]
    return [name for name in names if lower.count(name.lower()) > 1]


def _list_or_none(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
