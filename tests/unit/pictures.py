"""PNGs for tests, made without a library: each pixel has a colour, red, green and blue."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

Colour = tuple[int, ...]
WHITE: Colour = (255, 255, 255)
RED: Colour = (255, 0, 0)


def png(width: int, height: int, colour: Callable[[int, int], Colour] = lambda x, y: WHITE) -> bytes:
    rows = (b"\0" + b"".join(bytes(colour(x, y)) for x in range(width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    parts = (_chunk(kind, data) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def block(width: int, height: int, number: int) -> bytes:
    """White, and the first pixels red: so many."""
    return png(width, height, lambda x, y: RED if y * width + x < number else WHITE)
