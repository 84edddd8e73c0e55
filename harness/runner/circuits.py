"""The circuits of the sites that the tasks of a run go to, and of their agents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.resilience import Clock
from harness.resilience.breaker import Breaker, BreakerSettings
from harness.resilience.circuit_store import CircuitStore, CircuitStoreError
from harness.resilience.circuits import CircuitName, Circuits, CircuitScope
from harness.resilience.events import Emit
from harness.runner.compile import recovers

FILE = Path(".harness/circuits.sqlite3")
"""Where they are kept with `persist`, below the project's root."""
ENDPOINT_FAILURES = 2
"""So many connections in a row that fail: each costs seconds, and there may be other endpoints."""
ENDPOINT_REST = 5.0
"""Seconds, at most, until it is tried again: a server that is started again is soon there."""

PATIENCE = 5.0
"""Seconds that a person who looks at circuits, or resets them, waits for a run that writes at this moment."""


class RunCircuits:
    """One for each origin and agent, shared by all tasks of the process, with `persist` by other ones too."""

    def __init__(self, settings: Settings, clock: Clock, emit: Emit, environ: Mapping[str, str]) -> None:
        """Raises ValueError for a kept file that is none, naming it and the remedy."""
        table = settings.breaker
        self._base = settings.base_url
        self._enabled = table.enabled and recovers(settings, environ)
        try:
            store = CircuitStore(settings.root / FILE, clock) if self._enabled and table.persist else None
        except CircuitStoreError as error:
            raise ValueError(str(error)) from error
        self._store = store
        self._circuits = _circuits(settings, clock, emit, store, enabled=self._enabled)

    def of(self, plan: Plan) -> Callable[[str], Breaker | None]:
        """Which circuit a URL of this task belongs to. What a task orders (faults) or expects is no site's fault."""
        return self._none if plan.faults or _expects_failure(plan) or not self._enabled else self._breaker

    def agent(self, name: str) -> Breaker | None:
        """The circuit of an agent that chooses steps; None when they are off."""
        return self._circuits.breaker(CircuitName(CircuitScope.AGENT, name)) if self._enabled else None

    def endpoint(self, name: str) -> Breaker:
        """The circuit of a browser endpoint; where circuits are off, one that never opens."""
        return self._circuits.breaker(CircuitName(CircuitScope.ENDPOINT, name))

    def answers_again(self, host: str) -> None:
        """A host is known to be there again: its circuits close, without a probe."""
        for name in _names(host):
            with contextlib.suppress(LookupError):  # nobody has asked for it
                self._circuits.reset(name)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _breaker(self, url: str) -> Breaker | None:
        origin = origin_of(url, self._base)
        return self._circuits.breaker(CircuitName(CircuitScope.ORIGIN, origin)) if origin else None

    def _none(self, _url: str) -> None:
        """Nothing is counted."""


@contextlib.contextmanager
def kept_circuits(settings: Settings, clock: Clock, emit: Emit) -> Iterator[Circuits]:
    """The circuits that `persist` has kept, to look at and to reset; a run at this moment takes a reset over.

    Raises LookupError when the project has no such file, ValueError for a file that is none, naming it and the remedy.
    """
    file = settings.root / FILE
    if not file.is_file():
        raise LookupError(
            f"no circuits are kept: there is no {file}. `persist = true` in [tool.harness.breaker] of pyproject.toml "
            "keeps them from the next run on"
        )
    try:
        store = CircuitStore(file, clock, patience=PATIENCE, say=_not_now)
    except CircuitStoreError as error:
        raise ValueError(str(error)) from error
    try:
        yield _circuits(settings, clock, emit, store, enabled=True)
    finally:
        store.close()


def _not_now(why: str) -> NoReturn:
    """A person who asks must not be told of circuits, or of a reset, that the file does not have."""
    raise ValueError(f"{why.partition(';')[0]}: run the command again in a moment")


def _circuits(settings: Settings, clock: Clock, emit: Emit, store: CircuitStore | None, *, enabled: bool) -> Circuits:
    table = settings.breaker
    return Circuits(
        BreakerSettings(table.failure_threshold, table.success_threshold, table.reset_seconds, table.volume_threshold),
        clock=clock,
        emit=emit,
        store=store,
        enabled=enabled,
        scopes={CircuitScope.ENDPOINT: BreakerSettings(ENDPOINT_FAILURES, 1, min(table.reset_seconds, ENDPOINT_REST))},
    )


def _names(host: str) -> Iterator[CircuitName]:
    """Of the circuits of a host, at the usual ports."""
    for scheme in ("http", "https"):
        if origin := origin_of(f"{scheme}://{host}", None):
            yield CircuitName(CircuitScope.ORIGIN, origin)


def _expects_failure(plan: Plan) -> bool:
    expect = plan.spec.expect
    return expect is not None and expect.final_state in ("failed", "aborted")


def origin_of(url: str, base: str | None) -> str | None:
    """`http://shop.local` of a URL, which may be relative to `base`; None for one without a host."""
    try:
        parts = urlsplit(urljoin(base, url) if base else url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    known = {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else _as_browsers_write(parts.hostname)
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, known) else "")


def _as_browsers_write(host: str) -> str:
    """A name with signs beyond ASCII has one spelling in URLs (punycode), and no final dot."""
    try:
        return host.rstrip(".").encode("idna").decode("ascii")
    except UnicodeError:
        return host
