"""`[tool.harness]` of pyproject.toml and the options of a run, as one frozen value."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from harness.model.agent_settings import AgentSettings, agents_problem, unknown_models
from harness.model.browser_settings import BrowserSettings, check_urls, of_environment
from harness.model.channel_settings import ChannelSettings, place_problem
from harness.model.model_settings import CassetteSettings, ModelSettings, checked_models
from harness.model.serve_settings import ServeSettings, serve_port_of
from harness.model.service_settings import PORT_VARIABLE, ServiceSettings, overridden, ports_of_environment
from harness.model.settings_errors import Place, SettingsError, place_of, places_of, problem, syntax_problem
from harness.model.tool_settings import ToolServerSettings, checked_tools, tool_problem, unoffered
from harness.recovery.declaration import Declaration
from harness.spec.defaults import Defaults, Meaning, as_tables, not_of_tasks
from harness.spec.file_names import HOOKS
from harness.spec.names import template_problem
from harness.spec.page_handlers import Handler
from harness.spec.problems import JsonPath, Problem
from harness.spec.source import file_label, place_only
from harness.spec.steps import Step
from harness.spec.task import TimeoutProfile

Recording = Literal["auto", "full", "minimal"]
Tracing = Literal["off", "on", "retain-on-failure"]
_KeptEvidence = Literal["failed", "all"]
LogProfile = Literal["production", "evaluation", "debug"]
_Isolation = Literal["world", "reset", "none"]
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OWN_HEADERS = frozenset({"connection", "content-length", "cookie", "host", "origin", "referer", "user-agent"})
LOGINS = Path(".harness", "logins")
"""The folder of logins that are kept, and of those of each run, relative to the project."""
_FLOORS = Path(".harness", "floors")
"""The folder of the files through which the workers of a run share how long providers of models have asked to wait."""
_MOST_WORKERS = 100
"""The largest number of tasks at the same time in one process."""


class MemorySettings(Declaration):
    """`[tool.harness.memory]`: where the memory of tasks is kept (docs/design/isolation-and-state.md)."""

    channel: str | None = Field(
        None,
        description="Channel in which the site itself keeps its memory, an object of key -> value or entry, for "
        "`mem()` and `remember`. Default: the harness's own memory.",
    )


def _criterion(text: str) -> str:
    """Return the text; raises ValueError if it is no criterion."""
    from harness.criteria import CriterionError, parse  # only a project with logins needs the grammar here

    try:
        parse(text)
    except CriterionError as error:
        raise ValueError(f"is not a criterion: {error.problem}, at character {error.offset + 1}") from error
    return text


def _in_long_form(handlers: Any) -> Any:
    """The handlers as the file has them, with the long form of their steps."""
    from harness.spec.short_forms import in_long_form  # few projects have handlers

    if not isinstance(handlers, list):
        return handlers
    with_steps = (isinstance(each, dict) and "steps" in each for each in handlers)
    return [
        {**each, "steps": in_long_form(each["steps"])} if has else each
        for each, has in zip(handlers, with_steps, strict=True)
    ]


def _handlers(handlers: tuple[Handler, ...]) -> tuple[Handler, ...]:
    """The handlers; raises ValueError for a criterion that cannot be read."""
    for each in handlers:
        _criterion(each.when)
    return handlers


class LoginSettings(Declaration):
    """`[tool.harness.logins.<name>]`: how a task with `login: <name>` is logged in before it begins."""

    task: Path | None = Field(None, description="Task file that logs in, relative to the project.")
    steps: Annotated[tuple[Step, ...], WithJsonSchema({"type": "array", "items": {}})] = Field(
        (), description="Steps that log in, instead of a task file; without step groups."
    )
    check_url: str = Field(
        min_length=1, description="Page that shows whether the login is valid. A relative one needs `base_url`."
    )
    holds: Annotated[str, AfterValidator(_criterion)] = Field(
        description="Criterion that holds on that page while the login is valid, such as `exists('#logout')`."
    )
    lost_when: Annotated[str | None, AfterValidator(_criterion)] = Field(
        None,
        description="Criterion that holds there when the login is over, such as `exists('#password')`: `holds` is not "
        "waited for any longer.",
    )
    check_timeout: float | None = Field(
        None,
        ge=0,
        le=300,
        description="Seconds until the criterion must hold. Default: 3, or the `expect_timeout` of the task that logs "
        "in where that is longer.",
    )
    keep: bool = Field(
        False,
        description="Whether later runs use the login while it is valid. Only your user can read it (.harness/logins).",
    )

    @field_validator("steps", mode="before")
    @classmethod
    def _without_groups(cls, steps: Any) -> Any:
        if isinstance(steps, list) and any(isinstance(each, dict) and "use" in each for each in steps):
            raise ValueError("step groups cannot be used here: write the steps into a task file, and name it in `task`")
        from harness.spec.short_forms import in_long_form  # few projects have logins

        return in_long_form(steps)

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.task is None) == (not self.steps):
            raise ValueError("a login needs either `task`, the file that logs in, or `steps`")
        return self


class BreakerTable(Declaration):
    """`[tool.harness.breaker]`: when a site that fails is left alone for a while."""

    enabled: bool = True
    failure_threshold: int = Field(5, ge=1, description="Failures in a row, of all tasks, that open the circuit.")
    success_threshold: int = Field(2, ge=1, description="Successful probes that close it.")
    reset_seconds: float = Field(30.0, ge=0, le=3600, description="Seconds until one call may try again.")
    volume_threshold: int = Field(0, ge=0, description="Calls before it may open.")
    persist: bool = Field(
        False, description="Whether xdist workers and later runs share the circuits, in .harness/circuits.sqlite3."
    )


class TelemetrySettings(Declaration):
    """`[tool.harness.telemetry]`: who else is told what happened. Each needs the extra of its name."""

    otel: bool = Field(False, description="Send OpenTelemetry spans to the tracer provider of the process.")
    prometheus: bool = Field(False, description="Write `.harness/metrics.prom` at the end of a run.")


class WorldMark(Struct, frozen=True):
    """How a site learns which world a request belongs to, beside the User-Agent's `harness-world/<id>`."""

    header: str | None = None
    cookie: str | None = None

    def headers(self, world: str) -> dict[str, str]:
        """The headers of every request of that world, from the browser and from channels."""
        return {self.header: world} if self.header else {}

    def cookies(self, world: str) -> dict[str, str]:
        """Name -> value of the cookie that every host of the project receives."""
        return {self.cookie: world} if self.cookie else {}


def _token(value: str) -> str:
    """Check that a text can be the name of a header or a cookie (RFC 9110). Raises ValueError."""
    if not _TOKEN.fullmatch(value):
        raise ValueError("must be a name of letters, digits and `-`, such as X-Test-World")
    if value.lower() in _OWN_HEADERS:
        raise ValueError("is a header that the browser itself sends: choose another name, such as X-Test-World")
    return value


def _reset_target(value: object) -> object:
    """Check a reset: a command as a list, or `module:callable`. Raises ValueError."""
    if isinstance(value, str) and not all(value.partition(":")):
        raise ValueError('must be a command, as in ["{python}", "reset.py"], or "module:callable"')
    if value in ([], ()):
        raise ValueError('is empty: name a command, as in ["{python}", "reset.py"], or "module:callable"')
    return value


def workers_or_auto(value: object) -> object:
    """Return the value; raises one ValueError where pydantic would report one for the number and one for the word."""
    number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_WORKERS
    if not number and value != "auto":
        raise ValueError(f"is neither `auto` nor a number from 1 to {_MOST_WORKERS}")
    return value


def _template_of_hosts(text: str) -> str:
    """Return the text; raises ValueError if it is no template of virtual hosts."""
    if problem := template_problem(text):
        raise ValueError(problem)
    return text


_KIND_OF = {"world_header": "world", "world_cookie": "world", "reset": "reset", "parallel": "none"}
"""Setting -> the `isolation` that it requires."""


class Settings(Declaration):
    """Everything a run is told from outside. Paths are absolute."""

    root: Path = Path()
    artifacts: Path = Path("errors")
    browser: BrowserSettings = Field(BrowserSettings(), description="Which browser is started, and how.")
    services: dict[str, ServiceSettings] = Field(default_factory=dict, description="The programs behind your sites.")
    channels: dict[str, ChannelSettings] = Field(
        default_factory=dict, description="JSON documents of your sites, by the name that criteria use."
    )
    memory: MemorySettings = Field(MemorySettings(), description="Where the memory of tasks is kept.")
    defaults: Annotated[tuple[Defaults, ...], BeforeValidator(as_tables)] = Field(
        (), description="Keys for tasks that do not set them; with `override = true`, for all tasks."
    )
    extra_keys: Annotated[dict[str, Meaning], AfterValidator(not_of_tasks)] = Field(
        default_factory=dict,
        description="Your own keys at the top of task files: `skip` skips the task, with the key's text as the reason; "
        "`tag` adds tags; `note` is shown in reports; `ignore` has no effect.",
    )
    handlers: Annotated[
        tuple[Handler, ...],
        BeforeValidator(_in_long_form),
        AfterValidator(_handlers),
        WithJsonSchema({"type": "array", "items": {}}),
    ] = Field(
        (),
        max_length=20,
        description="What may be in the way in every task, such as a cookie banner, and the steps that remove it, "
        'written as `handlers` of a task: `[{when = "visible(\'#cookies\')", steps = [{act = "click", selector = '
        '"#accept"}]}]`.',
    )
    before_each: tuple[str | dict[str, Any], ...] = Field(
        (),
        description='Steps before those of every task: names of step groups, or steps such as `{use = "cart", with = '
        "{item = 1}}`. A task's own `before_each` stands instead.",
    )
    after_each: tuple[str | dict[str, Any], ...] = Field(
        (), description="Steps after those of every task, also of one that failed, written like `before_each`."
    )
    logins: dict[str, LoginSettings] = Field(default_factory=dict, description="Logins that tasks name with `login`.")
    agents: dict[str, AgentSettings] = Field(default_factory=dict, description="The agents of the project.")
    models: Annotated[dict[str, ModelSettings], AfterValidator(checked_models)] = Field(
        default_factory=dict, description="The models that agents may ask."
    )
    cassettes: CassetteSettings = Field(CassetteSettings(), description="Recordings of what models answer.")
    tools: Annotated[dict[str, ToolServerSettings], AfterValidator(checked_tools)] = Field(
        default_factory=dict, description="Servers of tools (MCP); `page` is the site itself."
    )
    agent: str | None = Field(None, description="The agent of tasks without steps.")
    base_url: str | None = None
    init_script: Path | None = Field(
        None,
        description="A JavaScript file that runs in every page and frame before the page's own scripts. It can read "
        "the task's `page_values` as `window.__taskspec`.",
    )
    virtual_hosts: tuple[Annotated[str, AfterValidator(_template_of_hosts)], ...] = Field(
        (),
        description="URL patterns of servers with several sites below one host, such as `http://localhost:80/{host}/`. "
        "That part of the path counts as the host, in `allowed_domains` and reports.",
    )
    isolation: _Isolation | None = Field(
        None,
        description="How tasks are kept from each other's state. world: the site keeps a state for each id that "
        "requests carry; reset: its one state is reset before each task; none: nothing is reset or restored. Without "
        "it, tasks run one at a time as soon as a channel can be written.",
    )
    world_header: Annotated[str, AfterValidator(_token)] | None = Field(
        None,
        description="A header that names the world in every request, beside the User-Agent, which always ends in "
        "`harness-world/<id>`. The browser preflights requests to other origins because of it.",
    )
    world_cookie: Annotated[str, AfterValidator(_token)] | None = Field(
        None, description="A cookie that names the world, for every host of the services and of `base_url`."
    )
    reset: Annotated[tuple[str, ...] | str | None, BeforeValidator(_reset_target)] = Field(
        None,
        description='What resets the state, for `isolation = "reset"`: a command (a list; `{python}` is the '
        "interpreter) or `module:callable`, which gets a mapping of hosts to ports. Default: all channels that can be "
        "reset are.",
    )
    reset_timeout: float = Field(30.0, gt=0, le=3600, description="Seconds for one reset.")
    parallel: bool = Field(
        False, description='Run tasks in parallel though they share one state, under `isolation = "none"`.'
    )
    recording: Recording = "auto"
    tracing: Tracing = "retain-on-failure"
    video: Tracing = "off"
    retrace: bool = False
    recovery: bool = True
    heal: bool = True
    update_baselines: bool = False
    strict: bool = False
    timeout_profile: TimeoutProfile = "simple"
    timeout_scale: float = Field(1.0, gt=0, le=100)
    browser_endpoint: Annotated[tuple[str, ...], AfterValidator(check_urls)] = ()
    task_workers: Annotated[int | Literal["auto"], BeforeValidator(workers_or_auto)] = 1
    faults: tuple[Path, ...] = ()
    log_profile: LogProfile = "evaluation"
    breaker: BreakerTable = Field(BreakerTable(), description="When a site that fails is left alone for a while.")
    telemetry: TelemetrySettings = Field(TelemetrySettings(), description="More outputs for the events of a run.")
    serve: ServeSettings = Field(
        ServeSettings(), description="Where the project's server listens, and what it keeps for agents."
    )
    evidence: _KeptEvidence = "failed"
    keep_previous: int = Field(5, ge=0, description="How many earlier runs are kept under errors/.previous.")
    services_for: Literal["tasks", "session"] = Field(
        "tasks",
        description="When the services start. `tasks`: before the first task. `session`: before the first test of "
        "any kind; pytest-playwright's `page` then resolves their hosts.",
    )
    fail_on_service_crash: bool = Field(
        False,
        description="Fail a run in which a service crashed, though it was started again and all tasks passed.",
    )
    history_runs: int = Field(200, ge=0, description="Runs that .harness/history.sqlite3 keeps; 0 keeps none.")
    redact: tuple[str, ...] = Field((), description="Regular expressions. Matching text is redacted everywhere.")
    redact_query: tuple[str, ...] = Field(
        (),
        description="More names whose values are redacted in a query or fragment, besides `token`, `code`, ...",
    )

    @model_validator(mode="after")
    def _tables_fit_each_other(self) -> Self:
        memory = self.memory.channel
        if memory is not None and memory not in self.channels:
            known = ", ".join(sorted(self.channels)) or "none"
            raise ValueError(
                f"memory.channel: there is no channel `{memory}` in [tool.harness.channels]; known: {known}"
            )
        called = (
            (f"channels.{name}.{key}", tool_problem(self.tools, server, tool))
            for name, channel in self.channels.items()
            for key, server, tool in channel.tools
        )
        problem = (
            next((f"{place}: {problem}" for place, problem in called if problem), "")
            or place_problem(self.channels, self.services, worlds=self.isolation == "world")
            or agents_problem(self.agents)
            or unoffered(self.agents, self.tools)
            or unknown_models(self.agents, self.models)
        )
        if problem:
            raise ValueError(problem)
        return self

    @field_validator("world_header", "world_cookie", "reset", "parallel")
    @classmethod
    def _refuse_ineffective(cls, value: object, info: ValidationInfo) -> object:
        """Refuse a setting of another kind of isolation, since it would be ignored silently."""
        wanted = _KIND_OF[info.field_name or ""]
        isolation = info.data.get("isolation")
        if value and isolation != wanted:
            there = f'isolation = "{isolation}"' if isolation else "no `isolation`"
            raise ValueError(f'belongs to `isolation = "{wanted}"`, and here is {there}')
        if info.field_name == "world_cookie" and info.data.get("world_header"):
            raise ValueError("`world_header` is set too: use only one of the two")
        return value

    @model_validator(mode="after")
    def _kept_logins_are_of_one_world(self) -> Self:
        kept = next((name for name, each in self.logins.items() if each.keep), None)
        if kept is not None and self.isolation == "world":
            raise ValueError(
                f'logins.{kept}.keep: with `isolation = "world"` each run has worlds of its own, in which '
                "no earlier login is valid"
            )
        return self

    def logins_of(self, run_id: str) -> Path:
        """The folder of the logins that only the run of this id uses."""
        return self.root / LOGINS / run_id

    def floors_of(self, run_id: str) -> Path:
        """The folder of the floors of the run of this id."""
        return self.root / _FLOORS / run_id

    @property
    def world_mark(self) -> WorldMark:
        return WorldMark(self.world_header, self.world_cookie)

    @property
    def shared_state(self) -> bool:
        """Whether tasks may see each other's state: then each runs alone in its slot."""
        match self.isolation:
            case "world":
                return False
            case "reset":
                return True
            case "none":
                return not self.parallel
            case None:
                return bool(self.writable_channels)

    @property
    def writable_channels(self) -> tuple[str, ...]:
        """The channels that can be written; in a database only rows with a key can, and a tool needs its `restore`."""
        return tuple(name for name, each in self.channels.items() if not each.is_fixed)

    @property
    def chosen_agent(self) -> str | None:
        """The agent for tasks without steps: the one named, or the only one there is."""
        return self.agent or (next(iter(self.agents)) if len(self.agents) == 1 else None)


def load_settings(root: Path, **options: Any) -> Settings:
    """Load `[tool.harness]` of the project at `root`, overridden by the options of the run; raises SettingsError.

    `ports`: service, or service:host -> a port in place of the declared one.
    """
    file = root / "pyproject.toml"
    table = _table(file)
    options = {**_of_environment(), **options}
    given = dict(options)
    ports = options.pop("ports", {})
    chosen = options.get("browser", {})
    tables = {
        name: {**_inner(file, table, name, "tool.harness"), **options.pop(name, {})}
        for name in ("browser", "breaker", "cassettes", "serve")
    }
    if "device" in chosen:  # a device has a viewport and a user agent of its own
        declared = _inner(file, table, "browser", "tool.harness")
        tables["browser"] = {k: each for k, each in declared.items() if k not in ("viewport", "user_agent")} | chosen
    try:
        settings = Settings.model_validate({**table, **options, **tables, "root": root})
    except ValidationError as error:
        raise SettingsError(*_problems(file, error, given)) from error
    faults = tuple(root / file for file in settings.faults)
    services = _with_ports(settings.services, ports)
    places = {"artifacts": root / settings.artifacts, "init_script": _script(file, root, settings.init_script)}
    defaults = (*settings.defaults, *_hooks(file, settings))
    return settings.model_copy(update={**places, "faults": faults, "services": services, "defaults": defaults})


def _hooks(file: Path, settings: Settings) -> Iterator[Defaults]:
    """`before_each` and `after_each` as defaults of tasks, which tell their problems in the settings."""
    if hooks := {key: list(each) for key in HOOKS if (each := getattr(settings, key))}:
        found = {key: place_of(_places(file), ("tool", "harness", key)) or (1, 1) for key in hooks}
        yield Defaults.of_hooks(hooks, {key: place_only(file_label(file), *place) for key, place in found.items()})


def _with_ports(services: dict[str, ServiceSettings], ports: Mapping[str, str]) -> dict[str, ServiceSettings]:
    """The services with the ports of `HARNESS_PORT_<SERVICE>`, overridden by those of the command line."""
    try:
        services = overridden(services, ports_of_environment(services, os.environ))
    except ValueError as error:
        raise SettingsError(f"{PORT_VARIABLE}: {error}") from None
    try:
        return overridden(services, ports)
    except ValueError as error:
        raise SettingsError(f"--task-port {error}") from None


def _script(file: Path, root: Path, script: Path | None) -> Path | None:
    """The file of `init_script`; raises SettingsError if it cannot be read."""
    try:
        if script is not None:
            (root / script).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(_problem(file, "tool.harness.init_script", f"{script} cannot be read: {why}")) from error
    return script and root / script


def _of_environment() -> dict[str, Any]:
    """Settings from the environment: they override the file; the command line overrides both. Raises SettingsError."""
    try:
        found: dict[str, Any] = {"browser_endpoint": urls} if (urls := of_environment(os.environ)) else {}
        return found if (port := serve_port_of(os.environ)) is None else {**found, "serve": {"port": port}}
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _problems(file: Path, error: ValidationError, given: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems of pydantic's error. `given`: the options of the run, whose values do not stand in the file."""
    places = _places(file)
    for found in error.errors():
        name, key = (*map(str, found["loc"]), "", "")[:2]
        elsewhere = name in given and (not isinstance(given[name], dict) or key in given[name])
        yield problem(file, {} if elsewhere else places, Settings, found)


def _problem(file: Path, path: str, message: str) -> Problem:
    line, column = place_of(_places(file), tuple(path.split("."))) or (None, None)
    return Problem(str(file), line, column, path, message)


def _places(file: Path) -> Mapping[JsonPath, Place]:
    """Where the keys of the file stand."""
    return places_of(file.read_text("utf-8")) if file.is_file() else {}


def _table(file: Path) -> dict[str, Any]:
    """`[tool.harness]`; empty if there is none."""
    try:
        document = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(syntax_problem(file, error)) from error
    except UnicodeDecodeError as error:
        raise SettingsError(Problem(str(file), None, None, "", f"it is not UTF-8 text: {error}")) from error
    return _inner(file, _inner(file, document, "tool"), "harness", "tool")


def _inner(file: Path, table: dict[str, Any], name: str, path: str = "") -> dict[str, Any]:
    """The table of that name; empty if there is none."""
    found = table.get(name, {})
    if not isinstance(found, dict):
        where = f"{path}.{name}".removeprefix(".")
        raise SettingsError(_problem(file, where, f"must be a table, as in `[{where}]` (found: {found!r:.80})"))
    return found
