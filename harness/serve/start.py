"""Finds the server of a project, or starts one in the background, and asks it something."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Final

from harness.resilience import Clock, poll_until
from harness.serve.address import ServeAddress, address_of
from harness.serve.server import SERVICE
from harness.serve.tokens import Tokens, TokenScope

_PROBE: Final = 0.5
"""Seconds that one request to `/health` may take."""
_STARTS_WITHIN: Final = 30.0
"""Seconds that a server may take to start: one that cannot start ends, so only a busy machine needs them."""
_POLL: Final = 0.05
_LEAST_SPACE: Final = 64 * 1024
"""Bytes on the disk with which a server can keep its address and write a line."""
_LOG: Final = Path(".harness/logs/serve.log")
_COMMAND: Final = ("-P", "-c", "from harness.cli import main; main()", "serve")


class NotServedError(Exception):
    """The server did not start; the text says why."""


def answers(address: ServeAddress) -> bool:
    """Return whether the server at this address is ready, and is one of ours."""
    try:
        status, body = _answer(address, _PROBE, "GET", "/health", None, {})
        return status == 200 and json.loads(body).get("service") == SERVICE
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return False


def asked(
    root: Path, address: ServeAddress, scope: TokenScope, within: float, method: str, path: str, document: object = None
) -> tuple[int, str]:
    """The status and text with which a server of the project answers. Raises OSError and HTTPException."""
    token = Tokens.of(root).issue(scope, datetime.now(UTC), timedelta(minutes=1))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if document is None else json.dumps(document)
    status, found = _answer(address, within, method, path, body, headers)
    return status, found.decode("utf-8", "replace")


def _answer(
    address: ServeAddress, within: float, method: str, path: str, body: str | None, headers: dict[str, str]
) -> tuple[int, bytes]:
    with contextlib.closing(_connection_to(address, within)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _connection_to(address: ServeAddress, within: float) -> http.client.HTTPConnection:
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
    process, said_from = _start(root, [*options, *(() if idle is None else ("--idle", f"{idle:g}"))], clock)
    begun(process.pid)

    def is_ready() -> bool:
        address = address_of(root)
        return process.poll() not in (None, 0) or (address is not None and answers(address))

    await poll_until(clock, is_ready, _POLL, _STARTS_WITHIN)
    address = address_of(root)
    if address is None or not answers(address):
        raise NotServedError(_why(root, process, said_from))
    return address


def _why(root: Path, process: subprocess.Popen[bytes], said_from: int) -> str:
    if process.poll() is None:
        late = f"the server did not start within {_STARTS_WITHIN:g} s"
        return f"{late}; it may yet (`harness serve status`), and its log is {_LOG}"
    try:
        text = (root / _LOG).read_bytes()[said_from:].decode("utf-8", "replace")
        free = shutil.disk_usage(root).free
    except OSError:
        text, free = "", _LEAST_SPACE
    if said := [line for line in text.splitlines() if line.strip()]:
        return said[-1].removeprefix("error: ")
    if free < _LEAST_SPACE:
        return f"the server ended, and could not say why: {root} is on a disk without space; free some"
    return f"the server ended with status {process.returncode}, and without a word in {_LOG}"


def _start(root: Path, options: Sequence[str], clock: Clock) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server that outlives this process. Returns also where its own lines begin in the log.

    Raises NotServedError if the log cannot take a line.
    """
    log = root / _LOG
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            output.write(f"--- started at {clock.wall().isoformat(timespec='milliseconds')}\n".encode())
            output.flush()  # a server on a full disk could not say why it ends
            said_from = output.tell()  # before the server writes: it shares this place in the file
            return _spawn(root, options, output), said_from
    except OSError as error:
        why = f"{_LOG} cannot be written: {error.strerror or error}"
        raise NotServedError(f"the server could not be started: {why}; free space, or make it writable") from error


def _spawn(root: Path, options: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process. Raises NotServedError."""
    try:
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
