"""Certificates that no browser takes."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


@dataclass(frozen=True, slots=True)
class Kind:
    """What the certificate says. All of them are signed by a key that nobody knows."""

    name: str
    host: str = "127.0.0.1"
    until: datetime = datetime(2100, 1, 1, tzinfo=UTC)


UNKNOWN_ISSUER = Kind("unknown-issuer")
EXPIRED = Kind("expired", until=datetime(2020, 1, 1, tzinfo=UTC))
OTHER_HOST = Kind("other-host", host="192.0.2.1")


def server_context(kind: Kind, folder: Path) -> ssl.SSLContext:
    """What a server with such a certificate needs; `ssl` reads it from a file in `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, kind.name)])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime(2019, 1, 1, tzinfo=UTC)).not_valid_after(kind.until)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address(kind.host))])
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    file = folder / f"{kind.name}.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
