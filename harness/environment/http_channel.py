"""A channel over HTTP: GET reads, PUT restores, PATCH merges (RFC 7386), POST <url>/reset resets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from harness.criteria.paths import PathError, list_index, segments
from harness.environment.channel import MAX_DOCUMENT, Channel, Refused, corrupt, encoded, refusal, rejected, unreadable
from harness.model.settings import WorldMark
from harness.recovery.failure import Failed
from harness.task_secrets import hidden

_ADDRESS = "127.0.0.1"
Recover = Callable[[str], Awaitable[None]]


class HttpChannel(Channel):
    """A channel over HTTP. Raises ValueError for a URL that is not http(s)."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        timeout: float,
        hosts: Mapping[str, int],
        recover: Recover | None = None,
        mark: WorldMark = WorldMark(),  # noqa: B008 - frozen
    ) -> None:
        """`timeout` is in seconds for one request; `hosts` maps names to ports and is read for each request.

        `recover` restarts the service behind a URL if it is lost; then a request is sent again that surely was not
        sent. The User-Agent names the world, and so does the `mark` that the project declares.
        """
        super().__init__(name)
        self._mark = mark
        self._url = httpx2.URL(url)
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise ValueError(f"channel `{name}`: {url!r} is not an http:// URL")
        self._timeout = timeout
        self._hosts, self._recover = hosts, recover
        self._parsed = False
        """Whether an earlier answer was JSON: then an answer that is not is damaged, and the address is right."""
        self._client = httpx2.AsyncClient(trust_env=False, timeout=timeout)

    async def read(self, world: str) -> Any:
        body = await self._request("GET", self._url, world)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            failed = corrupt if self._parsed else rejected
            raise failed(self._name, f"GET {self._url} did not answer with JSON: {error}", error) from error
        self._parsed = True
        return document

    async def writable(self) -> bool:
        return True

    async def write(self, world: str, path: str, value: Any) -> None:
        """Write with one PATCH if a merge patch can express it; else read the document, change it and put it back."""
        patch = self._patch(path, value)
        if patch is None:
            return await super().write(world, path, value)
        async with self._writing(world):  # it would be lost between the reading and the putting back
            await self._request("PATCH", self._url, world, patch)

    async def _replace(self, world: str, document: Any) -> None:
        await self._request("PUT", self._url, world, document)

    async def merge(self, world: str, patch: Any) -> bool:
        try:
            async with self._writing(world):
                await self._request("PATCH", self._url, world, patch)
        except Refused:
            return False
        return True

    async def resettable(self) -> bool:
        return True

    async def reset(self, world: str) -> None:
        url = self._url.copy_with(path=f"{self._url.path.rstrip('/')}/reset")
        await self._request("POST", url, world)

    async def close(self) -> None:
        await self._client.aclose()

    def _patch(self, path: str, value: Any) -> dict[str, Any] | None:
        """The merge patch for a value, or None: null would remove it, and an object would be merged, not written."""
        try:
            way = segments(path)
        except PathError as error:
            raise refusal(self._name, f"cannot write to {path!r}: {error}") from error
        keys = all(
            isinstance(each, str) and list_index(each) is None for each in way
        )  # no index, which none can follow
        if not way or value is None or isinstance(value, dict) or not keys:
            return None
        patch = value
        for key in reversed(way):
            patch = {key: patch}
        return dict(patch)

    @property
    def _port(self) -> int | None:
        return {host.lower(): port for host, port in self._hosts.items()}.get(self._url.host.lower())

    async def _request(self, method: str, url: httpx2.URL, world: str, body: Any = None) -> bytes:
        if self._recover is None or self._port is None:
            return await self._request_once(method, url, world, body)
        try:
            return await self._request_once(method, url, world, body)
        except Failed as failed:
            broken = failed.failure.cause
            refused_or_only_read = isinstance(broken, httpx2.ConnectError) or method == "GET"
            if not refused_or_only_read or not isinstance(broken, httpx2.NetworkError | httpx2.RemoteProtocolError):
                raise
        await self._recover(str(url))
        return await self._request_once(method, url, world, body)

    async def _request_once(self, method: str, url: httpx2.URL, world: str, body: Any) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(method, url, world, body)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise unreadable(self._name, f"{method} {url}: no answer within {self._timeout:g} s", error) from error
        except httpx2.ConnectError as error:
            port = f" on port {self._port}" if self._port else ""
            raise unreadable(self._name, f"{method} {url}: nothing listens{port} ({error})", error) from error
        except httpx2.HTTPError as error:
            raise unreadable(self._name, f"{method} {url}: {error or type(error).__name__}", error) from error

    async def _exchange(self, method: str, url: httpx2.URL, world: str, body: Any) -> bytes:
        target = url if self._port is None else url.copy_with(scheme="http", host=_ADDRESS, port=self._port)
        headers = {"Host": url.netloc.decode("ascii"), "User-Agent": f"harness-channel harness-world/{world}"}
        headers |= self._mark.headers(world)
        if cookies := self._mark.cookies(world):
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        content = None
        if body is not None or method == "PUT":
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
            content = encoded(body)
        received = bytearray()
        async with self._client.stream(method, target, headers=headers, content=content) as response:
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_DOCUMENT:
                    raise rejected(self._name, f"{method} {url}: the answer is larger than {MAX_DOCUMENT} bytes")
        if not response.is_success:
            shown = hidden(received.decode(errors="replace"))[:200].strip()
            said = f": {shown}" if shown else ", without a body" if not received else ""
            raise rejected(self._name, f"{method} {url} answered {response.status_code}{said}")
        return bytes(received)
