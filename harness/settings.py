"""`[tool.harness]` of pyproject.toml and the options of a run, as one frozen value."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Recording = Literal["auto", "full", "minimal"]
Tracing = Literal["off", "on", "retain-on-failure"]


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
    environment: dict[str, str] = Field(default_factory=dict, description="Extra environment variables.")


class ChannelSettings(Part):
    """`[tool.harness.channels.<name>]`: a JSON document of the system under test (DESIGN 4.9)."""

    url: str | None = Field(None, description="GET reads, PUT restores, PATCH merges, POST <url>/reset resets.")
    file: str | None = Field(None, description="A JSON file, relative to the project.")
    python: str | None = Field(
        None, description="`package.module:callable`, called with the world id, returns the document."
    )
    clock: str | None = Field(None, description="Path in the document that a task's `time` is written to.")
    timeout: float = Field(5.0, gt=0, le=300)


class BrowserSettings(Part):
    """How the browser is started."""

    executable: str | None = None
    channel: str | None = None
    headed: bool = False
    slowmo: float = Field(0, ge=0, description="Milliseconds between operations.")
    viewport: tuple[int, int] = (1280, 720)
    args: tuple[str, ...] = ()


class Settings(Part):
    """Everything a run is told from outside. Paths are absolute."""

    root: Path = Path()
    artifacts: Path = Path("errors")
    browser: BrowserSettings = BrowserSettings()
    services: dict[str, ServiceSettings] = Field(default_factory=dict)
    channels: dict[str, ChannelSettings] = Field(default_factory=dict)
    base_url: str | None = None
    recording: Recording = "auto"
    tracing: Tracing = "retain-on-failure"
    recovery: bool = True
    heal: bool = True
    strict: bool = False
    timeout_scale: float = Field(1.0, gt=0, le=100)
    keep_previous: int = Field(5, ge=0, description="How many earlier runs are kept under errors/.previous.")
    redact: tuple[str, ...] = Field((), description="Regular expressions; what matches is redacted everywhere.")


class SettingsError(ValueError):
    """`[tool.harness]` says something that cannot be."""


def load_settings(root: Path, **options: Any) -> Settings:
    """`[tool.harness]` of the project at `root`, with the options of the run over it; SettingsError for a bad one."""
    file = root / "pyproject.toml"
    try:
        table = tomllib.loads(file.read_text("utf-8")).get("tool", {}).get("harness", {}) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: {error}") from error
    browser = {**table.pop("browser", {}), **options.pop("browser", {})}
    try:
        settings = Settings.model_validate({**table, **options, "browser": browser, "root": root})
    except ValidationError as error:
        raise SettingsError("\n".join(_problem(file, found) for found in error.errors())) from error
    return settings.model_copy(update={"artifacts": root / settings.artifacts})


def _problem(file: Path, found: Any) -> str:
    path = ".".join(["tool", "harness", *map(str, found["loc"])])
    return f"{file}: {path}: {found['msg']} (found: {found['input']!r:.80})"
