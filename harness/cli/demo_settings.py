"""What `[tool.harness]` says of the demo sites."""

from __future__ import annotations

import json
from collections.abc import Mapping

PORT = 8470
HOSTS = ("world", "shop", "bank", "gov", "util", "food", "transport", "stream", "travel")
"""The sites, in the order of their ports."""

ISOLATION = 'isolation = "world"'
"""The demo sites keep a state for each world."""
_SERVICE = """\
[tool.harness.services.demo]
command = ["{python}", "-m", "harness.demo", "--ports", "{ports}", "--state", "{folder}/demo.sqlite3"]
hosts = HOSTS
health = "http://world.local/health"
identity = { service = "taskspec-demo" }
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
    """The TOML that starts the sites, and (`channel`) gives criteria `json('env', ...)`.

    `isolation`: with `[tool.harness]` itself, which a file can have only once.
    """
    table = "{ " + ", ".join(f'"{host}" = {json.dumps(port)}' for host, port in hosts.items()) + " }"
    service = _SERVICE.replace("HOSTS", table)
    head = f"[tool.harness]\n{ISOLATION}\n\n" if isolation else ""
    return f"{head}{service}\n{_CHANNEL}" if channel else f"{head}{service}"
