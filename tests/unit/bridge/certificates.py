"""Self-signed certificates for servers on loopback."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificate(folder: Path, *, expired: bool = False, issued: bool = False) -> tuple[ssl.SSLContext, str]:
    """A server's context with a new certificate for localhost, and the SHA-256 of that.

    It is signed by itself, or, if `issued`, by an issuer that nobody knows.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = ec.generate_private_key(ec.SECP256R1()) if issued else key
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    by = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")]) if issued else name
    begins = datetime(2020, 1, 1, tzinfo=UTC)
    ends = datetime(2026, 3, 1, tzinfo=UTC) if expired else datetime.now(UTC) + timedelta(days=30)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(issuer, hashes.SHA256())
    )
    file = folder / ("expired.pem" if expired else "valid.pem")
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context, made.fingerprint(hashes.SHA256()).hex()
