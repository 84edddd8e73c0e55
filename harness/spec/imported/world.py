"""Playwright, pytest and Python's library, as the interpreter meets them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.spec.imported import acts, reading
from harness.spec.imported.library import builtin, call_library, imported_name, moment_method, text_method
from harness.spec.imported.locating import MAKING, POSITIONS, bind, css, made, snake
from harness.spec.imported.network import exchange_attribute
from harness.spec.imported.script import TestScript
from harness.spec.imported.values import (
    Class,
    Event,
    Expectation,
    LibraryName,
    Method,
    Module,
    MomentText,
    Native,
    Opaque,
    PageRead,
    PlaceInTest,
    Quiet,
    Ref,
    Regex,
    SourceFunction,
    SourcePage,
    Unknown,
    data_of,
    named,
    plain,
    said,
)
from harness.spec.imported.waiting import EventsOfTest
from harness.spec.recorded.locators import LocatorPart, UnwritableError

if TYPE_CHECKING:
    from harness.spec.imported.interpreter import Interpreter

_REQUESTS = ("get", "post", "put", "patch", "delete", "head", "fetch")
_NAMED = ("expect_popup", "expect_page", "expect_download", "expect_request", "expect_response", "expect_navigation")
_EVENTS = {"popup": "expect_popup", "page": "expect_page", "download": "expect_download", "response": "expect_response"}


class PlaywrightWorld(EventsOfTest):
    """What lies beyond the language for one test."""

    def __init__(
        self, script: TestScript, imports: Callable[..., Iterable[tuple[str, Any]]], given: Mapping[str, str]
    ) -> None:
        self._fixed_script = script
        self._imports = imports
        self.given = given
        """Values of names that the user said."""
        self.interpreter: Interpreter

    # Attributes.

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute of a symbol."""
        if isinstance(owner, LibraryName):
            return imported_name(f"{owner.name}.{name}")
        found = next((find for kind, find in self._ATTRIBUTES_OF.items() if isinstance(owner, kind)), None)
        return found(self, owner, name) if found is not None else Method(owner, name)

    def _of_text(self, text: Ref, name: str) -> Any:
        return text if text.unique and name in ("hex", "int", "bytes", "node") else Method(text, name)

    def _of_read(self, read: PageRead, name: str) -> Any:
        inside = read.kind in ("answer", "document") and name not in ("get", "json", "text")
        return reading.item_of(self.script, read, name) if inside else Method(read, name)

    def _of_path(self, path: Path, name: str) -> Any:
        found = getattr(path, name)
        if not callable(found):
            return found
        if name in ("exists", "is_file", "is_dir"):
            return Unknown("which files there are is known only when the test runs", acts=False)
        return Native(found) if name in _OF_PATHS else Quiet()

    def _of_page(self, page: SourcePage, name: str) -> Any:
        if name == "url":
            return reading.of_page(self.script, page, "url")
        if name in acts.DEVICES:
            return Opaque(name, page.index)
        if name in ("context", "request"):
            return Opaque("api" if name == "request" else name, page.index)
        if name == "main_frame":
            return page
        return Method(page, name)

    def _of_place(self, place: PlaceInTest, name: str) -> Any:
        if name in POSITIONS:
            return made(place, name, [], {})
        if name in ("content_frame", "owner"):
            return PlaceInTest(place.page, (*place.parts, LocatorPart("frame"))) if name == "content_frame" else place
        return SourcePage(place.page) if name == "page" else Method(place, name)

    def _of_opaque(self, owner: Opaque, name: str) -> Any:
        if owner.kind == "super":
            kind, receiver = owner.data
            found = (receiver.kind if not isinstance(receiver, Class) else receiver).find(name, after=kind)
            if not isinstance(found, SourceFunction):
                return Quiet() if name == "__init__" else Unknown(f"no base class has `{name}`")
            return found.bound(receiver)
        if owner.kind in ("response", "answer", "exchange"):
            return exchange_attribute(self.script, owner, name)
        if owner.kind in ("playwright", "browser_type") and name in ("chromium", "firefox", "webkit"):
            return Opaque("browser_type")
        attributes = self._ATTRIBUTES.get(owner.kind, {})
        if name in attributes:
            return attributes[name](owner)
        quiet = owner.kind in ("node", "type") or (owner.kind == "config" and name not in ("getoption", "getini"))
        return Quiet() if quiet else Method(owner, name)

    _ATTRIBUTES: Mapping[str, Mapping[str, Callable[[Opaque], Any]]] = {
        "context": {
            "request": lambda owner: Opaque("api"),
            "tracing": lambda owner: Quiet(),
            "pages": lambda owner: Opaque("pages"),
            "browser": lambda owner: Opaque("browser"),
        },
        "browser": {"contexts": lambda owner: [Opaque("context")], "version": lambda owner: Quiet()},
        "playwright": {
            "request": lambda owner: Opaque("api"),
            "selectors": lambda owner: Opaque("selectors"),
            "devices": lambda owner: Opaque("devices"),
        },
        "request_of_pytest": {
            "config": lambda owner: Opaque("config"),
            "param": lambda owner: owner.data["param"] if "param" in owner.data else Unknown("it has no param"),
            "cls": lambda owner: owner.data.get("cls", Quiet()),
            "instance": lambda owner: owner.data.get("cls", Quiet()),
            "node": lambda owner: Opaque("node", data=owner.data),
            **dict.fromkeys(("fspath", "path"), lambda owner: str(owner.data["file"])),
            **dict.fromkeys(("module", "function", "session", "keywords"), lambda owner: Quiet()),
        },
        "node": {
            **dict.fromkeys(("name", "originalname", "nodeid"), lambda owner: owner.data["name"]),
            **dict.fromkeys(("fspath", "path"), lambda owner: str(owner.data["file"])),
        },
        "config": {"option": lambda owner: Opaque("config")},
        "dialog": {
            "message": lambda owner: PageRead("dialogs()[-1]"),
            "type": lambda owner: Unknown("the kind of a dialog"),
        },
        "download": {"suggested_filename": lambda owner: PageRead("downloads()[-1].name")},
        "live_server": {"url": lambda owner: ""},
    }

    def _of_event(self, event: Event, name: str) -> Any:
        if name != "value":
            return Method(event, name)
        if event.value is None:
            self.left(event, event.before)  # it is asked for already in the block
        return event.value

    _ATTRIBUTES_OF: Mapping[type, Callable[[Any, Any, str], Any]] = {
        SourcePage: _of_page,
        PlaceInTest: _of_place,
        Opaque: _of_opaque,
        Event: _of_event,
        PageRead: _of_read,
        Ref: _of_text,
        Path: _of_path,
        Quiet: lambda world, owner, name: owner,
        Expectation: lambda world, owner, name: owner if name == "not_" else Method(owner, name),
    }

    # Calls.

    def invoke(self, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a method of a symbol gives; it may add steps. Raises UnwritableError."""
        if isinstance(owner, SourcePage | PlaceInTest) or (
            isinstance(owner, Opaque) and owner.kind in (*acts.DEVICES, "api")
        ):
            args, kwargs = [*map(self.kept, args)], {key: self.kept(value) for key, value in kwargs.items()}
        match owner:
            case PageRead():
                return reading.method_of(self.script, owner, name, args)
            case MomentText():
                return moment_method(owner, name, args)
            case Ref():
                return self._on_text(owner, name, args)
            case Regex() if name in ("search", "match", "fullmatch", "test") and isinstance(args[0], PageRead):
                return self.matches(owner, args[0])
        found = next((do for kind, do in self._METHODS_OF.items() if isinstance(owner, kind)), None)
        if found is None:
            raise UnwritableError(f"what `{name}` of {named(owner)} gives is not in the source")
        return found(self, owner, name, args, kwargs)

    def _on_text(self, text: Ref, name: str, args: list[Any]) -> Any:
        if name in ("strip", "rstrip", "lstrip", "__format__", "hex") and (not any(args) or args == ["/"]):
            return text
        if text.unique:
            return text
        return Unknown(f"what `{name}` makes of `{text.text}` is known only when the task runs")

    def _on_place(self, place: PlaceInTest, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        script = self.script
        frame = bool(place.parts) and place.parts[-1].kind == "frame"
        if name in MAKING:
            return made(place, name, args, kwargs)
        if frame and name in (acts.ELEMENT_METHODS | reading.READS) and (args or "selector" in kwargs):
            return self._old_style(place, name, args, kwargs)
        if name in reading.READS:
            return reading.of_element(script, place, name, args, kwargs)
        if name in acts.ELEMENT_METHODS:
            return acts.on_element(script, place, name, args, kwargs)
        if name == "all":
            raise UnwritableError("how many elements there are is known only when the task runs")
        raise UnwritableError(f"a task has no act for `{name}`")

    def _old_style(self, owner: PlaceInTest, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A method of a page or a frame that takes a selector first."""
        rest = dict(kwargs)
        selector = args[0] if args else rest.pop("selector", rest.pop("source", None))
        parts = selector.parts if isinstance(selector, PlaceInTest) else (css(selector),)
        return self._on_place(
            PlaceInTest(owner.page, (*owner.parts, *parts)), _NEW_NAMES.get(name, name), args[1:], rest
        )

    def _on_page(self, page: SourcePage, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        script = self.script
        if name == "title":
            return reading.of_page(script, page, "title")
        if name in MAKING:
            return made(PlaceInTest(page.index), name, args, kwargs)
        if name in acts.ON_PAGE and not (name == "screenshot" and "selector" in kwargs):
            return acts.ON_PAGE[name](script, page, args, kwargs)
        if name in (*acts.ELEMENT_METHODS, *reading.READS) and (args or kwargs):
            return self._old_style(PlaceInTest(page.index), name, args, kwargs)
        if name == "add_locator_handler":
            return self.handle(page, args, kwargs)
        return self._happening(page, name, args, kwargs)

    def _happening(self, owner: SourcePage | Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Listeners, routes, and what is waited for; pages and contexts have them."""
        page, before = owner.index if isinstance(owner, SourcePage) else owner.page, len(self.script.lines)
        if name in _NAMED or name in _WAITED:
            return Event(_WAITED.get(name, name), page, (args, kwargs), before=before)
        if name in ("expect_event", "wait_for_event") and args and args[0] in _EVENTS:
            return Event(_EVENTS[args[0]], page, (args[1:], kwargs), before=before)
        if name in ("on", "once"):
            return self.listen(name, args)
        if name == "route":
            return self.route(args, kwargs)
        raise UnwritableError(
            f"a task has no act for `{'page' if isinstance(owner, SourcePage) else owner.kind}.{name}`"
        )

    def _on_opaque(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if owner.kind in acts.DEVICES:
            return acts.DEVICES[owner.kind](self.script, owner.page, name, args, kwargs)
        if owner.kind == "api" and name in _REQUESTS:
            return acts.api(self.script, name, args, kwargs, owner.data)
        if owner.kind in ("response", "answer", "exchange"):
            return exchange_attribute(self.script, owner, name)
        found = getattr(self, f"_on_{owner.kind}", None)
        if found is not None:
            return found(owner, name, args, kwargs)
        raise UnwritableError(f"what `{owner.kind}.{name}` does is not carried over")

    def _on_context(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name in _OPENED:
            return Opaque(_OPENED[name])
        if name in ("new_context", "launch_persistent_context"):
            return self._new_context(dict(kwargs))
        if name == "storage_state":
            self.script.state.stored = any(line.acts for line in self.script.lines)
            return Quiet()
        if name == "new_page":
            acts.context_options(self.script, kwargs)
            return self._first_page()
        if name == "close":
            self.script.state.opened = False
            return None
        if name == "set_default_timeout":
            return acts.ON_PAGE[name](self.script, SourcePage(), args, kwargs)
        if name in acts.IN_CONTEXT:
            return acts.IN_CONTEXT[name](self.script, args, kwargs)
        return self._happening(owner, name, args, kwargs)

    def _new_context(self, options: dict[str, Any]) -> Opaque:
        if options.get("storage_state") is not None and self.script.state.stored:
            options.pop("storage_state")  # of the context before, which a task goes on with
        acts.context_options(self.script, options)
        return Opaque("context")

    _on_browser = _on_playwright = _on_browser_type = _on_context

    def _first_page(self) -> SourcePage:
        """The first page; a task opens no other one by itself. Raises UnwritableError."""
        state = self.script.state
        if state.opened:
            raise UnwritableError("a task opens no second page by itself, only by a click")
        state.opened = True
        return SourcePage(0)

    def _on_selectors(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        if name != "set_test_id_attribute":
            raise UnwritableError("a task has only Playwright's own selectors")
        self.script.keys.setdefault("browser", {})["test_id_attribute"] = said(args[0])

    def _on_dialog(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        if name in ("accept", "dismiss"):
            text = bind(args, kwargs, ("prompt_text",), least=0)
            owner.data.update({"value": name, **({"text": said(text["prompt_text"])} if text else {})})

    def _on_api(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "dispose":
            return None
        if name != "new_context":
            raise UnwritableError(f"what `request.{name}` does is not carried over")
        given = bind(args, kwargs, (), ("base_url", "extra_http_headers", "ignore_https_errors", "timeout"), 0)
        return Opaque("api", data={name: given[name] for name in ("base_url", "extra_http_headers") if name in given})

    def _on_config(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        option = str(args[0]) if args else ""
        bare = option.lstrip("-").replace("-", "_")
        if bare in self.given:
            return self.given[bare]
        if bare in _OPTIONS:
            return _OPTIONS[bare]
        return self.options.get(bare, Unknown(f"the value of the option `{option}` is not in the source"))

    options: Mapping[str, Any] = {}
    """Defaults of the project's own options of pytest."""

    def _on_request_of_pytest(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "getfixturevalue":
            return owner.data["fixture"](args[0])
        if name == "addfinalizer":
            return None
        raise UnwritableError(f"what `request.{name}` does is not carried over")

    def _on_file(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return call_library(self, "json.loads", [owner], {}) if name == "json" else owner.data.read_text("utf-8-sig")

    def _on_download(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return Quiet() if name in ("save_as", "path", "delete") else Unknown("the content of a download")

    def _on_route(self, owner: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        owner.data.append((name, args, kwargs))

    # Dialogs, routes, and blocks that wait for something.
    _METHODS_OF: Mapping[type, Callable[[Any, Any, str, list[Any], dict[str, Any]], Any]] = {
        Expectation: EventsOfTest.expected,
        SourcePage: _on_page,
        PlaceInTest: _on_place,
        Opaque: _on_opaque,
    }

    # The rest of what the interpreter asks for.

    def library(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function of a library gives. Raises UnwritableError."""
        last = name.rpartition(".")[2]
        if name == "Promise.all":
            return [self.awaited(each) for each in args[0]]
        if name.startswith("playwright.") and ".test." in name:
            return self._of_runner(last, args)
        if last in ("sync_playwright", "async_playwright"):
            return Opaque("playwright")
        if name.startswith("playwright.") and name.endswith(("expect", "expect.soft", "expect.set_options")):
            if last == "set_options":
                self.script.keys["expect_timeout"] = acts.seconds(kwargs.get("timeout", 5000))
                return None
            return Expectation(args[0], soft=last == "soft")
        if name.endswith("expect.poll"):
            return Expectation(self.interpreter.call(args[0], [], {}), polled=True)
        return call_library(self, name, args, kwargs)

    def _of_runner(self, name: str, args: list[Any]) -> Any:
        """What `test.skip(...)` and its like do in a test. Raises UnwritableError."""
        if name == "step":
            return self.interpreter.call(args[1], [], {})
        if name in ("skip", "fixme", "fail") and (not args or self.interpreter.truth(args[0])):
            reason = args[1] if len(args) > 1 and isinstance(args[1], str) else f"the test calls `test.{name}()`"
            self.script.keys["expected_failure" if name == "fail" else "skip"] = reason
        elif name == "slow":
            self.script.keys["slow"] = True
        return Quiet()

    def builtin(self, name: str) -> Any:
        """A builtin of Python, or one that the translation of JavaScript uses; None for another."""
        if name == "__use__":
            return Native(self._use)
        if name == "getattr":
            return Native(self._attribute_named)
        if name in ("map", "filter"):
            return Native(self._mapped if name == "map" else self._filtered)
        if name == "__member__":
            return Native(
                lambda owner, key: owner.get(key) if isinstance(owner, dict) else self.interpreter.attribute(owner, key)
            )
        return builtin(name)

    def _attribute_named(self, owner: Any, name: Any, *default: Any) -> Any:
        found = self.interpreter.attribute(owner, plain(name))
        return default[0] if isinstance(found, Unknown) and default and not isinstance(owner, Unknown) else found

    def _mapped(self, function: Any, values: Any) -> list[Any]:
        return [self.interpreter.call(function, [each], {}) for each in self.interpreter.items(values)]

    def _filtered(self, function: Any, values: Any) -> list[Any]:
        found = self.interpreter.items(values)
        return [each for each in found if self.interpreter.truth(self.interpreter.call(function, [each], {}))]

    def _use(self, options: Any) -> None:
        """`test.use({...})`."""
        if isinstance(options, dict):
            acts.context_options(self.script, {snake(key): value for key, value in options.items()})

    def awaited(self, value: Any) -> Any:
        """What is waited for: an event by what has led to it. Raises UnwritableError."""
        if isinstance(value, Event):
            self.left(value, value.before)
            return value.value
        return value

    def text_method(self, text: str, name: str) -> Native:
        """A method of a text."""
        return text_method(text, name)

    def imported(self, statement: ast.Import | ast.ImportFrom, module: Module) -> Iterable[tuple[str, Any]]:
        """The names that an import makes."""
        return self._imports(statement, module)

    def compared(self, sign: str, left: Any, right: Any) -> Any:
        """The comparison of two values of which one is a symbol. Raises UnwritableError."""
        return reading.compared(self.script, sign, left, right)

    def put(self, owner: Any, key: Any, value: Any) -> None:
        """An item of a symbol is set. Raises UnwritableError."""
        if isinstance(owner, LibraryName) and owner.name == "os.environ":
            self.given = {**self.given, plain(key): plain(value)}
            return
        raise UnwritableError(f"an item of {named(owner)} is set")

    def arithmetic(self, sign: str, left: Any, right: Any) -> Any:
        """The sum or difference of two values of which one is a symbol. Raises UnwritableError."""
        if isinstance(left, MomentText) and isinstance(right, str):
            return MomentText(f"{left.text} {'+' if sign == 'Add' else '-'} {right}")
        if sign == "Div" and isinstance(left, Path) and isinstance(right, str):
            return left / right
        if isinstance(left, Quiet) or isinstance(right, Quiet):
            return Quiet()
        if isinstance(left, Ref) and left.unique:
            return left
        if sign == "BitOr" and hasattr(left, "__or__") and type(left) is type(right):
            return left | right
        if sign == "Mod" and isinstance(left, str) and isinstance(right, tuple | Ref | str):
            raise UnwritableError("write the text with an f-string")
        return reading.arithmetic(sign, left, right)

    def item(self, owner: Any, key: Any) -> Any:
        """An item of a symbol. Raises UnwritableError."""
        if isinstance(owner, LibraryName) and owner.name in ("os.environ", "environ"):
            return call_library(self, "os.environ.get", [key], {})
        if isinstance(owner, Opaque) and owner.kind == "pages":
            return SourcePage(plain(key))
        if isinstance(owner, PageRead):
            return reading.item_of(self.script, owner, key)
        if isinstance(owner, Ref):
            return owner if owner.unique else Unknown(f"a part of `{owner.text}` is known only when the task runs")
        if isinstance(owner, LibraryName | Quiet):
            return owner
        if isinstance(owner, Opaque) and owner.kind == "devices":
            return {"device": data_of(key)}
        raise UnwritableError(f"an item of {named(owner)}")


_OF_PATHS = ("resolve", "absolute", "joinpath", "with_suffix", "with_name", "read_text", "as_posix")
"""Methods of a path that read."""
_OPENED = {"launch": "browser", "connect": "browser", "start": "playwright"}
_WAITED = {f"wait_for_{name}": f"expect_{name}" for name in ("request", "response", "navigation")}
_OPTIONS = {
    "base_url": "",
    "headed": False,
    "tracing": "off",
    "video": "off",
    "screenshot": "off",
    "slowmo": 0,
    "device": None,
}
"""Options of pytest-playwright as they are if nobody gives them."""
_NEW_NAMES = {"drag_and_drop": "drag_to", "wait_for_selector": "wait_for"}
