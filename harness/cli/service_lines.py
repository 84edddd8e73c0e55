"""How services look in the terminal, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harness.environment.ownership import State
from harness.environment.status import Found
from harness.reporting.files import shown_path


def lines(found: Found) -> str:
    """One service, for people."""
    port = f", port {found.port}" if found.port is not None else ""
    listener = f", pid {found.pid}" if found.pid is not None else ""
    uptime = f" for {duration(found.uptime)}" if found.uptime is not None and found.state is State.UP else ""
    restarts = f", {found.restarts} restarts" if found.owner is not None else ""
    facts = {
        "problem": found.problem,
        "hosts": " ".join(f"{host}:{port}" for host, port in found.hosts.items()),
        "runs": found.command,
        "kept by": _keeper(found),
        "log": shown_path(found.log) if found.log.is_file() else "",
    }
    told = "".join(f"\n  {label:8} {text}" for label, text in facts.items() if text)
    state = "not started" if found.state is State.DOWN and not found.problem else found.state
    return f"{found.name}: {state}{uptime}{port}{listener}{restarts}{told}"


def _keeper(found: Found) -> str:
    if found.persisted:
        return f"pid {found.owner}, until `harness services stop`"
    if found.owner is not None:
        return f"pid {found.owner} ({found.owner_command}), and ends with it"
    return "nobody of this project: it was started by hand" if found.state is State.UP else ""


def document(found: Found) -> dict[str, Any]:
    """The same as plain JSON."""
    return {**asdict(found), "hosts": dict(found.hosts), "state": str(found.state), "log": str(found.log)}


def duration(seconds: float) -> str:
    """`42 s`, `3 min`, `2.5 h`, `4 d`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"
