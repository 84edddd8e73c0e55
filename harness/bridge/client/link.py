"""One connection of the client: a WebSocket, and what its certificate must be."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

from harness.bridge.client.losses import BridgeError, ConnectionRefusedForGood, LinkLost

_OPENED_WITHIN: Final = 10.0
"""Seconds for one attempt to connect."""
_LOOKED_WITHIN: Final = 2.0
"""Seconds for a look at the certificate of a server that is not trusted."""
_LONGEST_RECEIVED: Final = 8 * 1024 * 1024
"""Bytes of one message of the server at most: a replay has many messages in one."""
_QUICK: Final = 2.0
"""Seconds: a first failure that shows itself sooner is followed by another attempt at once."""
_ALIVE: Final = 20.0
"""Seconds between two pings, and for the answer to one."""


class BridgeLink(Protocol):
    """A connection that is open."""

    async def send(self, text: str) -> None:
        """Send one message. Raises LinkLost."""

    async def receive(self) -> str:
        """The next message. Raises LinkLost, and ConnectionRefusedForGood if the server refuses this client."""

    async def close(self) -> None:
        """Close it; this never fails."""


OpenLink = Callable[[], Awaitable[BridgeLink]]
"""Opens a connection. Raises LinkLost or ConnectionRefusedForGood."""


def bridge_url(url: str) -> str:
    """The WebSocket address of a server: `http://host:port/` is completed. Raises ValueError for anything else."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"url: expected an address such as ws://127.0.0.1:7890/bridge, found {url!r}")
    path = parts.path if parts.path not in ("", "/") else "/bridge"
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


def read_pin(pin: str) -> str:
    """The SHA-256 of a certificate as 64 hexadecimal digits; colons are allowed. Raises ValueError."""
    digits = pin.removeprefix("sha256:").replace(":", "").lower()
    if pin and (len(digits) != 64 or set(digits) - set("0123456789abcdef")):
        raise ValueError(f"pin: expected the SHA-256 of a certificate, 64 hexadecimal digits, found {pin!r}")
    return digits


class WebSocketLink:
    """A `BridgeLink` over the library websockets."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    async def send(self, text: str) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(text)
        except ConnectionClosed as closed:
            raise _loss(closed) from closed

    async def receive(self) -> str:
        from websockets.exceptions import ConnectionClosed

        try:
            return str(await self._socket.recv(decode=True))
        except ConnectionClosed as closed:
            raise _loss(closed) from closed

    async def close(self) -> None:
        await self._socket.close()


def _loss(closed: Any) -> BridgeError:
    """What the end of a connection means."""
    code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
    if reason.startswith(("AUTH_", "CONN_SUPERSEDED")):
        return ConnectionRefusedForGood(reason.split()[0].rstrip(":"), f"the server ended the connection: {reason}")
    silent = "ping timeout" in str(closed)
    said = "the server is silent" if silent else f"the connection was closed ({code}{f', {reason}' if reason else ''})"
    return LinkLost("CONN_WEBSOCKET_CLOSED", said, at_once=not silent)


async def open_link(url: str, pin: str = "") -> BridgeLink:
    """Open a connection, within 10 s. `pin`: see `read_pin`; it replaces the check of the certificate's issuer.

    Raises LinkLost, ConnectionRefusedForGood.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException

    secure = urlsplit(url).scheme == "wss"
    begun = asyncio.get_running_loop().time()
    try:
        socket = await connect(
            url,
            ssl=_context(pin) if secure else None,
            open_timeout=_OPENED_WITHIN,
            ping_interval=_ALIVE,
            ping_timeout=_ALIVE,
            close_timeout=1,
            max_size=_LONGEST_RECEIVED,
            proxy=None,
        )
    except ssl.SSLEOFError as error:  # the connection broke, which says nothing about certificates
        raise LinkLost("CONN_CONNECT_FAILED", f"{url}: {_brief(error)}", at_once=True) from error
    except ssl.SSLError as error:
        raise await _refused_tls(url, error) from error
    except InvalidStatus as error:
        raise _refused_status(error) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        quick = asyncio.get_running_loop().time() - begun < _QUICK and not isinstance(error, ConnectionRefusedError)
        raise LinkLost("CONN_CONNECT_FAILED", f"{url}: {_brief(error)}", at_once=quick) from error
    if secure and pin:
        await _check_pin(socket, pin)
    return WebSocketLink(socket)


def _context(pin: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if pin:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _brief(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there: has the run or the server been started?"
    return f"{type(error).__name__}: {str(error)[:200]}" if str(error) else type(error).__name__


def _refused_status(error: Any) -> BridgeError:
    status = error.response.status_code
    if status in (401, 403):
        return ConnectionRefusedForGood("AUTH_INVALID", f"the server refuses the token or the host (HTTP {status})")
    if status == 404:
        return ConnectionRefusedForGood("CONN_NO_BRIDGE", "this server has no bridge: does it run `--agent bridge`?")
    return LinkLost("CONN_CONNECT_FAILED", f"the server answers HTTP {status}", at_once=True)


# Certificates: what is wrong with one, until when it is valid, and what to do.

_REASONS: Final[dict[str, tuple[str, str]]] = {
    "CERTIFICATE_EXPIRED": ("the certificate has expired", "regenerate_certificates"),
    "CERTIFICATE_NOT_YET_VALID": ("the certificate is not valid yet", "check_the_clocks"),
    "HOSTNAME_MISMATCH": ("the certificate is for another host", "connect_by_the_certificates_name"),
    "SELF_SIGNED": ("the certificate is self-signed", "pin_the_certificate"),
    "UNKNOWN_ISSUER": ("the certificate's issuer is not known here", "install_the_issuers_certificate"),
    "PIN_MISMATCH": ("the certificate is not the pinned one", "confirm_the_pin"),
    "HANDSHAKE_FAILED": ("the server does not speak TLS as expected", "check_the_scheme"),
}
"""Reason -> what it means, and what to do about it."""
_OPENSSL: Final = {
    9: "CERTIFICATE_NOT_YET_VALID", 10: "CERTIFICATE_EXPIRED", 18: "SELF_SIGNED", 19: "SELF_SIGNED",
    20: "UNKNOWN_ISSUER", 21: "UNKNOWN_ISSUER", 62: "HOSTNAME_MISMATCH", 64: "HOSTNAME_MISMATCH",
}  # fmt: skip
"""Number of OpenSSL's verification error -> reason."""


def _tls_refusal(reason: str, certificate: bytes = b"") -> ConnectionRefusedForGood:
    """The error of a certificate that is refused. `certificate`: in DER, if it is known."""
    meaning, action = _REASONS[reason]
    expiry = _expiry_of(certificate)
    details = {
        "reason": reason,
        "expiry": expiry and expiry.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "fingerprint": hashlib.sha256(certificate).hexdigest() if certificate else None,
        "suggested_action": action,
    }
    message = f"TLS certificate validation failed: {meaning}"
    return ConnectionRefusedForGood("CONN_TLS_HANDSHAKE_FAILED", message, details)


def _expiry_of(certificate: bytes) -> datetime | None:
    """The end of a certificate's validity; None if it cannot be read."""
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(certificate).not_valid_after_utc
    except ValueError:
        return None


async def certificate_of(url: str, pin: str) -> bytes:
    """The pinned certificate, in DER, as the server has it now. Raises LinkLost, ConnectionRefusedForGood."""
    if urlsplit(url).scheme != "wss":
        return b""
    if not (certificate := await _look_at_certificate(url)):
        raise LinkLost("CONN_CONNECT_FAILED", f"{url}: the server does not answer")
    if (reason := _wrong_pin(certificate, pin)) is not None:
        raise _tls_refusal(reason, certificate)
    return certificate


async def fetch_blob(url: str, token: str, sha256: str, certificate: bytes = b"") -> bytes:
    """A body outside the messages. `certificate`: the only one to trust, in DER. Raises BridgeError."""
    import httpx2

    parts = urlsplit(url)
    address = urlunsplit(({"ws": "http", "wss": "https"}[parts.scheme], parts.netloc, f"/blobs/{sha256}", "", ""))
    trust: ssl.SSLContext | bool = True
    if certificate:
        trust = ssl.create_default_context(cadata=certificate)
        trust.check_hostname = False
        trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        async with httpx2.AsyncClient(verify=trust, timeout=_OPENED_WITHIN, trust_env=False) as http:
            answer = await http.get(address, headers={"authorization": f"Bearer {token}"})
    except httpx2.HTTPError as error:
        raise LinkLost("CONN_CONNECT_FAILED", f"{address}: {_brief(error)}") from error
    if answer.status_code != 200:
        raise BridgeError("SESS_NO_BLOB", f"{address}: the server answers HTTP {answer.status_code}")
    return bytes(answer.content)


async def _check_pin(socket: Any, pin: str) -> None:
    """Nothing but the handshake was sent before: a server with another certificate does not see the token."""
    certificate = socket.transport.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
    if (reason := _wrong_pin(certificate, pin)) is not None:
        socket.transport.abort()
        raise _tls_refusal(reason, certificate)


def _wrong_pin(certificate: bytes, pin: str) -> str | None:
    if hashlib.sha256(certificate).hexdigest() != pin:
        return "PIN_MISMATCH"
    return "CERTIFICATE_EXPIRED" if _is_over(certificate) else None


def _is_over(certificate: bytes) -> bool:
    expiry = _expiry_of(certificate)
    return expiry is not None and expiry < datetime.now(UTC)


async def _refused_tls(url: str, error: ssl.SSLError) -> ConnectionRefusedForGood:
    number = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    if number is None:
        return _tls_refusal("HANDSHAKE_FAILED")
    certificate = await _look_at_certificate(url)
    reason = "CERTIFICATE_EXPIRED" if _is_over(certificate) else _OPENSSL.get(number, "UNKNOWN_ISSUER")
    return _tls_refusal(reason, certificate)


async def _look_at_certificate(url: str) -> bytes:
    """The certificate of the server, in DER, by a second handshake on which nothing is sent; empty if that fails."""
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_LOOKED_WITHIN):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=context)
    except (OSError, TimeoutError):
        return b""
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return certificate or b""
