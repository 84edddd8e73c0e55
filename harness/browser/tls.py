"""https for hosts that serve plain http: TLS ends at a loopback port, and the bytes go on to the host's own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from harness.resilience.streams import BACKLOG, CHUNK, Stream, accept, bound, end_abruptly, join

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from harness.spec.faults.network import TlsProblem


# A key that exists as long as the process, and certificates for it that only this harness's browsers trust.
# `cryptography` is imported where it is used: a run without https needs no more of it than a key.


class ThrowAwayKey(Struct, frozen=True):
    """A private key in memory. Chromium accepts its certificates by `spki`, and no others."""

    private: EllipticCurvePrivateKey
    spki: str
    """Base64 of the SHA-256 of the public key, as `--ignore-certificate-errors-spki-list` requires it."""

    @classmethod
    def new(cls) -> ThrowAwayKey:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        private = ec.generate_private_key(ec.SECP256R1())
        public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(private, base64.b64encode(hashlib.sha256(public).digest()).decode("ascii"))

    def certificate(self, hosts: Iterable[str]) -> bytes:
        """A certificate in PEM. Its dates are wide, since a task may set the browser's clock to any day."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "harness throw-away")])
        alternatives = [x509.DNSName(host.encode("idna").decode("ascii")) for host in sorted(hosts)]
        builder = x509.CertificateBuilder(name, name, self.private.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        builder = builder.not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return builder.sign(self.private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def context(self, hosts: Iterable[str], folder: Path) -> ssl.SSLContext:
        """The context for a server of these hosts. `ssl` reads keys only from files: `folder` holds one for a moment.

        Raises OSError if the file cannot be written.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        number, name = tempfile.mkstemp(dir=folder)  # only its owner can read it
        try:
            with os.fdopen(number, "wb") as file:
                file.write(self.pem + self.certificate(hosts))
            context.load_cert_chain(name)
        finally:
            Path(name).unlink()
        return context

    @property
    def pem(self) -> bytes:
        """The private key in PEM, not encrypted."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


_PLAIN_ANSWER = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


class TlsEnd(Stream):
    """A connection whose other end is a TLS client. Unlike in asyncio's own, the two directions end separately."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        super().__init__(reader, writer)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def shake_hands(self) -> None:
        """Do the TLS handshake, before anything else. Raises OSError (ssl.SSLError is one)."""
        try:
            while not self._is_handshake_done():
                await self._flush()
                if not await self._feed():
                    raise ConnectionResetError("the client left before it said anything")
        finally:
            await self._flush()  # this also sends the alert that tells the client what is wrong

    def _is_handshake_done(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._feed():  # browsers close without TLS's close_notify
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        await self._flush()

    async def end(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it wants to read the peer's close_notify; `read` does that
            self._tls.unwrap()
        await self._flush()
        await super().end()

    async def _feed(self) -> bool:
        """Read more encrypted bytes; return whether any came."""
        data = await super().read()
        self._incoming.write(data)
        return bool(data)

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await super().send(self._outgoing.read())


_REFUSED = "net::ERR_CONNECTION_REFUSED"
_RESET = ("ERR_CONNECTION_RESET", "ERR_CONNECTION_CLOSED")

_Report = Callable[[str, str], None]
"""Receives (URL, the browser's error) of a request that failed."""
_Problem: TypeAlias = "Callable[[str], TlsProblem | None]"
"""Host -> the TLS fault of the connection that is now made to it."""


class TlsFront:
    """One listener for each host, so that the target is known before anything is answered.

    The site is connected first: if it is down, the browser's connection is reset. All of this runs on the loop's
    thread.
    """

    def __init__(
        self, hosts: Mapping[str, int], key: ThrowAwayKey | None, temp: Path, problem: _Problem = lambda _: None
    ) -> None:
        """`key` may be None if there are no hosts."""
        self.hosts = dict(hosts)
        """Host -> its plain port."""
        self._key, self._temp, self._problem = key, temp, problem
        self._down: set[str] = set()
        self.connections: set[asyncio.Task[None]] = set()
        """One task for each connection that is open."""
        self._listeners = {host: bound() for host in hosts}
        self.ports: dict[str, int] = {host: each.getsockname()[1] for host, each in self._listeners.items()}
        """Host -> its https port."""
        for host, listener in self._listeners.items():
            listener.listen(BACKLOG)
            serve = partial(self._serve, host)
            asyncio.get_running_loop().add_reader(listener, accept, listener, serve, self.connections)

    @property
    def spki(self) -> str:
        """The public key to accept, see ThrowAwayKey."""
        return self._key.spki if self._key else ""

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """The TLS context, made for the first connection, since most tasks have none."""
        assert self._key is not None
        return self._key.context(self.hosts, self._temp)

    @cached_property
    def _unknown(self) -> ssl.SSLContext:
        """The TLS context of a certificate whose key is not among the accepted ones."""
        return ThrowAwayKey.new().context(self.hosts, self._temp)

    def naming(self, report: _Report) -> _Report:
        """Wrap a `report`, so that a host that refuses is reported as refusing; the browser itself sees a reset."""

        def tell(url: str, error: str) -> None:
            if any(name in error for name in _RESET):
                parts = urlsplit(url)
                down = parts.scheme in ("https", "wss") and (parts.hostname or "").lower() in self._down
                error = _REFUSED if down else error
            report(url, error)

        return tell

    def stop_listening(self) -> None:
        """Stop listening, and end the connections as soon as the loop runs on."""
        for listener in self._listeners.values():
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        self._listeners.clear()
        for task in self.connections:
            task.cancel()

    async def close(self) -> None:
        """End everything; nothing is left afterwards."""
        self.stop_listening()
        await asyncio.gather(*self.connections, return_exceptions=True)

    async def _serve(self, host: str, connection: socket.socket) -> None:
        try:
            site = await Stream.to(self.hosts[host])
        except OSError:
            self._down.add(host)
            end_abruptly(connection)
            return
        self._down.discard(host)
        try:
            with contextlib.suppress(OSError):  # one end has closed; the other was told
                await self._connect(host, connection, site)
        finally:
            site.drop()

    async def _connect(self, host: str, connection: socket.socket, site: Stream) -> None:
        problem = self._problem(host)
        streams = await asyncio.open_connection(sock=connection)
        plain = problem == "protocol"  # then it answers as a server does that does not know TLS
        client = Stream(*streams) if plain else TlsEnd(*streams, self._unknown if problem else self._context)
        try:
            if isinstance(client, TlsEnd):
                await client.shake_hands()
                await join(client, site)
                await client.close()
            else:
                await client.read()
                await client.finish(_PLAIN_ANSWER)
        finally:
            client.drop()
