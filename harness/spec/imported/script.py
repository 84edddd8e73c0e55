"""The steps to which a test leads, in their order, and what is known of its pages meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from harness.spec.imported.values import LineOfTest, PageCheck, PageRead, Ref
from harness.spec.recorded.journey import Omission
from harness.spec.recorded.locators import UnwritableError
from harness.values import replace

_OPENING = frozenset({"click", "press", "check", "uncheck", "select", "submit", "tap", "open", "type", "back"})
"""Acts that may open a dialog."""


_LONG = 20
"""Seconds from which on an assertion needs more than the usual time of a step."""


class DialogAnswers(Struct, frozen=True):
    """How the test answers dialogs from here on."""

    keys: Mapping[str, Any]
    once: bool


class LineSpan(Struct, eq=False):
    """Lines that a function of the suite has made; they may become a step group."""

    name: str
    lines: list[LineOfTest]
    template: list[dict[str, Any]] | None = None
    """The steps with `${with.x}` in place of arguments; None if they are always these lines."""
    values: dict[str, Any] = field(default_factory=dict)
    """Parameter -> the value that this call has given."""
    when: str = ""
    description: str = ""


class State(Struct):
    """What a call may change beside the lines."""

    page: int = 0
    """The page on which the task is."""
    pages: int = 1
    answer: DialogAnswers | None = None
    opened: bool = False
    """Whether the test has its first page."""
    stored: bool = False
    """Whether the state of the context was kept for one that follows."""


class TestScript(Struct, eq=False):
    """What a test does, as far as it was followed."""

    lines: list[LineOfTest] = field(default_factory=list)
    spans: list[LineSpan] = field(default_factory=list)
    missing: list[Omission] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)
    """Keys of the task that the test sets, such as `browser`."""
    routes: list[tuple[dict[str, Any], int]] = field(default_factory=list)
    """Routes, each with the number of lines before it."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know."""
    state: State = field(default_factory=State)
    place: str = ""
    """`file:line` of the statement that is followed."""
    statements: int = 0
    remembered: int = 0
    made_up: dict[str, int] = field(default_factory=dict)
    """Name of a made-up value -> how many there are."""

    def add(self, page: int, keys: dict[str, Any], *notes: str) -> LineOfTest:
        """Add a step on a page."""
        if page != self.state.page:
            newest = page and page == self.state.pages - 1
            self.lines.append(LineOfTest({"act": "switch_page", "value": -1 if newest else page}, place=self.place))
            self.state.page = page
        if keys["act"] in _OPENING and (answer := self.state.answer) is not None:
            self.lines.append(LineOfTest(dict(answer.keys), place=self.place))
            self.state.answer = None if answer.once else answer
        line = LineOfTest(keys, notes, page, place=self.place)
        self.lines.append(line)
        return line

    def check(self, check: PageCheck, *, soft: bool = False, seconds: float | None = None) -> None:
        """Add an assertion. Raises UnwritableError for one about something earlier."""
        if check.api is not None:
            earlier = check.api.keys.get("expect")
            check.api.keys["expect"] = f"ALL[{earlier}, {check.text}]" if earlier else check.text
            return
        if self._changed_since(check.line):
            raise UnwritableError("it was read before other acts and is checked only now: write it where it was read")
        text = f"WITHIN({seconds:g}, {check.text})" if seconds else check.text
        if seconds and seconds > _LONG:  # the time of a step bounds it too
            self.keys["step_timeout"] = min(300, max(self.keys.get("step_timeout", 30), round(seconds) + 10))
        line = self.add(check.page, {"act": "assert", "expr": text, **({"soft": True} if soft else {})})
        line.criterion = "" if soft else text

    def omit(self, what: str, why: str) -> None:
        """Leave a comment in place of a step."""
        if self.missing and (self.missing[-1].place, self.missing[-1].what) == (self.place, what):
            return
        self.missing.append(Omission(what, why, self.place))
        notes = (f"MISSING: {self.place}: {why}", *(f"  {line}" for line in what.splitlines()))
        self.lines.append(LineOfTest({}, notes, self.state.page, place=self.place))

    def read(self, text: str, page: int = 0, kind: str = "text", ready: str = "url() != ''") -> PageRead:
        """A value that is read here."""
        line = LineOfTest({}, (), page, place=self.place)
        self.lines.append(line)
        return PageRead(text, line, kind=kind, page=page, ready=ready)

    def checking(self, text: str, page: int, api: LineOfTest | None = None) -> PageCheck:
        """A condition that is looked at here."""
        line = LineOfTest({}, (), page, place=self.place)
        self.lines.append(line)
        return PageCheck(text, line, page, api)

    def expression(self, read: PageRead) -> str:
        """A value as an expression that gives it here; one that was read before other acts is remembered there."""
        if read.made_from:
            text = read.text
            for number, each in enumerate(read.made_from):
                text = text.replace(f"{{{number}}}", self.expression(each))
            return text
        if read.line is None or read.kind in ("answer", "status") or not self._changed_since(read.line):
            return read.text
        return f"mem('{self._kept(read, read.line)}')"

    def memorised(self, read: PageRead) -> Ref:
        """A reference to a value that was read, which its step remembers. Raises UnwritableError."""
        if read.made_from or read.line is None or read.kind in ("status", "document"):
            raise UnwritableError("what is made of a text that a page showed cannot be said in a task")
        if read.kind == "answer":
            kept = read.line.keys.setdefault("remember", {})
            key = next((key for key, text in kept.items() if text == read.text), "")
            if not key:
                self.remembered += 1
                key = f"read_{self.remembered}"
                kept[key] = read.text
            return Ref(f"${{memory.{key}}}")
        return Ref(f"${{memory.{self._kept(read, read.line)}}}")

    def _kept(self, read: PageRead, line: LineOfTest) -> str:
        """The memory key of a value; its line keeps it."""
        if "remember" not in line.keys:
            if read.page != self.state.page:
                raise UnwritableError("it was read on another page, and is used after other acts")
            self.remembered += 1
            kept = {f"read_{self.remembered}": read.text}
            line.keys = {"act": "assert", "expr": read.ready, "remember": kept}
        return str(next(iter(line.keys["remember"])))

    def _changed_since(self, line: LineOfTest) -> bool:
        return line in self.lines and any(each.acts for each in self.lines[self.lines.index(line) + 1 :])

    @contextmanager
    def span(self, name: str, when: str = "") -> Iterator[LineSpan]:
        """The lines that are added in this block."""
        before, span = len(self.lines), LineSpan(name, [], when=when)
        yield span
        span.lines = self.lines[before:]

    def trial(self) -> TestScript:
        """A script that goes on from here and is then forgotten."""
        return TestScript(state=replace(self.state), place=self.place, made_up=dict(self.made_up))


def steps_of(lines: Iterable[LineOfTest]) -> list[dict[str, Any]]:
    """The keys of those lines that are steps."""
    return [line.keys for line in lines if line.keys]
