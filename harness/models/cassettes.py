"""The recordings of an agent's questions to models: a file beside the task, a line for each exchange."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.model.model_settings import CASSETTES, CassetteMode
from harness.models.canonical import CanonicalRequest, digest_of, lines_of
from harness.resilience.replaced import write_whole
from harness.spec.names import slug
from harness.values import replace

SUFFIX = ".jsonl"


class RecordedExchange(Struct, frozen=True, kw_only=True):
    """A request to a model and its answer, as they are kept: without keys and secrets."""

    digest: str
    """The sha256 of the canonical request."""
    occurrence: int
    """How often the run had asked the same before."""
    trial: int
    """The trial of the task, from 0: each has answers of its own."""
    request: dict[str, Any]
    """The canonical request."""
    refs: tuple[str, ...] = ()
    """The element refs of the page, in the order of the request."""
    status: int
    headers: dict[str, str]
    """The headers that matter: those of `KEPT_HEADERS`."""
    body: str
    """The body as it came; a stream with all its events."""
    ms: int
    """How long the answer took when it was recorded, in milliseconds."""

    @property
    def place(self) -> tuple[str, int]:
        return self.digest, self.occurrence

    @property
    def key(self) -> str:
        """A short name: `1f2e3d4c5b6a-0`, with `-t2` for the third trial."""
        return f"{self.digest[:12]}-{self.occurrence}" + (f"-t{self.trial}" if self.trial else "")


KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id")


class CassetteMissError(LookupError):
    """A request that no recording answers, where only recordings may."""


class CassetteError(CassetteMissError):
    """A file that is no recording: `file:line: what is wrong`."""


def file_of(folder: Path, task: str, agent: str) -> Path:
    """The file with the recordings of one agent in one task. `folder`: that of the task's file; `task`: its key."""
    return folder / CASSETTES / slug(task) / f"{slug(agent)}{SUFFIX}"


def read(file: Path, shown: str = "", *, mends: bool = False) -> tuple[RecordedExchange, ...]:
    """The exchanges of a file; none if there is no such file. Raises CassetteError, or OSError.

    `shown`: the file as messages name it. `mends`: a broken line is left out.
    """
    found = []
    with suppress(FileNotFoundError):
        for number, each in _lines(file):
            if not isinstance(each, str):
                found.append(each)
            elif not mends:
                raise CassetteError(f"{shown or file}:{number}: {each}")
    return tuple(found)


def problems(file: Path) -> Iterator[tuple[int, str]]:
    """Yield each broken line of a file, with its number from 1. Raises OSError."""
    return ((number, each) for number, each in _lines(file) if isinstance(each, str))


def _lines(file: Path) -> Iterator[tuple[int, RecordedExchange | str]]:
    """Yield the number of each line that is not empty, and its exchange, or what is wrong with it. Raises OSError."""
    known = KnownParts()
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.strip():
            yield number, _exchange(line, known)


def _exchange(line: bytes, known: KnownParts) -> RecordedExchange | str:
    try:
        found = msgspec.json.decode(line, type=RecordedExchange)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"is not a recorded exchange: {error}"
    found = replace(found, request=known.unpacked(found.request))
    changed = digest_of(found.request) != found.digest
    return "the request was changed by hand: its sha256 is not `digest`" if changed else found


# A file has a large part of a request once: the tools are the same in all of them.

_LARGE = 1000
"""The number of characters from which on a part is not repeated."""
_SAME = "same_as"
"""The key of what stands for a part of an earlier line: the beginning of its sha256."""


class KnownParts:
    """The large parts of the requests so far in a file."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}

    def packed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request as a line has it."""
        return self._with_body(request, self._pack)

    def unpacked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request of a line."""
        return self._with_body(request, self._unpack)

    @staticmethod
    def _with_body(request: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
        body = request.get("body")
        if not isinstance(body, dict):
            return dict(request)
        return {**request, "body": {key: change(value) for key, value in body.items()}}

    def _pack(self, value: Any) -> Any:
        name = self._named(value)
        if name is None or name in self._parts:
            return value if name is None else {_SAME: name}
        self._parts[name] = value
        return value

    def _unpack(self, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {_SAME}:
            return self._parts.get(str(value[_SAME]), value)
        if (name := self._named(value)) is not None:
            self._parts[name] = value
        return value

    @staticmethod
    def _named(value: Any) -> str | None:
        if not isinstance(value, dict | list | str) or len(str(value)) < _LARGE:
            return None
        return digest_of(value)[:16]


@dataclass
class Cassette:
    """The recordings of one agent during one run of a task. It lives on the harness's loop; `save` must follow."""

    file: Path
    trial: int
    mode: CassetteMode
    kept: tuple[RecordedExchange, ...]
    """What the file has for this trial."""
    shown: str
    """The file as messages name it."""
    made: list[RecordedExchange] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    """Digest -> how many answers the run has had to it."""
    used: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def open(cls, file: Path, trial: int, mode: CassetteMode, shown: str = "") -> Cassette:
        """Open a file. Raises CassetteError if it cannot be read, except to `record` it anew, which mends it."""
        shown = shown or str(file)
        try:
            kept = () if mode == "record" else tuple(each for each in read(file, shown) if each.trial == trial)
        except OSError as error:
            raise CassetteError(f"{shown}: cannot be read: {error.strerror}") from error
        return cls(file, trial, mode, kept, shown)

    @property
    def records(self) -> bool:
        return self.mode in ("record", "auto")

    def find(self, asked: CanonicalRequest) -> RecordedExchange | None:
        """The recorded answer to the request; None if it must go to the provider.

        Raises CassetteMissError if there is none and nothing may go to a provider. `count` must follow an answer.
        """
        if self.mode == "record":
            return None
        digest = asked.digest
        place = digest, self.asked[digest]
        found = next((each for each in self.kept if each.place == place), None)
        if found is None and self.mode == "replay":
            raise CassetteMissError(_miss(self, asked, digest))
        return found

    def count(self, exchange: RecordedExchange) -> None:
        """The answer has reached the agent in full: the next equal request is a further occurrence."""
        self.asked[exchange.digest] += 1
        self.used.add(exchange.place)

    def add(
        self, asked: CanonicalRequest, status: int, headers: Mapping[str, str], body: str, ms: int
    ) -> RecordedExchange:
        """Keep an answer of the provider. Raises OSError only in `save`."""
        digest = asked.digest
        made = RecordedExchange(
            digest=digest, occurrence=self.asked[digest], trial=self.trial, request=dict(asked.document),
            refs=asked.refs, status=status, headers=dict(headers), body=body, ms=ms,
        )  # fmt: skip
        self.made.append(made)
        self.count(made)
        return made

    @property
    def unused(self) -> int:
        """The number of recordings of this trial that the run has not asked for."""
        return 0 if self.mode == "record" else sum(each.place not in self.used for each in self.kept)

    def save(self) -> None:
        """Write what was recorded, by a rename; other trials of the file stay. Raises OSError or CassetteError."""
        if not self.made:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.file):
            there = read(self.file, mends=self.mode == "record")
            others = [each for each in there if each.trial != self.trial]
            own = [*(self.kept if self.mode == "auto" else ()), *self.made]
            known = KnownParts()
            kept = sorted([*others, *own], key=lambda each: each.trial)
            packed = (replace(each, request=known.packed(each.request)) for each in kept)
            write_whole(self.file, b"".join(msgspec.json.encode(each) + b"\n" for each in packed))


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock of the folder, so that several trials can be written at once by several processes."""
    handle = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


_WIDTH = 160
"""The number of characters of a line that a message shows."""
_BEFORE = 60
"""The number of characters before the first that differs."""


def _miss(cassette: Cassette, asked: CanonicalRequest, digest: str) -> str:
    if not cassette.kept:
        trial = f" for trial {cassette.trial}" if cassette.file.exists() else ""
        return f"there is no recording{trial} in {cassette.shown}"
    times = cassette.asked[digest]
    if times and any(each.digest == digest for each in cassette.kept):
        return f"the request was asked {times + 1} times, and {cassette.shown} has only {times} answers to it"
    nearest = min(cassette.kept, key=lambda each: _distance(lines_of(each.request), asked.lines))
    number, was, now = first_difference(lines_of(nearest.request), asked.lines)
    return (
        f"no recording in {cassette.shown} fits the request; the nearest ({nearest.key}) differs first in line "
        f"{number} of the request: recorded {_shown(was, now)}, now {_shown(now, was)}"
    )


def _distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of lines that only one of the two has."""
    counts = Counter(one)
    counts.subtract(other)
    return sum(map(abs, counts.values()))


def first_difference(recorded: Sequence[str], present: Sequence[str]) -> tuple[int, str | None, str | None]:
    """The first line that differs, counted from 1, in both; None where one has ended."""
    number = next((n for n, (a, b) in enumerate(zip(recorded, present, strict=False)) if a != b), None)
    if number is None:
        number = min(len(recorded), len(present))
    line_at: Callable[[Sequence[str]], str | None] = lambda lines: lines[number] if number < len(lines) else None  # noqa: E731
    return number + 1, line_at(recorded), line_at(present)


def _shown(line: str | None, other: str | None) -> str:
    """The part of a line around the first character in which it differs from the other."""
    if line is None:
        return "no such line"
    same = next((n for n, (a, b) in enumerate(zip(line, other or "", strict=False)) if a != b), 0)
    begin = max(0, same - _BEFORE) if len(line) > _WIDTH else 0
    part = line[begin : begin + _WIDTH].strip()
    return repr(("…" if begin else "") + part + ("…" if begin + _WIDTH < len(line) else ""))
