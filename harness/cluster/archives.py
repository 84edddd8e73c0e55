"""What tasks leave on the machine of a slot, as archives that travel to the driver."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.cluster.messages import ALLURE

MOST_BYTES = 64 * 2**20
"""The largest size of what a task leaves that travels; the largest files are left out first."""


class TaskArchives:
    """Packs the files below the folder of a child.

    The archives lie beside it, because the slot may read one after the end of the child.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: it has `errors` and `allure`."""
        self._folder = folder
        self._made = 0

    def pack(self, documents: Iterable[Mapping[str, Any]]) -> tuple[Path | None, str]:
        """Move the files of these task records, and Allure's new ones, into an archive; None if there are none.

        Returns also what it lacks, and why.
        """
        found: dict[str, Path] = {}
        for key in dict.fromkeys(document["key"] for document in documents):
            found |= _files(self._folder / "errors" / key, f"{key}/errors")
            found |= _files(self._folder / "errors" / ".kept" / key, f"{key}/kept")
        found |= _files(self._folder / "allure", ALLURE)
        if not found:
            return None, ""
        self._made += 1
        archive = self._folder.with_name(f"{self._folder.name}-{self._made}.tar")
        try:
            return archive, _write(archive, found)
        except OSError as error:
            archive.unlink(missing_ok=True)
            return None, f"these files could not be packed ({error}): {', '.join(found)}"
        finally:
            for path in found.values():
                path.unlink(missing_ok=True)


def _files(folder: Path, name: str) -> dict[str, Path]:
    """Name in the archive -> file, for all files below a folder."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {f"{name}/{path.relative_to(folder).as_posix()}": path for path in found}


def _write(archive: Path, files: dict[str, Path]) -> str:
    kept, left_out = fitting(files, MOST_BYTES)
    with tarfile.open(archive, "w") as tar:
        for name, path in kept.items():
            tar.add(path, name)
    return f"these files were too large to travel: {', '.join(left_out)}" if left_out else ""


def fitting(files: dict[str, Path], most: int) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The files that together have at most so many bytes, and the names of the others: the largest ones."""
    sizes = {name: path.stat().st_size for name, path in files.items()}
    total, left_out = sum(sizes.values()), []
    for name in sorted(sizes, key=lambda each: sizes[each], reverse=True):
        if total <= most:
            break
        total -= sizes[name]
        left_out.append(name)
    return {name: path for name, path in files.items() if name not in left_out}, tuple(left_out)
