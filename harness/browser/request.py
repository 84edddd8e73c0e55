"""What a session is asked to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from harness.settings import Recording, Tracing
from harness.spec.faults.network import TlsProblem


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
    start: datetime | None = None
    """The browser's `Date` begins here and runs on."""
    base_url: str | None = None
    recording: Recording = "auto"
    tracing: Tracing = "retain-on-failure"
    on_request_failed: Callable[[str, str], None] | None = None
    """Called with URL and net error of every request that failed."""
    tls_problem: Callable[[str], TlsProblem | None] = lambda _: None
    """What is wrong on purpose with the https of a host; asked for every connection to it."""

    @property
    def traced_from_start(self) -> bool:
        """Whether the first step is already in trace.zip (DESIGN 4.11)."""
        return self.tracing == "on" or (self.recording == "full" and self.tracing != "off")

    @property
    def traceable(self) -> bool:
        """Whether a trace may be started at all."""
        return self.tracing == "on" or (self.tracing != "off" and self.recording != "minimal")
