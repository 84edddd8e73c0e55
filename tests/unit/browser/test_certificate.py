"""The throw-away key, its certificate, and the file that `ssl` reads it from."""

from __future__ import annotations

import base64
import hashlib
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from harness.browser.tls import ThrowAwayKey

HOSTS = ("shop.test", "bank.test", "bücher.test")


def test_the_certificate_names_all_hosts_and_has_the_key_that_chromium_is_told() -> None:
    key = ThrowAwayKey.new()
    certificate = x509.load_pem_x509_certificate(key.certificate(HOSTS))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["bank.test", "xn--bcher-kva.test", "shop.test"]
    public = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert base64.b64decode(key.spki) == hashlib.sha256(public).digest()


def test_two_keys_are_never_the_same() -> None:
    assert ThrowAwayKey.new().spki != ThrowAwayKey.new().spki


def test_the_key_is_on_disk_only_while_ssl_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, name: str, *rest: Any) -> None:
        modes.append(stat.S_IMODE(Path(name).stat().st_mode))
        load(context, name, *rest)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    ThrowAwayKey.new().context(HOSTS, tmp_path)
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_nor_when_ssl_cannot_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ssl.SSLError("no")

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", broken)
    with pytest.raises(ssl.SSLError):
        ThrowAwayKey.new().context(HOSTS, tmp_path)
    assert list(tmp_path.iterdir()) == []
