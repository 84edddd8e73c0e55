"""What `[tool.harness]` says of the demo sites."""

from __future__ import annotations

from collections.abc import Mapping

PORT = 8470
HOSTS = ("world", "shop", "bank", "gov", "util", "food", "transport", "stream", "travel")
"""The sites, in the order of their ports."""

_SERVICE = """\
[tool.harness.services.demo]
command = ["{python}", "-m", "harness.demo", "--port", "PORT", "--state", ".harness/demo.sqlite3"]
hosts = HOSTS
health = "http://world.local/health"
identity = { service = "taskspec-demo" }
"""
_CHANNEL = """\
[tool.harness.channels.env]
url = "http://world.local/env"
clock = "world.now"
"""


def usual_ports() -> dict[str, int]:
    """Host -> port, as `harness demo` starts them by default."""
    return {f"{name}.local": PORT + place for place, name in enumerate(HOSTS)}


def settings_text(hosts: Mapping[str, int], *, channel: bool = True) -> str:
    """The TOML that starts the sites, and (`channel`) gives criteria `json('env', ...)`."""
    table = "{ " + ", ".join(f'"{host}" = {port}' for host, port in hosts.items()) + " }"
    service = _SERVICE.replace("PORT", str(min(hosts.values()))).replace("HOSTS", table)
    return f"{service}\n{_CHANNEL}" if channel else service
