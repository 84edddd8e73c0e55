"""A store: names and bytes, in a folder or in a storage of other machines. All methods may be called from any thread.

No storage of objects can append to one. So the lines of a journal are objects of their own, which nothing replaces: a
line is there as a whole or not at all, and two writers cannot disturb each other.
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
"""How a URL begins; a path with a drive letter is none."""
_FLAT = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "r2"}
"""Protocols of storages without folders. In such a one, `makedirs` might create a bucket."""
_BUCKETS = {"s3", "s3a", "gs", "gcs"}
"""Protocols whose URLs name a bucket first, which has no user and password."""
_AT_ONCE = 200
"""The number of objects that a storage is asked for at once. Their bytes are in memory together."""
_NOT_HERE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Why a folder can take nothing, now or later."""
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV}
"""How a disk says that a file cannot have a second name on it."""
_NO_NAME = {errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}
"""How a disk says that it can have no file of this name: another file is a folder of it, or it is too long."""


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
    def put_new(self, name: str, data: bytes) -> bool:
        """Store the bytes unless there is such a name; returns whether they were. Of several at once, one succeeds."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """The bytes of a name; None if there is no such name."""

    def get_each(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """The bytes of each name, in the order of the names; a storage of other machines is asked many at once."""
        return map(self.get, names)

    @abstractmethod
    def sizes(self, below: str = "") -> dict[str, int]:
        """The numbers of bytes of all names that begin with `below/`; of all names of the store if that is empty."""

    def names(self, below: str = "") -> list[str]:
        """All names that begin with `below/`, in order; all names of the store if it is empty."""
        return sorted(self.sizes(below))

    @abstractmethod
    def matching(self, pattern: str) -> list[str]:
        """The names of folders and of what is in them that match a pattern (`part-*`, `*/part-*`), in order."""

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
        parts = self.get_each([part for part in self.names(name) if part.endswith(".jsonl")])
        texts = (part.decode("utf-8", "replace") for part in parts if part is not None)
        return [line for text in texts for line in text.split("\n") if line]  # JSON has other ends of lines inside

    def put_folder(self, folder: Path, name: str) -> None:
        """Store all files in a folder and below it under `name/`. Links and what is no file are left out."""
        for path in _files_in(folder):
            relative = path.relative_to(folder).as_posix()
            try:
                data = path.read_bytes()
            except OSError as error:
                raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
            self.put(f"{name}/{relative}", data)

    def fetch_folder(self, name: str, target: Path) -> list[str]:
        """Write everything below `name/` into a folder, which is made. Raises OSError if the disk does not allow it.

        Returns what is left out: names that lead out of the folder, or that no file can have here.
        """
        relative = {each: each[len(name) :].lstrip("/") for each in self.names(name)}
        inside = [each for each in relative if _is_inside(relative[each])]
        left_out = relative.keys() - inside
        for each, data in zip(inside, self.get_each(inside), strict=True):
            if data is not None and not _write(target / relative[each], data):
                left_out.add(each)
        return sorted(left_out)


def _write(path: Path, data: bytes) -> bool:
    """Write a file; returns whether it can have this place."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        if error.errno not in _NO_NAME:
            raise
        return False
    return True


def _files_in(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders.sort()
        paths = (Path(place, name) for name in sorted(files))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _is_inside(relative: str) -> bool:
    """Return whether a name leads to a file below the folder that it is joined to, on every system."""
    parts = relative.split("/")
    return all(part not in ("", ".", "..") and not re.search(r"[\\:\0]", part) for part in parts)


class FolderStore(Store):
    """A folder, perhaps of a disk that several machines share."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        """`root`: a folder above that must be there. One that has vanished is never made anew for what is in it."""
        super().__init__(str(folder))
        self._folder = folder
        self._root = root

    @property
    def local(self) -> Path | None:
        return self._folder

    def put(self, name: str, data: bytes) -> None:
        with self._written(name, data) as part:
            part.replace(self._folder / name)

    def put_new(self, name: str, data: bytes) -> bool:
        try:
            with self._written(name, data) as part:
                _give_name(part, self._folder / name)
        except StoreError as error:
            if isinstance(error.__cause__, FileExistsError) and (self._folder / name).is_file():
                return False
            raise
        return True

    @contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[Path]:
        """A file beside the place of a name, with the bytes on the disk, that is deleted unless it is moved."""
        path = self._folder / name
        part = path.with_name(f".{uuid4().hex}.part")  # _PART
        if self._root is not None and not self._root.is_dir():
            raise StoreError(f"{self.shown}: {name} cannot be stored: {self._root} is gone")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield part
        except OSError as error:
            kind = StoreUnusable if error.errno in _NOT_HERE else StoreError
            raise kind(f"{self.shown}: {name} cannot be stored: {error.strerror or error}") from error
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def get(self, name: str) -> bytes | None:
        path = self._folder / name
        try:
            return path.read_bytes() if S_ISREG(path.stat().st_mode) else None  # reading a pipe would not end
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreError(f"{self.shown}: {name} cannot be read: {error.strerror or error}") from error

    def sizes(self, below: str = "") -> dict[str, int]:
        found = {}
        for path in _files_in(self._folder / below):
            with suppress(OSError):  # it has been moved meanwhile
                if not _PART.fullmatch(path.name):
                    found[path.relative_to(self._folder).as_posix()] = path.stat().st_size
        return found

    def matching(self, pattern: str) -> list[str]:
        return sorted(path.relative_to(self._folder).as_posix() for path in self._folder.glob(pattern))

    def at(self, name: str) -> Store:
        return FolderStore(self._folder / name, self._root or self._folder)


_PART = re.compile(r"\.[0-9a-f]{32}\.part")
"""A file that is being written, or whose writer was killed."""


def _give_name(part: Path, path: Path) -> None:
    """Give a file a further name, which must be new. Raises FileExistsError, OSError."""
    try:
        path.hardlink_to(part)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with path.open("xb") as file:  # of several at once, one opens it
            file.write(part.read_bytes())
            file.flush()
            os.fsync(file.fileno())


class RemoteStore(Store):
    """A storage that fsspec knows, for example of S3."""

    def __init__(self, files: Any, root: str, shown: str, user: str = "") -> None:
        """`files`: fsspec's file system. `root`: the path of this store in it. `user`: what no message may show."""
        super().__init__(shown)
        self._files = files
        self._user = user
        self._root = root.rstrip("/")
        protocols = (files.protocol,) if isinstance(files.protocol, str) else files.protocol
        self._flat = not _FLAT.isdisjoint(protocols)

    def put(self, name: str, data: bytes, **how: str) -> None:
        path = f"{self._root}/{name}"
        try:
            if not self._flat:
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, data, **how)
        except Exception as error:
            raise self._problem(f"{name} cannot be stored", error) from error

    def put_new(self, name: str, data: bytes) -> bool:
        if self.get(name) is not None:  # some storages know no condition, and would replace it
            return False
        try:
            self.put(name, data, mode="create")
        except StoreError as error:  # storages refuse it in many ways
            if self.get(name) is not None:
                return False
            if not _has_no_condition(error.__cause__):
                raise
            self.put(name, data)
        return True

    def get(self, name: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(f"{self._root}/{name}"))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._problem(f"{name} cannot be read", error) from error

    def get_each(self, names: Sequence[str]) -> Iterator[bytes | None]:
        for start in range(0, len(names), _AT_ONCE):
            several = names[start : start + _AT_ONCE]
            # `cat` would take a name with brackets for a pattern, `cat_ranges` takes it as it is.
            answers = self._files.cat_ranges([f"{self._root}/{name}" for name in several], None, None)
            for name, answer in zip(several, answers, strict=True):
                if isinstance(answer, Exception) and not isinstance(answer, FileNotFoundError):
                    raise self._problem(f"{name} cannot be read", answer) from answer
                yield None if isinstance(answer, FileNotFoundError) else bytes(answer)

    def sizes(self, below: str = "") -> dict[str, int]:
        try:
            self._files.invalidate_cache()  # others write here too
            found = self._files.find(f"{self._root}/{below}".rstrip("/"), detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise self._problem("its names cannot be listed", error) from error
        base = f"{self._root.lstrip('/')}/"
        inside = {str(path).lstrip("/"): int(facts.get("size") or 0) for path, facts in found.items()}
        return {path.removeprefix(base): size for path, size in inside.items() if path.startswith(base)}

    def at(self, name: str) -> Store:
        return RemoteStore(self._files, f"{self._root}/{name}", f"{self.shown}/{name}", self._user)

    def matching(self, pattern: str) -> list[str]:
        try:
            self._files.invalidate_cache()
            found = self._files.glob(f"{self._root}/{pattern}")
        except Exception as error:
            raise self._problem(f"{pattern} cannot be looked for", error) from error
        base = f"{self._root.lstrip('/')}/"
        return sorted({str(path).lstrip("/").removeprefix(base).rstrip("/") for path in found})

    def _problem(self, what: str, error: Exception) -> StoreError:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        kind = StoreUnusable if _is_lasting(error) else StoreError
        return kind(f"{self.shown}: {what}: {_without(self._user, why)}{self._missing(error)}")

    def _missing(self, error: Exception) -> str:
        """Which variables with keys are not set, if a storage of S3 has found none."""
        if not _is_without_keys(error) or not self.shown.lower().startswith(("s3://", "s3a://")):
            return ""
        missing = [name for name in _S3_KEYS if name not in os.environ]
        empty = [name for name in _S3_KEYS if os.environ.get(name) == ""]
        told = f". Not set here: {' and '.join(missing)}" if missing else ""
        return told + (f". Set here, but empty: {' and '.join(empty)}" if empty else "")


_KEYLESS = {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "DefaultCredentialsError"}
"""How errors of the packages of storages are called that say that there are no keys, or half of them."""
_S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def _is_lasting(error: Exception) -> bool:
    """Return whether a storage would refuse the same again: there is no such bucket, no permission, or no key.

    EINVAL is what s3fs makes of other refusals, also of an expired token (status 400).
    """
    refused = isinstance(error, OSError) and error.errno in (errno.EINVAL, errno.EPERM)
    return refused or isinstance(error, PermissionError | FileNotFoundError) or _is_without_keys(error)


def _is_without_keys(error: Exception) -> bool:
    """Return whether there are no keys to log in with: they do not come by themselves."""
    return any(each.__name__ in _KEYLESS for each in type(error).__mro__)


def _has_no_condition(error: BaseException | None) -> bool:
    """Return whether a storage did not understand that the name must be new."""
    unknown = isinstance(error, OSError) and error.errno == errno.ENOSYS
    return unknown or isinstance(error, NotImplementedError | TypeError | ValueError)


def open_store(url: str) -> Store:
    """The store of a URL that fsspec knows (`s3://bucket/path`), or of a folder (a path, or `file:///path`).

    Nothing is asked yet. Raises StoreUnusable.
    """
    if not SCHEME.match(url):
        return FolderStore(local_path(url).absolute())
    scheme, _, path = url.partition("://")
    if scheme.lower() in ("file", "local"):
        return FolderStore(Path(unquote(path.removeprefix("localhost"))).absolute())
    user = _user_in(url)
    shown = shown_url(url)
    if ":" in user and scheme.lower() in _BUCKETS:
        how = "keys are given as the storage expects them, for S3 in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise StoreUnusable(f"{shown}: expected the name of a bucket first, found a user; {how}")
    try:
        from fsspec.core import url_to_fs  # an extra
    except ImportError as error:
        install = "pip install 'pytest-taskspec[store]'"
        raise StoreUnusable(f"{shown}: a store that is no folder needs fsspec: {install}") from error
    try:
        files, root = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise StoreUnusable(f"{shown}: {_without(user, str(error))}") from error
    return RemoteStore(files, str(root), shown.rstrip("/"), user)


def local_path(text: str) -> Path:
    """The path, with the home folder for `~`, which no shell replaces in `--task-store=~/runs`."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # nobody has this name
        return Path(text)


def shown_url(url: str) -> str:
    """The URL without its user and password."""
    return _without(_user_in(url), url)


def _user_in(url: str) -> str:
    """The user and password of a URL with the `@`; empty if there is none. The password may contain slashes."""
    found = re.match(r"[^:/]+://((?:[^/@]*|[^/@:]*:(?!\d+/)[^@]*)@)", url)
    return found[1] if found else ""


def _without(user: str, text: str) -> str:
    return text.replace(user, "").replace(unquote(user), "") if user else text


_MAGIC = re.compile(r"[*?\[]")


def find_stores(url: str) -> Sequence[Store]:
    """The stores that a URL or path names, in order: several with `*`, `?` and `[...]`. Raises StoreError."""
    if not _MAGIC.search(url):
        return [open_store(url)]
    parts = url.split("/")
    first = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    base, pattern = open_store("/".join(parts[:first]) or ("/" if first else ".")), "/".join(parts[first:])
    return [base.at(name) for name in base.matching(pattern)]
