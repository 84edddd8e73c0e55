"""`${totp:NAME}`: codes as in RFC 6238, and secrets that are none."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from harness.spec.expressions import secrets_of
from harness.spec.one_time import OneTimePasswords, key_of

RFC = b"12345678901234567890"
BASE32 = base64.b32encode(RFC).decode()


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.mark.parametrize(
    ("seconds", "sha1", "sha256", "sha512"),
    [
        (59, "94287082", "46119246", "90693936"),
        (1111111109, "07081804", "68084774", "25091201"),
        (20000000000, "65353130", "77737706", "47863826"),
    ],
)
def test_the_codes_are_those_of_the_rfc(seconds: int, sha1: str, sha256: str, sha512: str) -> None:
    for algorithm, length, code in (("SHA1", 20, sha1), ("sha-256", 32, sha256), ("SHA512", 64, sha512)):
        secret = base64.b32encode((RFC * 4)[:length]).decode()
        uri = f"otpauth://totp/Bank:ann?issuer=Bank&secret={secret}&digits=8&algorithm={algorithm}"
        assert key_of(uri).code(at(seconds)) == code
        assert key_of(uri.replace("digits=8", "period=60&digits=6")).code(at(2 * seconds + 1)) == code[2:]
    assert key_of(BASE32).code(at(seconds)) == sha1[2:]


@pytest.mark.parametrize("written", [BASE32.lower(), " ".join(BASE32), f"{BASE32[:4]}-{BASE32[4:]}", f"{BASE32}===="])
def test_a_secret_may_be_written_as_sites_show_it(written: str) -> None:
    assert key_of(written) == key_of(BASE32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "neither a base32 secret nor"),
        ("123456", "neither a base32 secret nor"),
        ("JBSWY3DP!", "neither a base32 secret nor"),
        ("otpauth://hotp/a?secret=JBSWY3DP", "not of the type `totp`"),
        ("otpauth://totp/a", "has no `secret`"),
        ("otpauth://totp/a?secret=1", "neither a base32 secret nor"),
        ("otpauth://totp/a?secret=JBSWY3DP&algorithm=MD5", "none of SHA1, SHA256, SHA512"),
        ("otpauth://totp/a?secret=JBSWY3DP&digits=4", "`digits` of its otpauth:// URI is not a number from 6 to 8"),
        ("otpauth://totp/a?secret=JBSWY3DP&period=0", "`period` of its otpauth:// URI is not a number from 5 to 3600"),
    ],
)
def test_a_bad_secret_is_told_without_showing_it(text: str, words: str) -> None:
    with pytest.raises(ValueError) as raised:
        key_of(text)
    assert words in str(raised.value)
    assert "JBSWY3DP" not in str(raised.value)


def test_only_in_the_last_second_of_a_code_the_next_one_is_awaited() -> None:
    passwords = OneTimePasswords({"A": key_of(BASE32)})
    assert passwords.wait("A", at(59.0)) == 0
    assert passwords.wait("A", at(59.25)) == 0.75
    assert passwords.wait("A", at(60.0)) == 0


def test_every_code_that_was_made_is_known() -> None:
    passwords = OneTimePasswords({"A": key_of(BASE32)})
    assert [passwords.code("A", at(seconds)) for seconds in (59, 59, 61)] == ["287082", "287082", "359152"]
    assert passwords.made == ("287082", "359152")
    assert ("A" in passwords, "B" in passwords) == (True, False)


def test_the_secret_within_a_uri_is_a_secret_too() -> None:
    uri = f"otpauth://totp/a?secret={BASE32}"
    assert secrets_of(["U", "P"], {"U": uri, "P": "x"}) == (uri, BASE32, "x")
    assert secrets_of(["U"], {"U": "otpauth://[?secret=x"}) == ("otpauth://[?secret=x",)
