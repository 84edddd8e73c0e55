"""The differences between two corpora, readable."""

from __future__ import annotations

from collections.abc import Container, Iterator
from difflib import unified_diff
from pathlib import Path

from tools.corpus.masks import masked

FIGURES = "bench"
"""The folder of figures that are never equal: they are there to be read."""
LONGEST = 400
"""Characters of a line of a difference."""


def differences(before: Path, after: Path) -> Iterator[str]:
    """The lines of all differences between two corpora, file by file, in the parts that both have."""
    both = {path.name for path in before.iterdir()} & {path.name for path in after.iterdir()} - {FIGURES}
    old, new = files(before, both), files(after, both)
    for name in sorted(old | new):
        if name not in new:
            yield f"only in {before}: {name}"
        elif name not in old:
            yield f"only in {after}: {name}"
        else:
            texts = ((folder / name).read_text("utf-8") for folder in (before, after))
            one, other = (masked(text, name, {}).splitlines() for text in texts)  # a mask may be younger than a corpus
            yield from (line[:LONGEST] for line in unified_diff(one, other, name, name, n=1, lineterm=""))


def files(folder: Path, parts: Container[str]) -> set[str]:
    """The names of the files of a corpus in parts that are compared."""
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {name.as_posix() for name in names if name.parts[0] in parts}
