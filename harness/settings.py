"""`[tool.harness]` of pyproject.toml and the options of a run, as one frozen value."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from harness.endpoint_urls import checked, of_environment
from harness.settings_problem import problem
from harness.spec.profiles import TimeoutProfile

Recording = Literal["auto", "full", "minimal"]
Tracing = Literal["off", "on", "retain-on-failure"]
KeptEvidence = Literal["failed", "all"]
LogProfile = Literal["production", "evaluation", "debug"]
MOST_WORKERS = 100
"""Tasks at once in one process."""


class Part(BaseModel):
    """A frozen table of settings that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceSettings(Part):
    """`[tool.harness.services.<name>]`: one program that serves some hosts (DESIGN 4.10)."""

    command: tuple[str, ...] = Field(description="Program and arguments; `{python}` is the running interpreter.")
    hosts: dict[str, int] = Field(description="Host name -> port on 127.0.0.1.")
    health: str = Field(description="URL on one of the hosts that answers 200 when the service is ready.")
    identity: dict[str, str] = Field(
        default_factory=dict,
        description="What the health answer (JSON) must say, so that a stranger is not taken for it.",
    )
    ready_timeout: float = Field(4.0, gt=0, le=300, description="Seconds from start to healthy.")
    health_interval: float = Field(
        10.0, ge=0, le=3600, description="Seconds between two questions after its health while it runs; 0 asks none."
    )
    health_patience: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="Seconds to answer a last question when the ones before were not; who is silent so long hangs.",
    )
    environment: dict[str, str] = Field(default_factory=dict, description="Extra environment variables.")


class ChannelSettings(Part):
    """`[tool.harness.channels.<name>]`: a JSON document of the system under test (DESIGN 4.9)."""

    url: str | None = Field(None, description="GET reads, PUT restores, PATCH merges, POST <url>/reset resets.")
    file: str | None = Field(None, description="A JSON file, relative to the project; every world shares it.")
    python: str | None = Field(
        None, description="`package.module:callable`, called with the world id, returns the document."
    )
    restore: str | None = Field(
        None,
        description="`package.module:callable`, called with the world id and the document, which it is to put in place "
        "of the one there; only beside `python`.",
    )
    readonly: bool = Field(
        False,
        description="Never written: a step or fault that would is refused, and checkpoints leave the channel as it is.",
    )
    clock: str | None = Field(None, description="Path in the document that a task's `time` is written to.")
    timeout: float = Field(5.0, gt=0, le=300, description="Seconds for one reading or writing.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.restore is not None and self.python is None:
            raise ValueError("`restore` belongs to a channel with `python`; `url` and `file` are restored without it")
        if self.readonly and (self.restore is not None or self.clock is not None):
            other = "clock" if self.restore is None else "restore"
            raise ValueError(f"`readonly = true` contradicts `{other}`, which writes: leave out one of them")
        return self


class BrowserSettings(Part):
    """How the browser is started."""

    executable: str | None = None
    channel: str | None = None
    headed: bool = False
    slowmo: float = Field(0, ge=0, description="Milliseconds between operations.")
    viewport: tuple[int, int] = (1280, 720)
    args: tuple[str, ...] = ()


class AgentSettings(Part):
    """`[tool.harness.agents.<name>]`: who can choose the steps of a task."""

    python: str | None = Field(
        None,
        description="`package.module:name` of a class, or of a function that makes the agent; without it, the agent "
        "that an installed package has under this name.",
    )
    timeout: float = Field(60.0, gt=0, le=3600, description="Seconds for the choice of one step.")
    options: dict[str, JsonValue] = Field(default_factory=dict, description="Keyword arguments for it.")

    @model_validator(mode="after")
    def _names_a_place(self) -> Self:
        module, _, attribute = ("a:b" if self.python is None else self.python).partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
            raise ValueError(f"`python` must be written `package.module:name`, not {self.python!r}")
        return self


class BreakerTable(Part):
    """`[tool.harness.breaker]`: when a site that fails is left alone for a while (DESIGN 8)."""

    enabled: bool = Field(True, description="`--breaker on|off` goes over it.")
    failure_threshold: int = Field(5, ge=1, description="So many failures in a row, of all tasks, open the circuit.")
    success_threshold: int = Field(2, ge=1, description="So many good probes close it.")
    reset_seconds: float = Field(30.0, ge=0, le=3600, description="How long it rests before one call may try the site.")
    volume_threshold: int = Field(0, ge=0, description="It opens only after so many calls.")
    persist: bool = Field(
        False,
        description="Keep the circuits in .harness/circuits.sqlite3: workers of xdist and later runs share them.",
    )


class TelemetrySettings(Part):
    """`[tool.harness.telemetry]`: who else is told what happened. Each needs the extra of its name."""

    otel: bool = Field(False, description="OpenTelemetry spans, for the tracer provider that the process has.")
    prometheus: bool = Field(False, description="`.harness/metrics.prom` at the end of a run.")


def workers_or_auto(value: object) -> object:
    """As it stands; ValueError in one sentence, where pydantic would say one for a number and one for the word."""
    number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_WORKERS
    if not number and value != "auto":
        raise ValueError(f"is neither `auto` nor a number from 1 to {MOST_WORKERS}")
    return value


class Settings(Part):
    """Everything a run is told from outside. Paths are absolute."""

    root: Path = Path()
    artifacts: Path = Path("errors")
    browser: BrowserSettings = BrowserSettings()
    services: dict[str, ServiceSettings] = Field(default_factory=dict)
    channels: dict[str, ChannelSettings] = Field(default_factory=dict)
    agents: dict[str, AgentSettings] = Field(default_factory=dict)
    agent: str | None = Field(None, description="Who chooses the steps of a task that has none.")
    base_url: str | None = None
    recording: Recording = "auto"
    tracing: Tracing = "retain-on-failure"
    recovery: bool = True
    heal: bool = True
    strict: bool = False
    timeout_profile: TimeoutProfile = Field(
        "simple", description="Limits of tasks that declare none: simple, medium or complex (specs/003 8.1)."
    )
    timeout_scale: float = Field(1.0, gt=0, le=100)
    browser_endpoint: Annotated[tuple[str, ...], AfterValidator(checked)] = Field(
        (),
        description="URLs (ws://, wss://) of Playwright servers that give the browsers; none: they are started here.",
    )
    task_workers: Annotated[int | Literal["auto"], BeforeValidator(workers_or_auto)] = Field(
        1, description="So many tasks at once in one process, on one browser; auto: as many as the machine can take."
    )
    faults: tuple[Path, ...] = Field((), description="Fault plans that strike the tasks of every run.")
    log_profile: LogProfile = Field(
        "evaluation",
        description="Of logger `harness.resilience`: production (errors), evaluation (and warnings), debug (all).",
    )
    breaker: BreakerTable = BreakerTable()
    telemetry: TelemetrySettings = TelemetrySettings()
    evidence: KeptEvidence = Field(
        "failed",
        description="`all`: of tasks that pass, too, what `harness regrade` needs is kept under .harness/evidence.",
    )
    keep_previous: int = Field(5, ge=0, description="How many earlier runs are kept under errors/.previous.")
    history_runs: int = Field(
        200, ge=0, description="How many runs .harness/history.sqlite3 keeps; 0: nothing is written there."
    )
    redact: tuple[str, ...] = Field((), description="Regular expressions; what matches is redacted everywhere.")

    @property
    def chosen_agent(self) -> str | None:
        """The agent for tasks without steps: the one named, or the only one there is."""
        return self.agent or (next(iter(self.agents)) if len(self.agents) == 1 else None)


class SettingsError(ValueError):
    """`[tool.harness]` says something that cannot be."""


def load_settings(root: Path, **options: Any) -> Settings:
    """`[tool.harness]` of the project at `root`, with the options of the run over it; SettingsError for a bad one."""
    file = root / "pyproject.toml"
    table = _table(file)
    options = {**_of_environment(), **options}
    tables = {
        name: {**_inner(file, table, name, "tool.harness"), **options.pop(name, {})} for name in ("browser", "breaker")
    }
    try:
        settings = Settings.model_validate({**table, **options, **tables, "root": root})
    except ValidationError as error:
        raise SettingsError("\n".join(problem(file, Settings, found) for found in error.errors())) from error
    faults = tuple(root / file for file in settings.faults)
    return settings.model_copy(update={"artifacts": root / settings.artifacts, "faults": faults})


def _of_environment() -> dict[str, Any]:
    """What goes over the file, and under the command line. SettingsError for a bad one."""
    try:
        return {"browser_endpoint": urls} if (urls := of_environment(os.environ)) else {}
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _table(file: Path) -> dict[str, Any]:
    """`[tool.harness]`; empty where there is none."""
    try:
        document = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: {error}") from error
    return _inner(file, _inner(file, document, "tool"), "harness", "tool")


def _inner(file: Path, table: dict[str, Any], name: str, path: str = "") -> dict[str, Any]:
    """The table of that name; empty where there is none."""
    found = table.get(name, {})
    if not isinstance(found, dict):
        where = f"{path}.{name}".removeprefix(".")
        raise SettingsError(f"{file}: {where}: must be a table, as in `[{where}]` (found: {found!r:.80})")
    return found
