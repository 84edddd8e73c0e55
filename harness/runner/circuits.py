"""The circuits of the sites that the tasks of a run visit, and of their agents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

from harness.model.model_settings import ModelSettings
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.resilience import Clock
from harness.resilience.breaker import Breaker, BreakerSettings
from harness.resilience.circuit_store import CircuitStore, CircuitStoreError
from harness.resilience.circuits import CircuitName, Circuits, CircuitScope
from harness.resilience.events import Emit
from harness.runner.compile import recovers
from harness.values import replace

FILE = Path(".harness/circuits.sqlite3")
"""The file of circuits with `persist`, below the project's root."""
_ENDPOINT_FAILURES = 2
"""The number of failed connections in a row that open the circuit: each costs seconds, endpoints may vary."""
_ENDPOINT_REST = 5.0
"""The largest number of seconds until it is tried again: a restarted server is back soon."""
PATIENCE = 5.0
"""Seconds that a person who looks at circuits, or resets them, waits for a run that writes at this moment."""


class RunCircuits:
    """A circuit for each origin, agent and model, shared by all tasks of the process; with `persist`, by others too."""

    def __init__(self, settings: Settings, clock: Clock, emit: Emit, environ: Mapping[str, str]) -> None:
        """Raises ValueError for a damaged circuit file, with its name and the remedy."""
        table = settings.breaker
        self._base = settings.base_url
        self._tool_urls = {name: each.url for name, each in settings.tools.items() if each.url is not None}
        self._enabled = table.enabled and recovers(settings, environ)
        try:
            store = CircuitStore(settings.root / FILE, clock) if self._enabled and table.persist else None
        except CircuitStoreError as error:
            raise ValueError(str(error)) from error
        self._store = store
        self._circuits = _circuits(settings, clock, emit, store, enabled=self._enabled)

    def of(self, plan: Plan) -> Callable[[str], Breaker | None]:
        """The function from a task's URL to its circuit. Ordered faults and expected failures are no site's fault."""
        return self._breaker if self._counts(plan) else _no_circuit

    def _counts(self, plan: Plan) -> bool:
        expect = plan.spec.expect
        expects_failure = expect is not None and expect.final_state in ("failed", "aborted")
        return self._enabled and not plan.faults and not expects_failure

    def agent(self, name: str) -> Breaker | None:
        """The circuit of an agent that chooses steps; None if circuits are off."""
        return self._circuits.breaker(CircuitName(CircuitScope.AGENT, name)) if self._enabled else None

    def provider(self, model: str) -> Breaker | None:
        """The circuit of a model of the settings; None if circuits are off."""
        return self._circuits.breaker(CircuitName(CircuitScope.PROVIDER, model)) if self._enabled else None

    def endpoint(self, name: str) -> Breaker:
        """The circuit of a browser endpoint; if circuits are off, one that never opens."""
        return self._circuits.breaker(CircuitName(CircuitScope.ENDPOINT, name))

    def tool(self, server: str) -> Breaker | None:
        """The circuit of a tool server; None if circuits are off."""
        return self._circuits.breaker(CircuitName(CircuitScope.TOOL, server)) if self._enabled else None

    def tool_of(self, plan: Plan) -> Callable[[str], Breaker | None]:
        """The function from a tool server to its circuit, for one task, by the rule for sites (`of`)."""
        return self.tool if self._counts(plan) else _no_circuit

    def answers_again(self, host: str) -> None:
        """Close the circuits of a host, at its usual ports, without a probe, since it is known to be back."""
        for origin in filter(None, (origin_of(f"{scheme}://{host}", None) for scheme in ("http", "https"))):
            self._close(CircuitName(CircuitScope.ORIGIN, origin))
        for server, url in self._tool_urls.items():
            if urlsplit(url).hostname == host.lower():
                self._close(CircuitName(CircuitScope.TOOL, server))

    def tool_mended(self, server: str) -> None:
        """Close the circuit of a tool server without a probe, since a person has ordered its restart."""
        self._close(CircuitName(CircuitScope.TOOL, server))

    def _close(self, name: CircuitName) -> None:
        with contextlib.suppress(LookupError):  # no task has used its circuit
            self._circuits.reset(name)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _breaker(self, url: str) -> Breaker | None:
        origin = origin_of(url, self._base)
        return self._circuits.breaker(CircuitName(CircuitScope.ORIGIN, origin)) if origin else None


def _no_circuit(_url: str) -> None:
    """The function if nothing is counted."""


@contextlib.contextmanager
def kept_circuits(settings: Settings, clock: Clock, emit: Emit) -> Iterator[Circuits]:
    """The saved circuits (`persist`), for reading and resetting; a running run takes a reset over.

    Raises LookupError if the project has no such file, ValueError for a damaged one, with its name and the remedy.
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
    """Fail if the file is not readable now, so that nobody is shown circuits or a reset that it does not have."""
    raise ValueError(f"{why.partition(';')[0]}: run the command again in a moment")


def _circuits(settings: Settings, clock: Clock, emit: Emit, store: CircuitStore | None, *, enabled: bool) -> Circuits:
    table = settings.breaker
    usual = BreakerSettings(**table.model_dump(exclude={"enabled", "persist"}))
    providers = {
        str(CircuitName(CircuitScope.PROVIDER, name)): thresholds_of(each) for name, each in settings.models.items()
    }
    others = {
        str(CircuitName(scope, name)): replace(usual, **each.breaker.model_dump(exclude_none=True))
        for scope, tables in ((CircuitScope.AGENT, settings.agents), (CircuitScope.TOOL, settings.tools))
        for name, each in tables.items()
    }
    return Circuits(
        usual,
        clock=clock,
        emit=emit,
        store=store,
        enabled=enabled,
        scopes={
            CircuitScope.ENDPOINT: BreakerSettings(_ENDPOINT_FAILURES, 1, min(table.reset_seconds, _ENDPOINT_REST))
        },
        named={**providers, **others},
    )


def thresholds_of(model: ModelSettings) -> BreakerSettings:
    """When the circuit of a model opens and closes. A probe may take as long as a call and its stream."""
    return BreakerSettings(**model.breaker.model_dump(), probe_seconds=model.limits.total + 1)


def origin_of(url: str, base: str | None) -> str | None:
    """The origin `http://shop.local` of a URL, which may be relative to `base`; None for one without a host."""
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
    """The host as browsers write it: a non-ASCII name in punycode, without a final dot."""
    try:
        return host.rstrip(".").encode("idna").decode("ascii")
    except UnicodeError:
        return host
