"""The pictures of screenshot comparisons that failed, in the folder of a failed task."""

from __future__ import annotations

import base64
import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from harness.reporting.files import is_inside, read_regular
from harness.spec.pictures import ACTUAL, COMPARISONS, DIFF, EXPECTED

_ROLES = (EXPECTED, ACTUAL, DIFF)
PNG = b"\x89PNG\r\n\x1a\n"
IMAGE_DIFF = "application/vnd.allure.image.diff"
"""Allure's type for pictures that it shows side by side, or one over the other."""
LARGEST = 12_000_000
"""The largest size of the pictures of one comparison in an attachment of that type, in bytes."""


class ComparedPictures(Struct, frozen=True):
    """The pictures of one comparison: expected, actual and what differs, as far as they exist."""

    name: str
    """The number of the step, and the name of the baseline: `3-card-linux`."""
    files: Mapping[str, Path]
    """File name -> file, in the order of `_ROLES`."""

    @property
    def step(self) -> int | None:
        """The number of the step; None for a folder that was not made by a run."""
        number = self.name[:1] + self.name[1:].partition("-")[0]
        return int(number) if number.lstrip("-").isdecimal() else None

    @property
    def size(self) -> int:
        """The size of all pictures, in bytes."""
        return sum(file.stat().st_size for file in self.files.values())

    def data(self) -> dict[str, str]:
        """File name -> its picture as a `data:` URL. Raises OSError if one cannot be read."""
        found = {name: read_regular(file) for name, file in self.files.items()}
        return {name: data_url(content) for name, content in found.items() if content.startswith(PNG)}


def data_url(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


_BOMB = 64_000_000
"""The largest size of an unpacked picture that is looked at, in bytes."""


def shows_nothing(picture: bytes) -> bool:
    """Whether all lines of a PNG are equal, as of a page that was never loaded."""
    packed, at, height = bytearray(), len(PNG), 0
    while kind := picture[at + 4 : at + 8]:
        size = int.from_bytes(picture[at : at + 4])
        if kind == b"IHDR":
            height = int.from_bytes(picture[at + 12 : at + 16])
        elif kind == b"IDAT":
            packed += picture[at + 8 : at + 8 + size]
        at += 12 + size
    try:
        lines = zlib.decompressobj().decompress(bytes(packed), _BOMB)
    except zlib.error:
        return False
    if not height or len(lines) % height or not lines:
        return False
    width = len(lines) // height
    first, second = lines[:width], lines[width : 2 * width]  # the first is filtered in another way than the rest
    return lines == first + second * (height - 1)


def compared_pictures(folder: Path) -> Iterator[ComparedPictures]:
    """The comparisons that a failed task has left in its folder, by their steps."""
    places: list[Path] = []
    with contextlib.suppress(OSError):  # there are none, or they cannot be read
        places += (folder / "files" / COMPARISONS).iterdir()
    found = []
    for each in places:
        files = {name: each / name for name in _ROLES if (each / name).is_file() and is_inside(folder, each / name)}
        if files:
            found.append(ComparedPictures(each.name, files))
    yield from sorted(found, key=lambda pictures: (pictures.step is None, pictures.step or 0, pictures.name))


def image_diff(pictures: ComparedPictures) -> str | None:
    """The pictures as Allure shows them side by side; None if there are too few, or they are too large."""
    if EXPECTED not in pictures.files or ACTUAL not in pictures.files or pictures.size > LARGEST:
        return None
    return json.dumps({name.removesuffix(".png"): url for name, url in pictures.data().items()})
