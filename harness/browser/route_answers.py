"""The answers that routes give: as declared, or as a HAR file has recorded them. Nothing here knows a browser."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urldefrag, urljoin

from msgspec import Struct

from harness.browser.har import MOST_BYTES
from harness.criteria.paths import PathError, assign
from harness.model.record import MetRoute, RoutedRequest
from harness.recovery.failure import Failed, Failure
from harness.spec.context import header_problem
from harness.spec.names import file_problem
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate
from harness.spec.routes import Patch, Route
from harness.spec.url_patterns import BODILESS, RequestPattern, UrlPattern

Memory = Callable[[], Mapping[str, Any]]
_REDIRECTS = 10
_KEPT = 100
"""The number of answered requests of one route that are kept for the report."""
_TEXT = "text/plain; charset=utf-8"
_OF_TRANSFER = ("content-encoding", "content-length", "transfer-encoding", "connection")
"""Headers of a recorded answer that hold for the bytes on the wire, and not for its body."""


class RouteAnswer(Struct, frozen=True):
    """One answer. Header names are as declared; several values of one name are joined as Playwright expects it."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class NoAnswerError(Exception):
    """A route cannot answer a request; the message is the reason, as part of a sentence."""


class AnswerSource(Protocol):
    """What a route answers with."""

    def find(self, method: str, url: str, body: bytes | None) -> RouteAnswer | None:
        """The answer; None if there is none. Raises NoAnswerError."""
        ...


class ArmedRoute:
    """One route, and what it has answered so far."""

    def __init__(self, number: int, route: Route, source: AnswerSource) -> None:
        self.number, self.route, self.source = number, route, source
        self.pattern = RequestPattern(route.methods, UrlPattern.parse(route.url))
        self.count = self.pending = 0
        self.late = 0
        """Requests that matched outside of its steps."""
        self.answered: list[RoutedRequest] = []
        self.problem = ""
        self.idle = set(range(len(route.messages)))
        """The entries of `messages` that have not acted."""

    def answers(self, step: int, method: str, url: str) -> bool:
        """Return whether it answers this request now."""
        return not self.spent and self.pattern.matches(method, url) and self.route.lasts_at(step)

    @property
    def spent(self) -> bool:
        """Whether it has answered as often as it may."""
        return self.route.times is not None and self.count + self.pending >= self.route.times

    def note(self, step: int, method: str, url: str, status: int, what: str = "") -> None:
        """Keep what it has answered, for the report."""
        del self.answered[_KEPT - 1 :]  # when the list is full, the last entry is replaced
        self.answered.append(RoutedRequest(step, method, url, status, what))

    def result(self) -> MetRoute:
        """What became of it."""
        idle = tuple(sorted(self.idle)) if self.count else ()
        return MetRoute(self.number, self.route, self.count, tuple(self.answered), self.problem, self.late, idle)


class DeclaredAnswer:
    """The answer that stands in the task's file. References to memory are filled in for each request."""

    def __init__(self, route: Route, folder: Path, memory: Memory) -> None:
        self._route, self._folder, self._memory = route, folder, memory

    def find(self, method: str, url: str, body: bytes | None) -> RouteAnswer:  # noqa: ARG002 - it is the same for all
        route = self._route
        try:
            kind, content = self._content()
            headers = {name: str(each) for name, each in filled(route.headers, self._memory).items()}
        except OSError as error:
            raise NoAnswerError(f"{route.file} cannot be read: {error.strerror}") from None
        if problem := next(filter(None, (header_problem(*each) for each in headers.items())), None):
            raise NoAnswerError(problem)
        if kind and not any(name.lower() == "content-type" for name in headers):
            headers["content-type"] = kind
        return RouteAnswer(route.status or 200, headers, content)

    def _content(self) -> tuple[str, bytes]:
        route = self._route
        if "json" in route.model_fields_set:
            return "application/json", json.dumps(filled(route.json, self._memory), ensure_ascii=False).encode()
        if route.file is not None:
            return type_of(route.file), (self._folder / route.file).read_bytes()
        return (_TEXT if "body" in route.model_fields_set else ""), str(filled(route.body, self._memory)).encode()


class PatchedAnswer:
    """The answer of the site itself, changed. References to memory are filled in for each request."""

    def __init__(self, patch: Patch, memory: Memory) -> None:
        self._patch, self._memory = patch, memory

    def find(self, method: str, url: str, body: bytes | None) -> RouteAnswer | None:  # noqa: ARG002 - the site answers
        return None

    def apply(self, answer: RouteAnswer) -> RouteAnswer:
        """The changed answer. Raises NoAnswerError."""
        patch = self._patch
        values, changed = filled(patch.json, self._memory), filled(patch.headers, self._memory)
        gone = {*_OF_TRANSFER, *(name.lower() for name in changed)}
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in gone}
        put = {name: str(value) for name, value in changed.items() if value is not None}
        headers |= put
        if problem := next(filter(None, (header_problem(*each) for each in put.items())), None):
            raise NoAnswerError(problem)
        body = patched(answer.body, values).encode() if values else answer.body
        return RouteAnswer(patch.status or answer.status, headers, body)


def filled(value: Any, memory: Memory) -> Any:
    """A JSON value with its references to memory filled in; keys stay. Raises NoAnswerError."""
    try:
        return interpolate(value, ReferenceScope(memory=memory()))
    except MissingMemory as missing:
        raise NoAnswerError(f"it needs memory entry {missing.key!r}, which was never written") from None
    except BadReferenceError as error:
        raise NoAnswerError(str(error)) from None


def patched(body: bytes | str, values: Mapping[str, Any], what: str = "the answer of the site") -> str:
    """The JSON of `what` with other values at these paths. Raises NoAnswerError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswerError(f"{what} is no JSON, so nothing in it can be changed") from None
    for path, value in values.items():
        try:
            document = assign(document, path, value)
        except PathError as error:
            raise NoAnswerError(f"{path!r} does not fit {what}: {error.problem}") from None
    return json.dumps(document, ensure_ascii=False)


def type_of(name: str) -> str:
    """The content type by the suffix of a file name."""
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


class RecordedAnswers:
    """The answers of a HAR file, by method and URL. Of several, the first with the same body answers."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises Failed for one that is no HAR file."""
        self._folder = path.parent
        self._entries: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MiB")
            for entry in json.loads(path.read_text("utf-8"))["log"]["entries"]:
                key = entry["request"]["method"], urldefrag(entry["request"]["url"]).url
                self._entries.setdefault(key, []).append(entry)
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = error.strerror if isinstance(error, OSError) else f"it is no HAR file ({error})"
            raise Failed(Failure("INVALID_INPUT", f"a route's HAR file {path.name} cannot be used: {why}")) from error

    def find(self, method: str, url: str, body: bytes | None) -> RouteAnswer | None:
        """The recorded answer; redirects are followed within the file."""
        for _ in range(_REDIRECTS):
            entry = self._entry(method, url, body)
            if entry is None:
                return None
            answer = self._answer(entry, method, url)
            place = next((value for name, value in answer.headers.items() if name.lower() == "location"), None)
            if not 300 <= answer.status < 400 or place is None:
                return answer
            kept = answer.status in (307, 308) or method == "HEAD"
            method, body, url = (method, body, urljoin(url, place)) if kept else ("GET", None, urljoin(url, place))
        raise NoAnswerError("it redirects in a circle")

    def _entry(self, method: str, url: str, body: bytes | None) -> Mapping[str, Any] | None:
        known = [each for each in self._entries.get((method, urldefrag(url).url), ()) if _answered(each)]
        sent = (body or b"").decode("utf-8", "replace")
        same = (each for each in known if (each["request"].get("postData") or {}).get("text", "") == sent)
        return next(same, known[0] if known else None)

    def _answer(self, entry: Mapping[str, Any], method: str, url: str) -> RouteAnswer:
        response = entry["response"]
        headers: dict[str, str] = {}
        for name, value in _headers(response):
            joint = "\n" if name.lower() == "set-cookie" else ", "
            headers[name] = f"{headers[name]}{joint}{value}" if name in headers else value
        content = self._content(response.get("content") or {}, response["status"], method, url)
        return RouteAnswer(response["status"], headers, content)

    def _content(self, content: Mapping[str, Any], status: int, method: str, url: str) -> bytes:
        if content.get("_file"):
            if problem := file_problem(str(content["_file"]), self._folder):
                raise NoAnswerError(f"the body of {url} cannot be read: {content['_file']}: {problem}")
            return (self._folder / str(content["_file"])).read_bytes()
        text: str | None = content.get("text")
        if text is None:
            if (content.get("size") or 0) > 0 and method != "HEAD" and status not in BODILESS:
                raise NoAnswerError(f"it was recorded without the body of {url}")
            return b""
        try:
            return base64.b64decode(text, validate=True) if content.get("encoding") == "base64" else text.encode()
        except binascii.Error:
            raise NoAnswerError(f"the body of {url} in it is not base64") from None


def _answered(entry: Mapping[str, Any]) -> bool:
    status = (entry.get("response") or {}).get("status")
    return isinstance(status, int) and 100 <= status <= 599


def _headers(response: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for header in response.get("headers") or ():
        name = str(header.get("name", ""))
        if name and not name.startswith(":") and name.lower() not in _OF_TRANSFER:
            yield name, str(header.get("value", ""))
