"""A project that starts its own demo sites, on ports that nobody else uses."""

from __future__ import annotations

import json
import random
import socket
import urllib.request
from contextlib import ExitStack

from harness.cli.demo import HOSTS, settings_text


def free_base() -> int:
    """The first of as many free ports in a row as there are sites."""
    while True:
        base = random.randrange(20_000, 30_000)
        try:
            with ExitStack() as bound:
                for offset in range(len(HOSTS)):
                    bound.enter_context(socket.create_server(("127.0.0.1", base + offset)))
        except OSError:
            continue
        return base


def pyproject(base: int) -> str:
    """What `harness new` writes, for these ports; the machine may be busy."""
    text = settings_text({f"{name}.local": base + offset for offset, name in enumerate(HOSTS)})
    return text.replace("health =", "ready_timeout = 60\nhealth =")


def site_pid(base: int) -> int | None:
    """The pid that the sites answer with; None while they do not."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{base}/health", timeout=10) as answer:
            return int(json.load(answer)["pid"])
    except (OSError, ValueError):
        return None
