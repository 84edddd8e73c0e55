"""A store: names and bytes, in a folder or in a storage of other machines. All methods may be called from any thread.

No storage of objects can append to one. So the lines of a journal are objects of their own, which nothing replaces: a
line is there as a whole or not at all, and two writers cannot disturb each other.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
"""How a URL begins; a path with a drive letter is none."""
EXTRA = "pip install 'pytest-taskspec[store]'"
_FLAT = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "r2"}
"""Protocols of storages without folders. In such a one, `makedirs` might create a bucket."""


class StoreError(Exception):
    """The store did not do what it was asked: the text says what, where and why. It may work a moment later."""


class StoreUnusable(StoreError):  # noqa: N818 - it is a StoreError
    """The store cannot be used at all: a URL of an unknown kind, a missing package, no such bucket, no permission."""


class Store(ABC):
    """Names with slashes -> bytes. Every method raises StoreError."""

    shown: str
    """The URL without its user and password."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self._writer = uuid4().hex[:12]
        self._lines = count(1)

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Store the bytes, in place of earlier ones of this name. They are durable when this returns."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """The bytes of a name; None if there is no such name."""

    @abstractmethod
    def names(self, below: str = "") -> list[str]:
        """All names that begin with `below/`, in order; all names of the store if it is empty."""

    @abstractmethod
    def at(self, name: str) -> Store:
        """The store of all names that begin with `name/`."""

    @property
    def local(self) -> Path | None:
        """The folder of a store on this machine; None for others."""
        return None

    def append(self, name: str, lines: Iterable[str]) -> None:
        """Append lines to a journal of this name. They are durable when this returns, all of them or none."""
        text = "".join(f"{line}\n" for line in lines)
        self.put(f"{name}/{self._writer}-{next(self._lines):08}.jsonl", text.encode())

    def lines(self, name: str) -> list[str]:
        """The lines of a journal: those of one writer in their order, one writer after the other."""
        parts = [self.get(part) for part in self.names(name) if part.endswith(".jsonl")]
        return [line for part in parts if part is not None for line in part.decode("utf-8", "replace").splitlines()]

    def put_folder(self, folder: Path, name: str) -> None:
        """Store all files in a folder and below it under `name/`. Links and what is no file are left out."""
        for path in _files_in(folder):
            relative = path.relative_to(folder).as_posix()
            try:
                data = path.read_bytes()
            except OSError as error:
                raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
            self.put(f"{name}/{relative}", data)

    def fetch_folder(self, name: str, target: Path) -> None:
        """Write everything below `name/` into a folder, which is made. Names that lead out of it are left out."""
        for each in self.names(name):
            relative = each[len(name) :].lstrip("/")
            data = self.get(each) if _is_inside(relative) else None
            if data is not None:
                path = target / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


def _files_in(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders.sort()
        paths = (Path(place, name) for name in sorted(files))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _is_inside(relative: str) -> bool:
    """Return whether a name leads to a file below the folder that it is joined to, on every system."""
    parts = relative.split("/")
    return all(part not in ("", ".", "..") and "\\" not in part and ":" not in part for part in parts)


class FolderStore(Store):
    """A folder, perhaps of a disk that several machines share."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder

    @property
    def local(self) -> Path | None:
        return self._folder

    def put(self, name: str, data: bytes) -> None:
        path = self._folder / name
        part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise StoreError(f"{self.shown}: {name} cannot be stored: {error.strerror or error}") from error

    def get(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreError(f"{self.shown}: {name} cannot be read: {error.strerror or error}") from error

    def names(self, below: str = "") -> list[str]:
        found = _files_in(self._folder / below)
        return sorted(path.relative_to(self._folder).as_posix() for path in found if not path.name.endswith(".part"))

    def at(self, name: str) -> Store:
        return FolderStore(self._folder / name)


class RemoteStore(Store):
    """A storage that fsspec knows, for example of S3."""

    def __init__(self, files: Any, root: str, shown: str) -> None:
        """`files`: fsspec's file system. `root`: the path of this store in it."""
        super().__init__(shown)
        self._files = files
        self._root = root.rstrip("/")
        protocols = (files.protocol,) if isinstance(files.protocol, str) else files.protocol
        self._flat = not _FLAT.isdisjoint(protocols)

    def put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        try:
            if not self._flat:
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, data)
        except Exception as error:
            raise self._problem(f"{name} cannot be stored", error) from error

    def get(self, name: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(f"{self._root}/{name}"))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._problem(f"{name} cannot be read", error) from error

    def names(self, below: str = "") -> list[str]:
        try:
            self._files.invalidate_cache()  # others write here too
            found = self._files.find(f"{self._root}/{below}".rstrip("/"))
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._problem("its names cannot be listed", error) from error
        base = f"{self._root.lstrip('/')}/"
        inside = (str(path).lstrip("/") for path in found)
        return sorted(path.removeprefix(base) for path in inside if path.startswith(base))

    def at(self, name: str) -> Store:
        return RemoteStore(self._files, f"{self._root}/{name}", f"{self.shown}/{name}")

    def folders(self, pattern: str) -> list[Store]:
        """The stores whose names below this one match a pattern of folders."""
        try:
            self._files.invalidate_cache()
            found = self._files.glob(f"{self._root}/{pattern}")
        except Exception as error:
            raise self._problem(f"{pattern} cannot be looked for", error) from error
        base = f"{self._root.lstrip('/')}/"
        return [self.at(str(path).lstrip("/").removeprefix(base).rstrip("/")) for path in sorted(found)]

    def _problem(self, what: str, error: Exception) -> StoreError:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        kind = StoreUnusable if isinstance(error, PermissionError | FileNotFoundError) else StoreError
        return kind(f"{self.shown}: {what}: {why}")


def open_store(url: str) -> Store:
    """The store of a URL that fsspec knows (`s3://bucket/path`), or of a folder (a path, or `file:///path`).

    Nothing is asked yet. Raises StoreUnusable.
    """
    if not SCHEME.match(url):
        return FolderStore(Path(url).expanduser().absolute())
    parts = urlsplit(url)
    if parts.scheme.lower() in ("file", "local"):
        return FolderStore(Path(unquote(f"{parts.netloc}{parts.path}")).absolute())
    shown = _without_user(url)
    try:
        from fsspec.core import url_to_fs  # an extra
    except ImportError as error:
        raise StoreUnusable(f"{shown}: a store that is no folder needs fsspec: {EXTRA}") from error
    try:
        files, root = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise StoreUnusable(f"{shown}: {error}") from error
    return RemoteStore(files, str(root), shown.rstrip("/"))


def _without_user(url: str) -> str:
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


_MAGIC = re.compile(r"[*?\[]")


def find_stores(url: str) -> Sequence[Store]:
    """The stores that a URL or path with `*`, `?` and `[...]` names, in order; of one without them that one.

    Raises StoreError.
    """
    if not _MAGIC.search(url):
        return [open_store(url)]
    parts = url.split("/")
    first = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    base, pattern = open_store("/".join(parts[:first]) or "/"), "/".join(parts[first:])
    if isinstance(base, RemoteStore):
        return base.folders(pattern)
    folder = base.local
    assert folder is not None  # it is a FolderStore
    return [base.at(str(PurePosixPath(path.relative_to(folder)))) for path in sorted(folder.glob(pattern))]
