"""The differences between two corpora, readable."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

FIGURES = "bench"
"""The folder of figures that are never equal: they are there to be read."""
LONGEST = 400
"""Characters of a line of a difference."""


def differences(before: Path, after: Path) -> Iterator[str]:
    """The lines of all differences between two corpora, file by file."""
    old, new = files(before), files(after)
    for name in sorted(old | new):
        if name not in new:
            yield f"only in {before}: {name}"
        elif name not in old:
            yield f"only in {after}: {name}"
        else:
            one, other = ((folder / name).read_text("utf-8").splitlines() for folder in (before, after))
            yield from (line[:LONGEST] for line in unified_diff(one, other, name, name, n=1, lineterm=""))


def files(folder: Path) -> set[str]:
    """The names of the files of a corpus which are compared."""
    names = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {name.as_posix() for name in names if name.parts[0] != FIGURES}
