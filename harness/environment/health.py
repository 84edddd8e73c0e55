"""Asks a service for its identity and its health."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from harness.model.service_settings import ServiceSettings

if TYPE_CHECKING:
    import httpx2

PROBE_TIMEOUT = 0.5
"""Seconds for one request."""
ADDRESS = "127.0.0.1"
_MAX_ANSWER = 1_000_000
"""The number of bytes of an answer that are read; a health answer is much smaller."""


class Health(Enum):
    """The kinds of answers at a port."""

    HEALTHY = "healthy"
    ABSENT = "absent"
    """Nothing listens there."""
    SILENT = "silent"
    """Something listens and has not answered yet."""
    STARTING = "starting"
    """It answers 503: it is starting, or shutting down."""
    OTHER = "other"
    """Something answers, but not as expected."""


WAITS = (Health.SILENT, Health.STARTING)
"""The answers of a service that may still become ready."""


class HealthAnswer(Struct, frozen=True):
    """The answer to one request; `problem` says in words what is wrong with it."""

    health: Health
    problem: str = ""
    ending: bool = False
    """The process may be ending: it accepted the connection and did not answer."""


class HealthEndpoint(Struct, frozen=True):
    """The health URL of a service, and the expected answer. Raises ValueError for a URL that is not on its hosts."""

    url: httpx2.URL
    host_header: str
    port: int
    identity: Mapping[str, str]

    @classmethod
    def of(cls, name: str, settings: ServiceSettings, ports: Mapping[str, int]) -> HealthEndpoint:
        """Build it; `ports`: host name, in lower case -> port."""
        parts = urlsplit(settings.health)
        host = parts.hostname or ""
        if parts.scheme != "http" or host not in ports:
            known = ", ".join(sorted(ports)) or "none"
            raise ValueError(f"service `{name}`: health {settings.health!r} must be an http:// URL of: {known}")
        import httpx2  # here and below: a run without services needs no client

        port = ports[host]
        url = httpx2.URL(settings.health).copy_with(host=ADDRESS, port=port)
        return cls(url, parts.netloc.rpartition("@")[2], port, settings.identity)


def client() -> httpx2.AsyncClient:
    """A client without kept connections, proxies and certificates, since the services are local."""
    import httpx2

    limits = httpx2.Limits(max_keepalive_connections=0)
    return httpx2.AsyncClient(verify=False, trust_env=False, limits=limits, timeout=None)


async def probe(http: httpx2.AsyncClient, endpoint: HealthEndpoint, within: float = PROBE_TIMEOUT) -> HealthAnswer:
    """Ask once, for at most `within` seconds. It never raises."""
    import httpx2

    try:
        async with asyncio.timeout(within):
            return await _ask(http, endpoint)
    except httpx2.ConnectError:
        return HealthAnswer(Health.ABSENT, "nothing listens")
    except (TimeoutError, httpx2.TimeoutException):
        return HealthAnswer(Health.SILENT, f"no answer within {within * 1000:.0f} ms")
    except httpx2.HTTPError as error:
        why = str(error) or "it closes the connection"
        return HealthAnswer(Health.OTHER, f"it does not answer in HTTP: {why}", ending=True)


async def _ask(http: httpx2.AsyncClient, endpoint: HealthEndpoint) -> HealthAnswer:
    import httpx2

    body = bytearray()
    async with http.stream("GET", endpoint.url, headers={"Host": endpoint.host_header}) as response:
        if response.status_code == httpx2.codes.SERVICE_UNAVAILABLE:
            return HealthAnswer(Health.STARTING, "it answers 503")
        if response.status_code != httpx2.codes.OK:
            return HealthAnswer(Health.OTHER, f"it answers {response.status_code}")
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_ANSWER:
                return HealthAnswer(Health.OTHER, "its health answer does not end")
    return _identify(bytes(body), endpoint.identity)


def _identify(body: bytes, identity: Mapping[str, str]) -> HealthAnswer:
    if not identity:
        return HealthAnswer(Health.HEALTHY)
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):  # RecursionError: endlessly nested JSON
        return HealthAnswer(Health.OTHER, "its health answer is not JSON")
    said = document if isinstance(document, dict) else {}
    wrong = [
        f"{key} is {said.get(key)!r} instead of {wanted!r}"
        for key, wanted in identity.items()
        if str(said.get(key, "")) != wanted
    ]
    problem = f"in its health answer {', '.join(wrong)}"
    return HealthAnswer(Health.OTHER, problem) if wrong else HealthAnswer(Health.HEALTHY)
