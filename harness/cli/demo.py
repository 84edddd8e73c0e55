"""`harness demo`: the demo sites, running, and a first task for them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from types import FrameType
from typing import Annotated

import typer

HOSTS = ("world", "shop", "bank", "gov", "util", "food", "transport", "stream", "travel", "models")
"""The sites, in the order of their ports."""

ISOLATION = 'isolation = "world"'
"""The setting for the demo sites, which keep a state for each world."""
_SERVICE = """\
[tool.harness.services.demo]
command = ["{python}", "-m", "harness.demo", "--ports", "{ports}", "--state", "{folder}/demo.sqlite3"]
hosts = HOSTS
health = "http://world.local/health"
identity = { service = "taskspec-demo", version = "1.2" }
"""
_CHANNEL = """\
[tool.harness.channels.env]
url = "http://world.local/env"
clock = "world.now"
"""


def free_ports() -> dict[str, str]:
    """Host -> `auto`: each run starts sites of its own, on ports that are free then."""
    return {f"{name}.local": "auto" for name in HOSTS}


def settings_text(hosts: Mapping[str, int | str], *, channel: bool = True, isolation: bool = True) -> str:
    """The TOML that starts the sites and, with `channel`, gives criteria `json('env', ...)`.

    `isolation`: include `[tool.harness]` itself, which a file can have only once.
    """
    table = "{ " + ", ".join(f'"{host}" = {json.dumps(port)}' for host, port in hosts.items()) + " }"
    service = _SERVICE.replace("HOSTS", table)
    head = f"[tool.harness]\n{ISOLATION}\n\n" if isolation else ""
    return f"{head}{service}\n{_CHANNEL}" if channel else f"{head}{service}"


_TASK = """\
# first.task.yaml
task_id: FIRST-001
goal: Find the wireless mouse
steps:
  - open: http://shop.local/
  - type: {"#search-box": wireless mouse}
  - press: Enter
  - see: Logitech M185
success_criteria:
  - "text('.product-grid') includes 'Logitech M185'"
"""


def demo(
    port: Annotated[int, typer.Option(help="Port of the first site; the others have the next ones.")] = 8470,
) -> None:
    """Start the demo sites and show a task to try. Ctrl-C stops the sites.

    Example: harness demo --port 9000
    """
    raise typer.Exit(_run_demo(port))


def _run_demo(port: int) -> int:
    """Run until Ctrl-C, SIGTERM or SIGHUP; return the exit code: 0, or the sites' own if they cannot start."""
    if running := _running(port):
        print(_welcome(running, f"The demo sites already run on port {port}"), flush=True)
        return 0
    stops: list[int] = []
    sites: list[subprocess.Popen[str]] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stops.append(number)
        for process in sites:
            process.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):  # also where the shell ignores Ctrl-C for a background job
        signal.signal(number, stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` keeps its meaning
        signal.signal(signal.SIGHUP, stop)
    sites.append(
        subprocess.Popen([sys.executable, "-m", "harness.demo", "--port", str(port)], stdout=subprocess.PIPE, text=True)
    )
    if stops:
        stop(stops[0], None)  # the signal came during the start
    code = _attend(sites[0])
    return 0 if stops else code


def _attend(process: subprocess.Popen[str]) -> int:
    """Print the welcome and wait for the end; every way out ends the sites."""
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if line:
            welcome = _welcome(json.loads(line)["hosts"], "The demo sites run")
            print(f"{welcome}\nCtrl-C ends the sites.", flush=True)
        return process.wait()
    finally:
        process.terminate()


def _running(port: int) -> dict[str, int] | None:
    """Host -> port of demo sites that answer here already; None if there are none."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/health", timeout=3) as answer:
            health = json.load(answer)
    except (OSError, ValueError, HTTPException):
        return None
    ours = isinstance(health, dict) and health.get("service") == "taskspec-demo"
    return health["hosts"] if ours else None


def _welcome(hosts: dict[str, int], headline: str) -> str:
    places = "\n".join(f"  {host:15} http://127.0.0.1:{port}/" for host, port in hosts.items())
    settings = f"# pyproject.toml\n{settings_text(free_ports())}"
    return (
        f"{headline} (bank: demo / demo-pass):\n{places}\n\n"
        f"A task to try, in an empty folder:\n\n{_TASK}\n{settings}\n"
        "Run it with: pytest first.task.yaml    (a run starts sites of its own, on free ports, and ends them)"
    )
