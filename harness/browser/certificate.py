"""A key that lives as long as the process, and certificates for it that nobody else is asked to trust."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

# `cryptography` is imported where it is used: a run without https needs no more of it than a key.


@dataclass(frozen=True, slots=True)
class ThrowAwayKey:
    """A private key in memory. Chromium is told to accept its certificates by `spki`, and no other."""

    private: EllipticCurvePrivateKey
    spki: str
    """Base64 of the SHA-256 of the public key, as `--ignore-certificate-errors-spki-list` wants it."""

    @classmethod
    def new(cls) -> ThrowAwayKey:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        private = ec.generate_private_key(ec.SECP256R1())
        public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(private, base64.b64encode(hashlib.sha256(public).digest()).decode("ascii"))

    def certificate(self, hosts: Iterable[str]) -> bytes:
        """PEM. Its dates are wide: a task may set the browser's clock to any day."""
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
        """What a server of these hosts needs. `ssl` reads keys from files only: `folder` has one for a moment.

        Raises OSError when the file cannot be written.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        number, name = tempfile.mkstemp(dir=folder)  # readable by its owner alone
        try:
            with os.fdopen(number, "wb") as file:
                file.write(self.pem + self.certificate(hosts))
            context.load_cert_chain(name)
        finally:
            Path(name).unlink()
        return context

    @property
    def pem(self) -> bytes:
        """The key itself, not encrypted."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
