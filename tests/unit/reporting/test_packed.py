"""Secrets in what is packed."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib

import pytest

from harness.reporting import redaction as packed
from harness.reporting.redact_files import redact_bytes
from harness.reporting.redaction import DEPTH, LEFT_OUT, MARK, Redactor, redact_packed

SECRET = b"hunter2-secret"
REDACTOR = Redactor([SECRET.decode()])


def zipped(**files: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return target.getvalue()


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as made:
        return {name: made.read(name) for name in made.namelist()}


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
@pytest.mark.parametrize("around", [b"text %s", b"\xff\x00 %s \xfe"], ids=["text", "bytes"])
def test_what_is_deflated_is_unpacked(pack: type[bytes], around: bytes) -> None:
    masked = REDACTOR.data(pack(around % SECRET))
    assert zlib.decompress(masked, 47) == around % MARK.encode()


def test_a_zip_is_unpacked_with_all_that_is_in_it() -> None:
    data = zipped(a=b"a " + SECRET, b=gzip.compress(SECRET), c=zipped(deep=SECRET), **{SECRET.decode(): b"named"})
    found = unzipped(REDACTOR.data(data))
    assert found["a"] == b"a " + MARK.encode()
    assert gzip.decompress(found["b"]) == MARK.encode()
    assert unzipped(found["c"]) == {"deep": MARK.encode()}
    assert found[MARK] == b"named"


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"plain"), zlib.compress(b"plain"), zipped(a=b"plain"), b"x\x9c no", b""],
    ids=["gzip", "zlib", "zip", "no zlib", "nothing"],
)
def test_nothing_changes_without_a_secret(data: bytes) -> None:
    assert REDACTOR.data(data) == data


def test_a_deflated_body_is_masked_by_its_names() -> None:
    masked = redact_bytes(gzip.compress(b'{"password": "unknown"}'), "application/octet-stream", Redactor())
    assert gzip.decompress(masked) == b'{"password": "[redacted]"}'


def test_a_body_cut_off_is_redacted_as_far_as_it_goes() -> None:
    whole = gzip.compress(b"%s " % SECRET + bytes(range(256)) * 20)
    masked = REDACTOR.data(whole[:-20])
    assert SECRET not in zlib.decompress(masked, 31)


@pytest.mark.parametrize("data", [b"PK\x03\x04 no zip", zipped(a=b"x" * 50)[:-10]], ids=["no zip", "cut off"])
def test_a_broken_zip_is_left_out(data: bytes) -> None:
    assert REDACTOR.data(data) == LEFT_OUT


def test_what_is_too_large_or_too_deep_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = SECRET
    for _ in range(DEPTH + 2):
        deep = gzip.compress(deep)
    assert redact_packed(deep, lambda data: data.replace(SECRET, b"")) != deep
    monkeypatch.setattr(packed, "LARGEST", 1000)
    assert gzip.decompress(REDACTOR.data(gzip.compress(b"x" * 1001))) == LEFT_OUT
    assert REDACTOR.data(zipped(a=b"x" * 1001)) == LEFT_OUT
