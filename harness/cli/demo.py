"""`harness demo`: the demo sites, running, and a first task for them."""

from __future__ import annotations

import json
import subprocess
import sys

TASK = """\
# first.task.yaml
task_id: FIRST-001
goal: Find the wireless mouse
steps:
  - {act: open, url: "http://shop.local/"}
  - {act: type, selector: "#search-box", value: wireless mouse}
  - {act: press, selector: "#search-box", value: Enter}
  - {act: wait, selector: ".product-item"}
success_criteria:
  - "text('.product-grid') includes 'Logitech M185'"
"""

SETTINGS = """\
# pyproject.toml
[tool.harness.services.demo]
command = ["{python}", "-m", "harness.demo", "--port", "PORT"]
hosts = HOSTS
health = "http://world.local/health"
identity = { service = "taskspec-demo" }
"""


def run_demo(port: int) -> int:
    """Runs until Ctrl-C; returns the exit code of the sites."""
    command = [sys.executable, "-m", "harness.demo", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if line:
            print(_welcome(json.loads(line)["hosts"]), flush=True)
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return 0


def _welcome(hosts: dict[str, int]) -> str:
    places = "\n".join(f"  {host:12} http://127.0.0.1:{port}/" for host, port in hosts.items())
    table = "{ " + ", ".join(f'"{host}" = {port}' for host, port in hosts.items()) + " }"
    settings = SETTINGS.replace("PORT", str(min(hosts.values()))).replace("HOSTS", table)
    return (
        f"The demo sites run (bank: demo / demo-pass):\n{places}\n\n"
        f"A task to try, in an empty folder:\n\n{TASK}\n{settings}\n"
        "Run it with: pytest first.task.yaml    (the sites are started by themselves, or reused)\n"
        "Ctrl-C ends the sites."
    )
