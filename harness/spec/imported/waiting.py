"""What a test waits for, listens to and expects, beside what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from harness.spec.imported import acts, expecting, reading
from harness.spec.imported.library import builtin
from harness.spec.imported.locating import bind
from harness.spec.imported.network import handled_route, wanted_request
from harness.spec.imported.script import DialogAnswers, TestScript, steps_of
from harness.spec.imported.values import (
    Event,
    Expectation,
    LineOfTest,
    Opaque,
    PageCheck,
    PageRead,
    PlaceInTest,
    Quiet,
    Regex,
    SourceFunction,
    SourcePage,
    Unknown,
    plain,
    said,
)
from harness.spec.recorded.locators import LocatorPart, UnwritableError

if TYPE_CHECKING:
    from harness.spec.imported.interpreter import Interpreter


OF_BROWSER = ("browser", "context", "playwright", "chromium", "browser_type", "context_manager")
"""Kinds of objects of which a block may be made."""


class EventsOfTest:
    """Listeners, routes, blocks that wait for something, and expectations."""

    interpreter: Interpreter

    @property
    def script(self) -> TestScript:
        return self.interpreter.script

    def kept(self, value: Any) -> Any:
        """An argument; what was read from a page is a reference to what the task remembers."""
        if isinstance(value, list | tuple):
            return type(value)(map(self.kept, value))
        if isinstance(value, dict):
            return {key: self.kept(item) for key, item in value.items()}
        return self.script.memorised(value) if isinstance(value, PageRead) and value.line is not None else value

    def matches(self, regex: Regex, read: PageRead) -> PageCheck:
        return reading.check(self.script, read, lambda text: expecting.text_criterion(text, regex, whole=True))

    def handle(self, page: SourcePage, args: list[Any], kwargs: dict[str, Any]) -> None:
        """What is removed whenever it is in the way."""
        given = bind(args, kwargs, ("locator", "handler"), ("no_wait_after", "times"), 2)
        script, trial = self.script, self.script.trial()
        self.interpreter.script = trial
        try:
            many = isinstance(given["handler"], SourceFunction) and given["handler"].node.args.args
            self.interpreter.call(given["handler"], [given["locator"]] if many else [], {})
        finally:
            self.interpreter.script = script
        steps = steps_of(trial.lines)
        if trial.missing or not steps:
            raise UnwritableError(
                trial.missing[0].why if trial.missing else "this handler does nothing that a task could do"
            )
        handler = {"when": acts.read_of("visible", given["locator"]), "steps": steps}
        script.keys.setdefault("handlers", []).append(handler)

    def listen(self, name: str, args: list[Any]) -> None:
        event, handler = args[0], args[1] if len(args) > 1 else None
        if event in ("console", "pageerror", "request", "response", "requestfailed", "requestfinished"):
            raise UnwritableError(
                "a task cannot listen to events: criteria read `console()`, `requests()`, `responses()`"
            )
        if event != "dialog":
            raise UnwritableError("a task cannot listen to events")
        answer = Opaque("dialog", data={"act": "dialog", "value": "dismiss"})
        self.aside(handler, [answer])
        standing = {} if name == "once" else {"optional": True}
        given = DialogAnswers({**answer.data, **standing}, name == "once")
        self.script.state.answer = given if given.once or answer.data["value"] == "accept" else None

    def aside(self, handler: Any, args: list[Any]) -> Any:
        """Follow a function that is called later. Raises UnwritableError if it does something with the page."""
        script, trial = self.script, self.script.trial()
        self.interpreter.script = trial
        try:
            found = self.interpreter.call(handler, args, {})
        finally:
            self.interpreter.script = script
        if trial.missing:
            raise UnwritableError(trial.missing[0].why)
        if any(line.keys for line in trial.lines):
            raise UnwritableError("what a listener does stands in no order: write it as steps")
        return found

    def route(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        given = bind(args, kwargs, ("url", "handler"), ("times",), 2)
        calls = list[tuple[str, list[Any], dict[str, Any]]]()
        self.aside(given["handler"], [Opaque("route", data=calls), *self._request_of(given["handler"])])
        keys = handled_route(acts.glob_of(given["url"]), calls)
        if keys is None:
            return
        times = {"times": plain(given["times"])} if "times" in given else {}
        self.script.routes.append(({**keys, **times}, len([line for line in self.script.lines if line.keys])))

    def _request_of(self, handler: Any) -> list[Any]:
        several = isinstance(handler, SourceFunction) and len(handler.node.args.args) > 1
        return [Unknown("what a request has is known only when the task runs")] if several else []

    def entered(self, manager: Any) -> Any:
        """What a context manager of Playwright gives. Raises UnwritableError."""
        if isinstance(manager, Event):
            manager.before = len(self.script.lines)
        if isinstance(manager, Event | Quiet) or (isinstance(manager, Opaque) and manager.kind in OF_BROWSER):
            return manager
        if isinstance(manager, SourcePage) or (isinstance(manager, Opaque) and manager.kind in ("file", "api")):
            return manager
        raise UnwritableError("a task has no `with`")

    def left(self, manager: Any, before: int) -> None:
        """The end of a block: what the event was. Raises UnwritableError."""
        if isinstance(manager, Event) and not manager.over:
            manager.over = True
            acting = [line for line in self.script.lines[before:] if line.acts]
            _ENDS[manager.kind](self, manager, acting)

    # Expectations.

    def expected(self, expected: Expectation, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        negated = name.startswith("not_")
        method = name.removeprefix("not_")
        actual = expected.actual
        limit = kwargs.get("timeout")
        if isinstance(actual, Unknown):
            raise UnwritableError(actual.why)
        if isinstance(actual, PlaceInTest):
            if method == "to_match_aria_snapshot" and not negated:
                self.script.add(actual.page, {"act": "assert", **acts.at(actual), "aria": said(args[0])})
                return
            if method == "to_have_count" and args and isinstance(args[0], PageRead):
                count = reading.of_element(self.script, actual, "count", [], {})
                self._generic(Expectation(count, expected.soft), "to_be", negated, args)
                return
            text = expecting.of_element(method, _reader(actual), [*map(self.kept, args)], kwargs)
            page = actual.page
        elif isinstance(actual, SourcePage):
            text, page = expecting.of_page(method, args, kwargs), actual.index
        elif method == "to_be_ok" and not negated and isinstance(actual, Opaque):
            return
        else:
            self._generic(expected, method, negated, args)
            return
        if negated:
            text = text.removeprefix("NOT[").removesuffix("]") if text.startswith("NOT[") else f"NOT[{text}]"
        check = self.script.checking(text, page)
        self.script.check(check, soft=expected.soft, seconds=acts.seconds(limit) if limit else None)

    def _generic(self, expected: Expectation, method: str, negated: bool, args: list[Any]) -> None:
        """`expect(value).toBe(...)` of Playwright Test."""
        if method not in _GENERIC:
            raise UnwritableError(f"no criterion says `{method}`")
        sign, constant = _GENERIC[method]
        found = self._compared(sign, expected.actual, constant if not args else args[0])
        if isinstance(found, PageCheck):
            found = PageCheck(f"NOT[{found.text}]", found.line, found.page, found.api) if negated else found
            self.script.check(found, soft=expected.soft)
        elif bool(found) == negated:
            raise UnwritableError("the assertion is false already in the source")

    def _compared(self, sign: str, actual: Any, other: Any) -> Any:
        if sign == "matches" and isinstance(actual, PageRead):
            if isinstance(other, Regex):
                return self.matches(other, actual)
            return reading.compared(self.script, "In", other, actual)
        if sign == "length":
            return self.interpreter.compare("Eq", builtin("len").call(actual), other)
        if sign not in ("truth", "false"):
            left, right = (other, actual) if sign == "In" else (actual, other)
            return self.interpreter.compare(sign, left, right)
        if isinstance(actual, PageRead):
            return reading.compared(self.script, sign, actual, None)
        if isinstance(actual, PageCheck):
            return reading.compared(self.script, "Is", actual, sign == "truth")
        return self.interpreter.truth(actual) == (sign == "truth")


def _popup(world: EventsOfTest, event: Event, acting: list[LineOfTest]) -> None:
    if not acting:
        raise UnwritableError("a popup is opened by an act")
    event.value = SourcePage(world.script.state.pages)
    world.script.state.pages += 1


def _download(world: EventsOfTest, event: Event, acting: list[LineOfTest]) -> None:
    if not acting or acting[-1].keys["act"] != "click":
        raise UnwritableError("only a click can start a download in a task")
    keys = acting[-1].keys
    acting[-1].keys = {
        "act": "download",
        **{name: keys[name] for name in keys if name not in ("act", "count", "button")},
    }
    event.value = Opaque("download")


def _answered(world: EventsOfTest, event: Event, acting: list[LineOfTest]) -> None:
    args, kwargs = event.data
    wanted = bind(args, kwargs, ("url",), ("timeout", "predicate"), 0)
    aim = wanted.get("url", wanted.get("predicate"))
    keys = wanted_request(aim, lambda handler, value: world.aside(handler, [value]))
    if event.kind == "expect_response":
        keys = {name: value for name, value in keys.items() if value is not None}
    if not acting:
        acting = [world.script.add(event.page, {"act": "wait", "request": keys})]
        event.value = Opaque("exchange", event.page, acting[0])
        return
    line = acting[-1]
    if "expect_request" in line.keys:
        raise UnwritableError("a step names one request that it expects")
    line.keys["expect_request"] = keys
    event.value = Opaque("exchange", event.page, line)


def _navigated(world: EventsOfTest, event: Event, acting: list[LineOfTest]) -> None:
    wanted = bind(event.data[0], event.data[1], ("url",), ("timeout", "wait_until"), 0)
    if "url" in wanted:
        acts.ON_PAGE["wait_for_url"](world.script, SourcePage(event.page), [wanted["url"]], {})
    event.value = Quiet()


_ENDS: Mapping[str, Callable[[Any, Event, list[LineOfTest]], None]] = {
    "expect_popup": _popup,
    "expect_page": _popup,
    "expect_download": _download,
    "expect_request": _answered,
    "expect_response": _answered,
    "expect_navigation": _navigated,
}
_GENERIC: Mapping[str, tuple[str, Any]] = {
    "to_be": ("Eq", None),
    "to_equal": ("Eq", None),
    "to_strict_equal": ("Eq", None),
    "to_contain": ("In", None),
    "to_match": ("matches", None),
    "to_have_length": ("length", None),
    "to_be_truthy": ("truth", None),
    "to_be_falsy": ("false", None),
    "to_be_null": ("Eq", None),
    "to_be_greater_than": ("Gt", None),
    "to_be_greater_than_or_equal": ("GtE", None),
    "to_be_less_than": ("Lt", None),
    "to_be_less_than_or_equal": ("LtE", None),
}


def _reader(place: PlaceInTest) -> Callable[..., str]:
    def read(function: str, *names: str, nth: int | None = None) -> str:
        one = place if nth is None else PlaceInTest(place.page, (*place.parts, LocatorPart("nth", str(nth))))
        return acts.read_of(function, one, *names)

    return read
