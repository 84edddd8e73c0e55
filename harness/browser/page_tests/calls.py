"""Reads the exception of an ordinary test: the call of Playwright that failed, where it stands, and what it says.

Everything here is about exceptions, frames and texts: nothing asks a browser.
"""

from __future__ import annotations

import ast
import asyncio
import os
import re
import traceback
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urljoin

import playwright
from msgspec import Struct
from playwright.async_api import Error as PlaywrightError

from harness.browser.failures.scene import CallLog
from harness.criteria import difference
from harness.recovery.failure import Assertion
from harness.spec.page_calls import PageCall
from harness.values import replace

_PLAYWRIGHT = f"{Path(playwright.__file__).parent}{os.sep}"
_API = re.compile(r"[/\\](a?sync)_api[/\\]_generated\.py$")
_LIBRARY = f"{os.sep}site-packages{os.sep}"
_TIMEOUT = re.compile(r"Timeout (\d+(?:\.\d+)?)ms exceeded|with timeout (\d+(?:\.\d+)?)ms")
_AWAITED = re.compile(r"^waiting for (.+?)(?: to be .*)?$")
_CSS = re.compile(r"""^locator\((["'])((?:\\.|(?!\1).)*)\1\)$""")
_OF_IMPL = ("_actual_page", "_actual_locator", "_locator", "_page", "_frame", "_owner_frame", "_browser_context")
"""Attributes that lead from an object of Playwright to its page or context."""
_COMPARED = re.compile(r"^assert (?P<actual>.+) == (?P<expected>.+)$")
_EVENT = re.compile(r'while waiting for event "(\w+)"')
_NEEDS_NONE = re.compile(r"expect\.(not_|to_have_count|to_be_hidden|to_have_(title|url)$|to_be_ok|to_match_aria)")
_MISSING = re.compile(r"element\(s\) not found")


class CodeLine(Struct, frozen=True):
    """A line of Python."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class FailedCall(Struct, frozen=True):
    """Where the exception of a test was raised."""

    error: BaseException
    place: CodeLine
    """The line of the project that made the call, or raised the error."""
    api: str = ""
    """`Locator.click`; empty if no call of Playwright raised it."""
    target: Any = None
    """Playwright's own object (of its implementation) that was called."""
    selector: str | None = None
    """The selector as Playwright takes it."""
    shown: str = ""
    """The selector for people."""
    url: str | None = None
    seconds: float = 0.0
    """The limit of the call; 0: it had none, or it is not known."""
    log: CallLog = CallLog(())

    @property
    def text(self) -> str:
        return str(self.error)

    @property
    def act(self) -> str:
        """`click`, `expect.to_have_text`, `assert`, or the name of the exception."""
        owner, _, name = self.api.rpartition(".")
        if "Assertions" in owner:
            return f"expect.{name}"
        if awaited := _EVENT.search(self.text):  # it ends `with page.expect_response(...)`, which is in no frame
            return f"expect_{awaited[1]}"
        return name or ("assert" if isinstance(self.error, AssertionError) else _named(self.error))

    @property
    def is_playwright(self) -> bool:
        """Whether Playwright itself raised it."""
        return isinstance(self.error, PlaywrightError) or (bool(self.api) and isinstance(self.error, AssertionError))

    @property
    def misses_its_element(self) -> bool:
        """Whether it is an `expect` that needs an element, and nothing matches its locator."""
        needs = self.act.startswith("expect.") and self.selector not in (None, ":root")
        return needs and not _NEEDS_NONE.match(self.act) and bool(_MISSING.search(self.text))

    def step(self) -> PageCall:
        """The call as a report has it."""
        ended = "imeout" in self.text.partition("\n")[0] and 0 < self.seconds <= 3600
        limit = self.seconds if ended else None
        place = {"file": self.place.file, "line": self.place.line}
        return PageCall(act=self.act, selector=self.shown or None, url=self.url, timeout=limit, **place)

    def describe(self) -> str:
        return f"{self.act} {self.shown or self.url or ''}".rstrip()


def suspended_call(tasks: Iterable[asyncio.Task[Any]], error: BaseException, root: Path) -> FailedCall | None:
    """The call that a test of the async API awaits: the error that ended it was raised in the loop, not in the test."""
    for task in tasks:
        frames: list[tuple[FrameType, int]] = []
        inner: Any = task.get_coro()
        while (frame := getattr(inner, "cr_frame", None)) is not None:
            frames.append((frame, frame.f_lineno))
            inner = getattr(inner, "cr_await", None)
        if any(_is_own(frame.f_code.co_filename, root) for frame, _ in frames):
            return _of_frames(frames, error, root)
    return None


def _named(error: BaseException) -> str:
    """What reports show for an error in place of a call."""
    return str(getattr(error, "act", "") or type(error).__name__)


def failed_call(error: BaseException, root: Path) -> FailedCall:
    """The call behind an exception. `root`: the folder of the project, to which places are relative."""
    return _of_frames(list(traceback.walk_tb(error.__traceback__)) or [*_none(error)], error, root)


def _of_frames(frames: list[tuple[FrameType, int]], error: BaseException, root: Path) -> FailedCall:
    at = next((n for n, (frame, _) in enumerate(frames) if _API.search(frame.f_code.co_filename)), None)
    place = _place(_project_line(frames if at is None else frames[:at] or frames, root), root)
    return FailedCall(error, place) if at is None else _of_api(error, place, frames[at][0])


def _none(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """An exception that was never raised has no frames; what caused it may have."""
    inner = error.__cause__ or error.__context__
    yield from traceback.walk_tb(inner.__traceback__) if inner else ()


def _project_line(frames: list[tuple[FrameType, int]], root: Path) -> tuple[str, int] | None:
    """The innermost line of the project; if there is none, the innermost line."""
    lines = [(frame.f_code.co_filename, line) for frame, line in frames]
    own = [each for each in lines if _is_own(each[0], root)]
    return next(reversed(own or lines), None)


def _is_own(file: str, root: Path) -> bool:
    """Return whether a file belongs to the project."""
    return not file.startswith(_PLAYWRIGHT) and _LIBRARY not in file and Path(file).is_relative_to(root)


def _place(line: tuple[str, int] | None, root: Path) -> CodeLine:
    if line is None:
        return CodeLine("", 0)
    path, number = Path(line[0]), line[1]
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return CodeLine(shown, number, _source_line(path, number))


def _source_line(path: Path, number: int) -> str:
    try:
        return path.read_text("utf-8", "replace").splitlines()[number - 1].strip()
    except (OSError, IndexError):
        return ""


def _of_api(error: BaseException, place: CodeLine, frame: FrameType) -> FailedCall:
    given = frame.f_locals
    called = given.get("self")
    target = getattr(called, "_impl_obj", None)
    log = CallLog.of(str(error))
    selector = _selector(target, given)
    url = given.get("url")
    found = FailedCall(
        error,
        place,
        api=f"{type(called).__name__}.{frame.f_code.co_name}",
        target=target,
        selector=selector,
        shown=_shown(log, selector, given),
        seconds=_limit(str(error), given),
        log=log,
    )
    if isinstance(url, str) and (frame.f_code.co_name == "goto" or "APIRequestContext" in found.api):
        found = replace(found, url=urljoin(_base_url(target) or "", url))
    return found


def _selector(target: Any, given: dict[str, Any]) -> str | None:
    """The selector of the call, or of the locator that it was called on."""
    own = given.get("selector", given.get("source"))
    locator = getattr(target, "_actual_locator", target)
    found = own if isinstance(own, str) else getattr(locator, "_selector", None)
    return found if isinstance(found, str) else None


def _shown(log: CallLog, selector: str | None, given: dict[str, Any]) -> str:
    """The locator as Playwright's call log names it: `#buy`, `get_by_role("button", name="Buy")`."""
    if selector is None:
        return ""
    awaited = (found[1] for line in log.lines if (found := _AWAITED.match(line)) and "(" in found[1])
    named = next(awaited, "")
    if css := _CSS.match(named):
        named = css[2].replace('\\"', '"').replace("\\'", "'")
    return named or str(given.get("selector", selector))


def _limit(text: str, given: dict[str, Any]) -> float:
    """Seconds of the call's limit, as its message says, else as it was given."""
    if found := _TIMEOUT.search(text):
        return float(found[1] or found[2]) / 1000
    limit = given.get("timeout")
    if isinstance(limit, timedelta):
        return limit.total_seconds()
    return limit / 1000 if isinstance(limit, int | float) else 0.0


def _base_url(target: Any) -> str | None:
    context = context_of(page_of(target)) or target
    options: dict[str, Any] = getattr(context, "_options", None) or {}
    found = options.get("baseURL") or options.get("base_url")
    return found if isinstance(found, str) else None


def page_of(target: Any) -> Any:
    """The page (of Playwright's implementation) that an object belongs to; None if it belongs to none."""
    for _ in range(6):
        if target is None or type(target).__name__ == "Page":
            return target
        nexts = (getattr(target, name, None) for name in _OF_IMPL)
        target = next((each for each in nexts if each is not None), None)
    return None


def context_of(page: Any) -> Any:
    """The context (of Playwright's implementation) of a page."""
    return getattr(page, "_browser_context", None)


# What an assertion says.


def assertion_of(call: FailedCall) -> Assertion | None:
    """The expected and the actual value of a failed assertion; None if its message does not have both."""
    expression = call.place.text or call.describe()
    found = _of_expect(call.text) if call.act.startswith("expect.") else _of_assert(call.text)
    if found is None:
        return None
    expected, actual = found
    return Assertion(expression, expected, actual, difference(expected, actual))


def _of_expect(text: str) -> tuple[Any, Any] | None:
    head, actual_is_there, rest = text.partition("\nActual value: ")
    if not actual_is_there:
        return None
    stop = re.search(r"\s*\nCall log:|\nError: |\nAria snapshot:| \nCall log:", rest)
    actual: Any = (rest[: stop.start()] if stop else rest).strip()
    expected = re.search(r"(?:Expected value: )?'(.*)'\Z", head, re.DOTALL)
    if expected is None:  # it has no value: `to be visible`
        return head.partition(" expected ")[2] or head, _literal(actual)
    return expected[1], (_literal(actual) if actual in ("None", "True", "False") else actual)


def _of_assert(text: str) -> tuple[Any, Any] | None:
    """The values of `assert a == b`, as pytest writes them."""
    found = _COMPARED.match(text.partition("\n")[0])
    if found is None:
        return None
    try:
        return ast.literal_eval(found["expected"]), ast.literal_eval(found["actual"])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def told(call: FailedCall) -> str:
    """The first lines of the exception, for a message: without call log."""
    text = re.split(r"\s*\n?Call log:", call.text)[0].strip()
    first = " ".join(text.splitlines()[:2] if call.act.startswith("expect.") else text.splitlines()[:1])
    name = "" if isinstance(call.error, AssertionError) or call.is_playwright else f"{type(call.error).__name__}: "
    first = re.sub(r"^[A-Z]\w+\.\w+: ", "", first) if call.is_playwright else first
    return f"{name}{first}".strip() or type(call.error).__name__
