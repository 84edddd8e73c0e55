"""`[tool.harness.agents.<name>]`: the settings of an agent, and of those that follow it when it fails."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from harness.model.service_settings import placeholders_in
from harness.recovery.declaration import Declaration
from harness.spec.agents import BRIDGE, BUILT_IN
from harness.spec.problems import did_you_mean, join_or

_Takeover = Literal["resume", "restart"]


class OwnBreakerTable(Declaration):
    """A circuit's own thresholds; those that are not set are those of `[tool.harness.breaker]`."""

    failure_threshold: int | None = Field(None, ge=1)
    success_threshold: int | None = Field(None, ge=1)
    reset_seconds: float | None = Field(None, ge=0, le=3600)
    volume_threshold: int | None = Field(None, ge=0)


WriteMode = Literal["allow", "declared", "ask"]
"""Which unsafe requests of an agent's steps may leave the browser: all; those that are declared; or those that are
declared, and those that a person at the terminal allows."""


class AgentPolicyTable(Declaration):
    """`[tool.harness.agents.<name>.policy]`: what an agent may do."""

    acts: tuple[str, ...] | None = Field(
        None, description="Acts that it may propose, such as `open`, `click`. Default: all."
    )
    writes: WriteMode | None = Field(
        None,
        description="Requests that may change something, and tools that write: all; those that the task declares; or "
        "also those that a person at the terminal allows ([more](agents.md#what-an-agent-may-do)). Default: "
        "`declared` for `llm`, `allow` for others.",
    )

    tools: tuple[str, ...] | None = Field(
        None,
        description="Tools that it is offered, as `server.tool` (with `*`), of servers with `agents = true`. Default: "
        "all.",
    )

    @field_validator("tools")
    @classmethod
    def _names_server_and_tool(cls, tools: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if wrong := [each for each in tools or () if not all(each.partition("."))]:
            raise ValueError(f"a tool must be written `server.tool`, not {wrong[0]!r}")
        return tools

    @field_validator("acts")
    @classmethod
    def _acts_exist(cls, acts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        from harness.spec.validation import ACTS  # few projects limit an agent

        if unknown := [act for act in acts or () if act not in ACTS]:
            hint = did_you_mean(unknown[0], ACTS) or f"the acts are {join_or(sorted(ACTS))}"
            raise ValueError(f"there is no act `{unknown[0]}`: {hint}")
        if acts == ():
            raise ValueError("an agent that may do nothing cannot do a task: name at least one act")
        return acts


_RESERVED: Final = ("TASKSPEC_TOKEN", "TASKSPEC_BRIDGE")
"""The variables of a command that no table may set."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDERS = ("prompt", "mcp", "bridge", "token", "cdp", "browser_use", "python")
"""What a `command` may contain in braces."""
_DRIVES: Final = "cdp"
"""The placeholder of a command that drives the browser itself: the harness observes it, and performs no step of it."""
_NOT_OF_DRIVERS = {
    "policy": "its steps are not the harness's: `allowed_domains` and routes of the task hold",
    "timeout": "the `timeout` of the task limits it",
    "fallback": "what it has done is not known step by step, so that no other agent can go on",
    "fallback_if_unmet": "what it has done is not known step by step, so that no other agent can go on",
    "takeover": "it cannot go on where another agent has stopped",
}
_STEP_BY_STEP: Final = ("mcp", "bridge")
"""The placeholders of the ways to a task on which the harness performs each step."""
_OF_COMMANDS = ("environment", "cwd", "models")
"""The keys that only a `command` has."""
_NOT_OF_COMMANDS = {
    "options": "write them into the command itself",
    "retry": "a process that began anew would not know what was done, and would do it again",
}


class AgentSettings(Declaration):
    """`[tool.harness.agents.<name>]`: who can choose the steps of a task."""

    python: str | None = Field(
        None,
        description="`package.module:name` of a class, or of a function that returns the agent. Default: the agent of "
        "this name from an installed package.",
    )
    agent: str | None = Field(
        None,
        description="Another agent, which this one is with its own `options` and `timeout` over those of the other.",
    )
    command: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Program and arguments of an agent that is a process, started for each task. `{prompt}`: the task "
        "in words; `{mcp}`: the file with which a client of MCP finds it; `{bridge}`, `{token}`: the address of the "
        "bridge and the token; `{cdp}`: the address of the browser; `{browser_use}`: the shipped script for "
        "browser-use; `{python}`: the interpreter; `{{token}}`: the text {token}.",
    )
    environment: dict[str, str] = Field(
        default_factory=dict,
        description="Environment variables of `command`, which has no others of the run but PATH, language and time "
        "zone. `${env:NAME}` is one of the run.",
    )
    cwd: str | None = Field(
        None,
        description="Folder in which `command` is started. Default: an empty one, where it finds no task files.",
    )
    models: tuple[str, ...] = Field(
        (),
        description="Models that `command` may ask, through an address of the harness: the keys stay here.",
    )
    timeout: float = Field(60.0, gt=0, le=3600, description="Seconds for the choice of one step.")
    options: dict[str, JsonValue] = Field(default_factory=dict, description="Keyword arguments for it.")
    fallback: tuple[str, ...] = Field(
        (),
        description="Agents that go on, in this order, when this one fails. `scripted` executes the task's own steps "
        "from the start, `manual` is a person at the terminal.",
    )
    fallback_if_unmet: bool = Field(
        False,
        description="Also go on when this one is done and a success criterion does not hold.",
    )
    takeover: _Takeover = Field(
        "resume",
        description="How it begins in place of another agent: on the same page, with the whole history; or from the "
        "start, unless something was written meanwhile that cannot be taken back.",
    )
    retry: int = Field(1, ge=0, le=2, description="How often it is created anew after an error of its code.")
    policy: AgentPolicyTable = Field(AgentPolicyTable(), description="What it may do.")
    breaker: OwnBreakerTable = Field(OwnBreakerTable(), description="When it is left alone for a while.")

    @model_validator(mode="after")
    def _names_a_place(self) -> Self:
        said = [key for key in ("agent", "python", "command") if getattr(self, key) is not None]
        if len(said) > 1:
            raise ValueError(f"`{said[0]}` and `{said[1]}` both say what it is: leave out one of them")
        module, _, attribute = ("a:b" if self.python is None else self.python).partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
            raise ValueError(f"`python` must be written `package.module:name`, not {self.python!r}")
        if self.command is None:
            for key in _OF_COMMANDS:
                if key in self.model_fields_set:
                    raise ValueError(f"`{key}` has no effect without `command`: leave it out")
        else:
            self._check_command(self.command)
        return self

    def _check_command(self, command: tuple[str, ...]) -> None:
        """Raises ValueError for what has no effect on a command, and for an unknown placeholder."""
        for key, why in _NOT_OF_COMMANDS.items():
            if key in self.model_fields_set:
                raise ValueError(f"`{key}` has no effect on a `command`: {why}")
        for word in command:
            for found in placeholders_in(word):
                if found not in _PLACEHOLDERS:
                    known = join_or([f"{{{each}}}" for each in _PLACEHOLDERS])
                    text = f"`{{{{{found}}}}}` is the text {{{found}}}"
                    raise ValueError(f"`command` has no placeholder {{{found}}}: there is {known}; {text}")
        if not command[0]:
            raise ValueError("`command` must begin with the name of a program")
        self._check_process(command)
        self._check_driving({found for word in command for found in placeholders_in(word)})

    def _check_driving(self, found: Collection[str]) -> None:
        """Raises ValueError for what has no effect on a command that drives the browser itself, or needs one."""
        if not self.drives_itself:
            if "browser_use" in found:
                raise ValueError("`{browser_use}` needs `{cdp}`: browser-use drives the browser itself")
            return
        if said := [key for key in _NOT_OF_DRIVERS if key in self.model_fields_set]:
            raise ValueError(f"`{said[0]}` has no effect with `{{cdp}}`: {_NOT_OF_DRIVERS[said[0]]}")
        if other := [each for each in _STEP_BY_STEP if each in found]:
            raise ValueError(
                f"`{{{other[0]}}}` leads nowhere beside `{{cdp}}`: a command drives the browser, or has it driven"
            )

    def _check_process(self, command: tuple[str, ...]) -> None:
        """Raises ValueError for what no process can have, and for a variable that the run itself sets."""
        if any("\0" in word for word in (*command, self.cwd or "")):
            raise ValueError("`command` and `cwd` must not contain the character NUL")
        if self.cwd == "":
            raise ValueError(
                '`cwd` is empty: "." is the folder of the project, and without `cwd` each task has its own'
            )
        for name, value in self.environment.items():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(
                    f"`environment` has no variable of the name {name!r}: letters, digits and `_` make one"
                )
            if name in _RESERVED:
                raise ValueError(f"`environment.{name}` is set by the run, which finds by it what the command started")
            if "\0" in value:
                raise ValueError(f"`environment.{name}` must not contain the character NUL")

    @property
    def drives_itself(self) -> bool:
        """Whether it is a command that drives the browser itself, over the DevTools protocol."""
        return any(_DRIVES in placeholders_in(word) for word in self.command or ())


def drives_itself(name: str | None, agents: Mapping[str, AgentSettings]) -> bool:
    """Whether the agent of that name, or the one that it stands for, drives the browser itself."""
    passed: set[str | None] = set()
    while name not in passed:
        passed.add(name)
        table = agents.get(name or "")
        if table is None or table.agent is None:
            return table is not None and table.drives_itself
        name = table.agent
    return False


def agents_problem(agents: Mapping[str, AgentSettings]) -> str:
    """The first problem of these agents, with its place; empty if there is none."""
    found = ((name, _chain_problem(name, each, agents)) for name, each in agents.items())
    return next((f"agents.{name}{problem}" for name, problem in found if problem), "")


def unknown_models(agents: Mapping[str, AgentSettings], models: Collection[str]) -> str:
    """The first of `models` of a command that no table of [tool.harness.models] has, with its place; empty if none."""
    for name, each in agents.items():
        for model in each.models:
            if model not in models:
                near = did_you_mean(model, models) or (f"there is {join_or(models)}" if models else "there is none")
                return f"agents.{name}.models: there is no model `{model}` in [tool.harness.models]: {near}"
    return ""


_OF_BRIDGE = frozenset({"timeout", "options", "fallback", "fallback_if_unmet", "takeover", "policy", "breaker"})
"""The keys that act for the agent `bridge`."""


def _bridge_problem(settings: AgentSettings) -> str:
    """The first problem of `[tool.harness.agents.bridge]`: it is made by no code of the project."""
    if wrong := sorted(settings.model_fields_set - _OF_BRIDGE):
        return f".{wrong[0]}: `bridge` is an agent that runs elsewhere, and has none: leave it out"
    for key, value in settings.options.items():
        if key != "reveal":
            return f".options.{key}: there is no such option of `bridge`: it has `reveal`"
        if not isinstance(value, bool):
            return f".options.reveal: must be true or false, not {value!r}"
    return ""


def _no_effect_problem(settings: AgentSettings, other: str, table: AgentSettings) -> str:
    """The first key of an agent that has no effect since it stands for `other`, a command; empty if there is none."""
    unused = _NOT_OF_COMMANDS if table.command is not None else {}
    for key, why in unused.items():
        if key in settings.model_fields_set:
            return f".{key}: `{other}` is a command, so it has no effect: {why}"
    for key, why in _NOT_OF_DRIVERS.items():
        if table.drives_itself and key in settings.model_fields_set:
            return f".{key}: `{other}` drives the browser itself (`{{cdp}}`), so it has no effect: {why}"
    return ""


def _stands_for_problem(name: str, settings: AgentSettings, agents: Mapping[str, AgentSettings]) -> str:
    """The problem of the agent that this one is with other settings; empty if there is none."""
    way, other = [name], settings.agent
    while other is not None:
        if other in (*way, *BUILT_IN):
            circle = " -> ".join([*way, other])
            return f".agent: {circle}" + (" goes round in a circle" if other in way else ", which takes no options")
        way.append(other)
        table = agents.get(other, AgentSettings())
        if problem := _no_effect_problem(settings, other, table):
            return problem
        other = table.agent
    return ""


def _chain_problem(name: str, settings: AgentSettings, agents: Mapping[str, AgentSettings]) -> str:
    """The problem of an agent's name, of the one that it stands for, or of those that follow it; empty if none."""
    if name == BRIDGE:
        if problem := _bridge_problem(settings):
            return problem
    elif name in BUILT_IN:
        return f": `{name}` is an agent of the harness, which has no settings: choose another name"
    if problem := _stands_for_problem(name, settings, agents):
        return problem
    return _fallback_problem(name, settings, agents)


def _fallback_problem(name: str, settings: AgentSettings, agents: Mapping[str, AgentSettings]) -> str:
    """The problem of the agents that follow an agent; empty if there is none."""
    twice = next((each for number, each in enumerate(settings.fallback) if each in settings.fallback[:number]), "")
    if twice or name in settings.fallback:
        return f".fallback: the agent `{twice or name}` is there already: an agent that has failed is not asked again"
    if driver := next((each for each in settings.fallback if drives_itself(each, agents)), ""):
        return (
            f".fallback: `{driver}` drives the browser itself (`{{cdp}}`), so that it cannot go on after another agent"
        )
    if settings.fallback_if_unmet and not settings.fallback:
        return ".fallback_if_unmet: has no effect without `fallback`, which names the agents that go on"
    return ""
