"""Redacts what is packed: gzip, deflate and zip files, one in the other."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable

LARGEST = 64 * 2**20
"""Bytes of one thing when unpacked; what is larger cannot be redacted, and is left out."""
DEPTH = 4
"""Packed things in packed things; those further inside are left out."""
LEFT_OUT = b"[left out: too large or too deep to be redacted]"

Redact = Callable[[bytes], bytes]
_DEFLATED = {b"\x1f\x8b": 31, b"\x78": 15}
"""First bytes of gzip and zlib, and what zlib calls them."""


def redact_packed(data: bytes, redact: Redact, depth: int = 0) -> bytes:
    """Unpack, `redact`, pack again; what is not packed goes to `redact` as it is. Without a secret nothing changes."""

    def inside(found: bytes) -> bytes:
        return redact_packed(found, redact, depth + 1) if depth < DEPTH else LEFT_OUT

    if data.startswith(b"PK\x03\x04"):
        return _zip(data, inside)
    for start, bits in _DEFLATED.items():
        if data.startswith(start) and (content := _inflated(data, bits)) is not None:
            return _deflated(data, bits, content, inside)
    return redact(data)


def _deflated(data: bytes, bits: int, content: bytes, inside: Redact) -> bytes:
    masked = LEFT_OUT if len(content) > LARGEST else inside(content)
    if masked == content:
        return data
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(masked) + packer.flush()


def _inflated(data: bytes, bits: int) -> bytes | None:
    """As much of the content as there is, at most a byte more than LARGEST; None when it is not deflated."""
    try:
        return zlib.decompressobj(bits).decompress(data, LARGEST + 1) or None
    except zlib.error:
        return None


def _zip(data: bytes, inside: Redact) -> bytes:
    """A zip that is broken, encrypted or a bomb is left out: what it holds could not be redacted."""
    target = io.BytesIO()
    changed = False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
            if sum(info.file_size for info in old.infolist()) > LARGEST:
                return LEFT_OUT
            for info in old.infolist():
                found = (info.filename.encode("utf-8", "replace"), b"" if info.is_dir() else old.read(info))
                name, content = map(inside, found)
                changed = changed or (name, content) != found
                new.writestr(name.decode("utf-8", "replace"), content)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, OSError, ValueError):
        return LEFT_OUT
    return target.getvalue() if changed else data
