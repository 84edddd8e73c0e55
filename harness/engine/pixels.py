"""Compares two screenshots pixel by pixel. It is also the program that does so: a comparison can hang no other task."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

MISSING = "`assert` with `screenshot` needs blazediff: pip install 'pytest-taskspec[screenshots]'"
_PNG = b"\x89PNG\r\n\x1a\n"


def installed() -> bool:
    """Whether the package that compares pictures is installed."""
    return find_spec("blazediff") is not None


def size_of(picture: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG in pixels; None for anything else. Pure."""
    if not picture.startswith(_PNG) or picture[12:16] != b"IHDR" or len(picture) < 24:
        return None
    return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")


def count_differing(expected: Path, actual: Path, diff: Path, threshold: float, within: float) -> int:
    """How many pixels of two PNGs of the same size differ, beyond the smoothing of edges; `diff` shows them in red.

    Raises ValueError for a picture that cannot be read, TimeoutError after `within` seconds.
    """
    command = [sys.executable, "-P", __file__, str(expected), str(actual), str(diff), str(threshold)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within, check=False)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"the comparison took more than {within:.3g} s") from error
    if done.returncode:
        raise ValueError(done.stderr.strip().rpartition("\n")[2] or f"the comparison ended with {done.returncode}")
    return int(json.loads(done.stdout))


def _main(expected: str, actual: str, diff: str, threshold: str) -> None:
    import blazediff

    # `antialiasing` leaves out the pixels by which only the smoothing of edges differs, as pixelmatch does.
    options = {"threshold": float(threshold), "antialiasing": True, "compression": 6}
    found = blazediff.compare(expected, actual, diff, **options)
    sys.stdout.write(json.dumps(found.diff_count or 0))


if __name__ == "__main__":
    _main(*sys.argv[1:])
