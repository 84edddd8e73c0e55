"""Finds the server of a project, or starts one in the background."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from harness.resilience import Clock, poll_until
from harness.serve.address import ServeAddress, address_of
from harness.serve.server import SERVICE

PROBE: Final = 0.5
"""Seconds that one request to `/health` may take."""
READY: Final = 4.0
"""Seconds that a server may take to start."""
POLL: Final = 0.05
LOG: Final = Path(".harness/logs/serve.log")
_COMMAND: Final = ("-P", "-c", "from harness.cli import main; main()", "serve")


class NotServedError(Exception):
    """The server did not start; the text says why."""


def answers(address: ServeAddress) -> bool:
    """Return whether the server at this address is ready, and is one of ours."""
    connection = connection_to(address, PROBE)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return answer.status == 200 and json.loads(answer.read()).get("service") == SERVICE
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return False
    finally:
        connection.close()


def connection_to(address: ServeAddress, within: float) -> http.client.HTTPConnection:
    """A connection to a server of this project on this machine. `within`: seconds for each part of a request."""
    if not address.secure:
        return http.client.HTTPConnection(address.reached_at, address.port, timeout=within)
    # The process behind the address is ours, whoever signed its certificate.
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(address.reached_at, address.port, timeout=within, context=unchecked)


async def serving(
    root: Path,
    clock: Clock,
    idle: float | None = None,
    options: Sequence[str] = (),
    begun: Callable[[int], object] = lambda _: None,
) -> ServeAddress:
    """The server of the project: the one that runs, or a new one. Raises NotServedError.

    A new one is started with the options, and ends by itself after `idle` seconds without a viewer and without a run;
    None: it stays. `begun` is told the pid of a process that is started.
    """
    found = address_of(root)
    if found is not None and answers(found):
        return found
    process = _start(root, [*options, *(() if idle is None else ("--idle", f"{idle:g}"))])
    begun(process.pid)

    def is_ready() -> bool:
        address = address_of(root)
        return process.poll() not in (None, 0) or (address is not None and answers(address))

    await poll_until(clock, is_ready, POLL, READY)
    address = address_of(root)
    if address is None or not answers(address):
        raise NotServedError(_why(root, process))
    return address


def _why(root: Path, process: subprocess.Popen[bytes]) -> str:
    if process.poll() is None:
        return f"the server did not start within {READY:g} s: its log is {LOG}"
    try:
        said = [line for line in (root / LOG).read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        said = []
    return said[-1].removeprefix("error: ") if said else f"the server ended with status {process.returncode}"


def _start(root: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    log = root / LOG
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *_COMMAND, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=root,
                start_new_session=True,
            )
    except OSError as error:
        raise NotServedError(f"the server could not be started: {error}") from error
