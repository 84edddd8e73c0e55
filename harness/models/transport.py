"""The transport below the providers' clients: requests to the project's services go to their ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx2

LOOPBACK = "127.0.0.1"
Hosts = Callable[[], Mapping[str, int]]
"""Host name, in lower case -> port on 127.0.0.1, as the task's requests find it; read for each request."""


class TaskTransport(httpx2.AsyncBaseTransport):
    """The way of one task's requests to models. It closes nothing: `inner` belongs to the run."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, hosts: Hosts) -> None:
        self._inner = inner
        self._hosts = hosts

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request; one to a host of the project's services goes to its port, with its name as `Host`."""
        port = self._hosts().get(request.url.host.lower())
        if port is not None:
            request.url = request.url.copy_with(scheme="http", host=LOOPBACK, port=port)
        return await self._inner.handle_async_request(request)


def connections() -> httpx2.AsyncBaseTransport:
    """The connections that all tasks of a run share."""
    return httpx2.AsyncHTTPTransport(trust_env=False, limits=httpx2.Limits(max_connections=None))
