"""What a session is asked to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import StorageState

from harness.model.settings import Recording, Tracing, WorldMark
from harness.spec.faults.network import TlsProblem
from harness.spec.names import Domains

__all__ = ["SessionRequest", "StorageState"]

_GIVE = "Object.defineProperty(window, '__taskspec', {value: JSON.parse(VALUES), configurable: true});\n"


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """Everything that one task's browser context depends on."""

    world: str
    folder: Path
    """Scratch folder of this task; it exists."""
    uploads: Path
    """Uploads come from this folder, and from nowhere else."""
    hosts: Mapping[str, int] = field(default_factory=dict)
    """Host name -> port on 127.0.0.1."""
    allowed_domains: tuple[str, ...] = ()
    """Empty: every domain is allowed."""
    webrtc: bool = False
    """Whether WebRTC may send UDP, where no allowed_domains hold."""
    virtual_hosts: tuple[str, ...] = ()
    """Templates of servers that serve several hosts as the first part of a path (spec.hosts.Domains)."""
    start: datetime | None = None
    """The browser's `Date` begins here and runs on."""
    base_url: str | None = None
    recording: Recording = "auto"
    tracing: Tracing = "retain-on-failure"
    on_request_failed: Callable[[str, str], None] | None = None
    """Called with URL and net error of every request that failed."""
    mark: WorldMark = WorldMark()  # noqa: RUF009 - frozen
    """How the sites are told the world, beside the User-Agent."""
    storage: StorageState | None = None
    """Cookies, localStorage and IndexedDB that the browser starts with: what its episode hands on."""
    leave: Callable[[StorageState], None] | None = None
    """Called with the same at the end, where it can still be had."""
    tls_problem: Callable[[str], TlsProblem | None] = lambda _: None
    """What is wrong on purpose with the https of a host; asked for every connection to it."""

    page_values: Mapping[str, Any] = field(default_factory=dict)
    """What pages read as `window.__taskspec`."""
    init_script: Path | None = None
    """Runs in every page and frame before its own scripts."""

    @property
    def first_script(self) -> str:
        """What runs first in every page and frame: the task's values, then the project's script. Empty: nothing."""
        values = json.dumps(json.dumps(self.page_values))
        given = _GIVE.replace("VALUES", values) if self.page_values else ""
        return given + (self.init_script.read_text("utf-8") if self.init_script else "")

    @property
    def domains(self) -> Domains:
        """Where the task may go."""
        return Domains(self.allowed_domains, self.virtual_hosts)

    @property
    def sealed(self) -> bool:
        """Whether its browser must not send UDP. A session that may lives in a browser of its own kind."""
        return bool(self.allowed_domains) or not self.webrtc

    @property
    def cookies(self) -> list[Any]:
        """The cookies that tell every host of the project which world a request belongs to."""
        addressed = urlsplit(self.base_url or "").hostname
        hosts = dict.fromkeys((*self.hosts, *([addressed] if addressed else ())))
        named = self.mark.cookies(self.world).items()
        return [{"name": name, "value": value, "url": f"http://{host}/"} for name, value in named for host in hosts]

    @property
    def traced_from_start(self) -> bool:
        """Whether the first step is already in trace.zip."""
        return self.tracing == "on" or (self.recording == "full" and self.tracing != "off")

    @property
    def traceable(self) -> bool:
        """Whether a trace may be started at all."""
        return self.tracing == "on" or (self.tracing != "off" and self.recording != "minimal")
