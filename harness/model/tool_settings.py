"""`[tool.harness.tools.<name>]`: the settings of a tool server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from harness.model.agent_settings import AgentSettings, OwnBreakerTable
from harness.model.tools import PAGE
from harness.recovery.declaration import Declaration
from harness.spec.problems import did_you_mean, join_or
from harness.spec.step_base import EffectClass

_OF_PAGES = frozenset({"timeout", "timeouts", "effects", "allow", "agents"})
"""The keys that a table for the page's own tools may have."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""Names of files begin with it, and in `server.tool` a dot ends it."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header (RFC 9110)."""
_OWN_HEADERS = frozenset(
    {"accept", "connection", "content-length", "content-type", "host", "transfer-encoding"}
    | {"last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"}
)
"""Headers that the client of MCP sets."""
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
_ANY_REFERENCE = re.compile(r"\$\{[A-Za-z_]+:[^}]*\}")
_Limit = Annotated[float, Field(gt=0, le=3600)]


class ToolServerSettings(Declaration):
    """`[tool.harness.tools.<name>]`: a server of tools (MCP), or with the name `page` the tools of the site itself."""

    command: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Program and arguments of a server over standard input and output, which a run starts and ends. "
        "`{python}` is the interpreter.",
    )
    url: str | None = Field(None, description="Address of a server with Streamable HTTP, also on a host of `services`.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers of each request to `url`. `${env:NAME}` is a variable."
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="More environment variables of `command`, as in `headers`."
    )
    cwd: str | None = Field(
        None,
        description="Folder in which `command` is started. Default: the project's.",
    )
    ready_timeout: float = Field(30.0, gt=0, le=300, description="Seconds to start it and connect to it.")
    timeout: _Limit = Field(120.0, description="Seconds for one call; the step's own limit counts too.")
    timeouts: dict[str, _Limit] = Field(
        default_factory=dict,
        description="Tool, or pattern with `*` (the first that fits counts) -> seconds for one call. Default: 300 for "
        "`bash`, 10 for `read_file`, 30 for `edit_file`, 60 for `search`, else `timeout`.",
    )
    effects: dict[str, EffectClass] = Field(
        default_factory=dict,
        description="Tool, or pattern with `*` (the first that fits counts) -> its effect. Default: what the server "
        "says, else `write`.",
    )
    allow: tuple[str, ...] = Field((), description="Tools that may be called, or patterns with `*`. Default: all.")
    agents: bool = Field(False, description="Whether its tools are offered to agents.")
    health_interval: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="Seconds without a call until a look whether the server answers; 0: none.",
    )
    shared: bool = Field(
        False,
        description="Allow only one process of `command`: a run with several xdist workers is refused.",
    )
    breaker: OwnBreakerTable = Field(OwnBreakerTable(), description="When it is left alone for a while.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.command is not None and self.url is not None:
            raise ValueError("`command` and `url` both say where it is: leave out one of them")
        other, keys = ("command", ("headers",)) if self.command else ("url", ("environment", "cwd", "shared"))
        if wrong := [key for key in keys if key in self.model_fields_set and (self.command or self.url)]:
            raise ValueError(f"`{wrong[0]}` has no effect on a server with `{other}`: leave it out")
        if self.url is not None and (problem := _address_problem(self.url)):
            raise ValueError(f"`url` {problem}")
        if problem := next(_problems(self), ""):
            raise ValueError(problem)
        return self

    def limit_of(self, tool: str) -> float:
        """Seconds that one call of the tool may take."""
        from harness.resilience.limit import TOOL_TIMEOUTS  # it loads asyncio, which settings alone do not need

        return (
            self.timeouts.get(tool)
            or next((limit for pattern, limit in self.timeouts.items() if fnmatchcase(tool, pattern)), None)
            or (TOOL_TIMEOUTS.get(tool) if "timeout" not in self.model_fields_set else None)
            or self.timeout
        )

    def declared_effect(self, tool: str) -> EffectClass | None:
        """The effect of the tool by `effects`; None if nothing fits."""
        return next((effect for pattern, effect in self.effects.items() if fnmatchcase(tool, pattern)), None)

    def allows(self, tool: str) -> bool:
        """Whether the tool may be called."""
        return not self.allow or any(fnmatchcase(tool, pattern) for pattern in self.allow)


def _address_problem(url: str) -> str:
    """Why an address is none of a server; empty if it is one."""
    if _ANY_REFERENCE.search(url):
        return "has no references: only `headers` and `environment` have `${env:NAME}`"
    example = "must be an address such as http://shop.local/mcp"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"{example}: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or re.search(r"[\s\x00-\x1f\x7f]", url):
        return example
    if parts.username is not None:
        return "must have no user or password, which would be shown: write an `Authorization` into `headers`"
    return "must end before `#`, which is not sent" if parts.fragment else ""


def _problems(server: ToolServerSettings) -> Iterator[str]:
    """Yield what can have no effect, or not the one that is meant."""
    yield from _command_problems(server.command or ())
    if server.cwd == "":
        yield "`cwd` is empty: leave it out for the project's folder"
    for name, value in server.headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            own = name.lower() in _OWN_HEADERS
            yield f"`headers`: {name!r} is {'set by the client of MCP itself' if own else 'no name of a header'}"
        yield from _text_problems(f"headers.{name}", value)
        if not REFERENCE.search(value) and (problem := header_problem(value)):
            yield f"`headers.{name}` {problem}"
    for name, value in server.environment.items():
        if not name or re.search(r"[=\x00]", name):
            yield f"`environment`: {name!r} is no name of a variable"
        yield from _text_problems(f"environment.{name}", value)
    if "allow" in server.model_fields_set and not all(server.allow or ("",)):
        yield "`allow` names no tool: leave it out to allow all, or name those that may be called"


def _command_problems(command: tuple[str, ...]) -> Iterator[str]:
    if command and not command[0].strip():
        yield "`command` begins with the program, and it is empty"
    for word in command:
        if "\0" in word:
            yield "`command` has a null character"
        if word != "{python}" and _PLACEHOLDER.fullmatch(word):
            yield f"`command`: {word} stands for nothing here: only `{{python}}` is the interpreter of the run"


def _text_problems(key: str, value: str) -> Iterator[str]:
    if "\0" in value:
        yield f"`{key}` has a null character"
    for reference in _ANY_REFERENCE.findall(value):
        if not REFERENCE.fullmatch(reference):
            yield f"`{key}`: {reference} stands for nothing here: write `${{env:NAME}}` for a variable"


def header_problem(value: str) -> str:
    """Why a text cannot be the value of a header, without the text, which may be secret; empty if it can."""
    if re.search(r"[\r\n]", value):
        return "has a line break, which a header cannot have"
    if value != value.strip():
        return "begins or ends with a space, which a header cannot have"
    return "" if value.isascii() and value.isprintable() else "has characters that a header cannot have"


def offered_to_agents(tools: Mapping[str, ToolServerSettings]) -> dict[str, tuple[str, ...]]:
    """The servers whose tools are offered to agents -> the patterns of the tools that may be called; none: all."""
    return {name: settings.allow for name, settings in tools.items() if settings.agents}


def unoffered(agents: Mapping[str, AgentSettings], tools: Mapping[str, ToolServerSettings]) -> str:
    """Why a pattern of an agent's policy can fit no tool that is offered to agents, with its place; empty: all can."""
    found = ((name, _unoffered(each.policy.tools or (), tools)) for name, each in agents.items())
    return next((f"agents.{name}.policy.tools: {problem}" for name, problem in found if problem), "")


def _unoffered(patterns: Iterable[str], tools: Mapping[str, ToolServerSettings]) -> str:
    for pattern in patterns:
        server = pattern.partition(".")[0]
        fitting = [name for name in tools if fnmatchcase(name, server)]
        if not fitting:
            hint = did_you_mean(server, tools) or f"the servers are {join_or(sorted(tools)) if tools else 'none'}"
            return f"there is no tool server `{server}` in [tool.harness.tools]: {hint}"
        if not any(tools[name].agents for name in fitting):
            return f"the tools of the server `{server}` are not offered to agents: write `agents = true` into its table"
    return ""


def tool_problem(tools: Mapping[str, ToolServerSettings], server: str, tool: str) -> str:
    """Why a channel cannot be this tool; empty if it can. Whether the server has it is not known."""
    if server == PAGE:
        return f"a channel cannot be a tool of the page: `{PAGE}` belongs to one task"
    if server not in tools:
        known = f"known: {', '.join(tools)}" if tools else "there is none"
        return f"there is no server `{server}` in [tool.harness.tools]; {known}"
    if not tools[server].allows(tool):
        return f"`allow` of [tool.harness.tools.{server}] does not name the tool `{tool}`"
    return ""


def checked_tools(tools: Mapping[str, ToolServerSettings]) -> Mapping[str, ToolServerSettings]:
    """Return the settings; raises ValueError for a server without a place, and for a page with one."""
    for name, settings in tools.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f".{name}: the name of a tool server has only letters, digits, `_` and `-`")
        placed = settings.command is not None or settings.url is not None
        if name == PAGE and (wrong := sorted(settings.model_fields_set - _OF_PAGES)):
            raise ValueError(f".{PAGE}: `{wrong[0]}` has no effect on the tools of the page: leave it out")
        if name != PAGE and not placed:
            raise ValueError(f".{name}: a tool server needs `command` or `url`")
    return tools


REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to a variable in `headers` and `environment`."""


_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})
"""Headers that are secrets, whatever their name says."""


def secrets(
    tools: Mapping[str, ToolServerSettings], environ: Mapping[str, str], is_secret: Callable[[str], bool]
) -> Iterator[str]:
    """What is a secret of every run that has tool servers: the values of variables that headers and environments refer
    to, and those under a name that is that of a secret (`is_secret`).
    """
    for each in tools.values():
        for name, text in (*each.headers.items(), *each.environment.items()):
            yield from (value for found in REFERENCE.findall(text) if (value := environ.get(found)))
            if (name.lower() in _CREDENTIALS or is_secret(name)) and not REFERENCE.search(text):
                yield text.removeprefix("Bearer ").removeprefix("Basic ")


def secrets_of_commands(agents: Mapping[str, AgentSettings], environ: Mapping[str, str]) -> Iterator[str]:
    """The values of variables that the environments of command agents refer to."""
    for each in agents.values():
        for text in each.environment.values():
            yield from (value for name in REFERENCE.findall(text) if (value := environ.get(name)))


def shared_problem(tools: Mapping[str, ToolServerSettings], workers: int) -> str:
    """Why so many xdist workers cannot use the servers; empty if they can."""
    shared = [name for name, each in tools.items() if each.shared]
    if workers < 2 or not shared:
        return ""
    return (
        f"[tool.harness.tools.{shared[0]}] has `shared = true`: there must be only one process of it, and each of "
        f"{workers} xdist workers would start its own. Run without `-n` (`--task-workers` runs tasks side by side in "
        "one process), or give it a `url`"
    )
