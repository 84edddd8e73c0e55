"""What pages and elements are told to do, as steps of a task."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from harness.spec.imported.expecting import address, from_glob
from harness.spec.imported.locating import bind, selector_of
from harness.spec.imported.script import TestScript
from harness.spec.imported.values import LineOfTest, Opaque, PlaceInTest, Regex, SourcePage, data_of, plain, said
from harness.spec.recorded.journey import literal
from harness.spec.recorded.locators import Target as Found
from harness.spec.recorded.locators import UnwritableError, target_of

HARMLESS = ("no_wait_after", "strict", "animations", "steps", "type", "quality", "omit_background", "scale", "caret")
"""Options that change nothing in what is done."""
_EARLIER = ("commit", "domcontentloaded")
Keys = dict[str, Any]


def seconds(value: Any) -> float | None:
    """Milliseconds as seconds; None for "as long as it takes"."""
    number = plain(value)
    return round(number / 1000, 3) if number else None


def _limit(value: Any) -> Keys:
    limit = seconds(value)
    return {} if limit is None else {"timeout": min(limit, 3600)}


def _point(key: str) -> Callable[[Any], Keys]:
    return lambda value: {key: {name: plain(value[name]) for name in ("x", "y")}}


_OPTIONS: Mapping[str, Callable[[Any], Keys]] = {
    "force": lambda value: {"force": True} if plain(value) else {},
    "button": lambda value: {} if said(value) == "left" else {"button": said(value)},
    "click_count": lambda value: {} if plain(value) == 1 else {"count": plain(value)},
    "modifiers": lambda value: {"modifiers": [said(each) for each in value]},
    "position": _point("position"),
    "source_position": _point("position"),
    "target_position": _point("drop_position"),
    "timeout": _limit,
    "delay": lambda value: {},
    **dict.fromkeys(HARMLESS, lambda value: {}),
}
"""Option -> the keys that say it."""
_TIMED = ("timeout", *HARMLESS)
_FORCED = ("force", *_TIMED)
_POINTED = ("button", "click_count", "modifiers", "position", "delay", *_FORCED)


def at(place: PlaceInTest) -> Keys:
    """The keys that name an element. Raises UnwritableError."""
    target: Found = target_of(place.parts)
    return {"selector": target.selector, **({"frame": target.frame} if target.frame else {})}


class _Act(Struct, frozen=True):
    act: str
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = _TIMED
    main: Callable[[Keys], Keys] = lambda given: {}
    least: int = 1


def _select(given: Keys) -> Keys:
    named = [name for name in ("value", "label", "index") if name in given]
    if len(named) != 1:
        raise UnwritableError("an option is named by exactly one of `value`, `label`, `index`")
    value = given[named[0]]
    if named[0] == "index":
        return {"value": {"index": plain(value)}}
    several = [said(each) for each in value] if isinstance(value, list | tuple) else said(value)
    if isinstance(several, list) and len(several) == 1:
        several = several[0]
    if named[0] == "value":
        return {"value": several}
    if isinstance(several, list):
        raise UnwritableError("several options by `label` cannot be said in a task")
    return {"value": {"label": several}}


def _files(given: Keys) -> Keys:
    files = given["files"]
    found = [_name_of_file(each) for each in (files if isinstance(files, list | tuple) else (files,))]
    if not found:
        raise UnwritableError("a task has no act that empties a file field")
    return {"value": found[0] if len(found) == 1 else found}


def _name_of_file(file: Any) -> str:
    """A file to upload: it must lie beside the task."""
    if isinstance(file, dict):
        raise UnwritableError("a task uploads files, and makes none")
    return PurePosixPath(said(file).replace("\\", "/")).name


def _onto(given: Keys) -> Keys:
    target = given["target"]
    return {"value": selector_of(target) if isinstance(target, PlaceInTest) else said(target)}


_ELEMENT: Mapping[str, _Act] = {
    "click": _Act("click", (), _POINTED, least=0),
    "dblclick": _Act("click", (), _POINTED, lambda given: {"count": 2}, least=0),
    "tap": _Act("tap", (), ("modifiers", "position", *_FORCED), least=0),
    **{name: _Act(name, (), _FORCED, least=0) for name in ("hover", "check", "uncheck", "focus", "blur", "clear")},
    "scroll_into_view_if_needed": _Act("scroll", (), _TIMED, least=0),
    "fill": _Act("type", ("value",), _FORCED, lambda given: {"value": said(given["value"])}),
    "press": _Act("press", ("key",), ("delay", *_TIMED), lambda given: {"value": said(given["key"])}),
    "select_option": _Act("select", ("value",), ("label", "index", *_FORCED), _select, least=0),
    "set_input_files": _Act("upload", ("files",), _TIMED, _files),
    "drag_to": _Act("drag", ("target",), ("source_position", "target_position", *_FORCED), _onto),
}
_NEW_NAMES = {"drag_and_drop": "drag_to", "wait_for_selector": "wait_for", "type": "press_sequentially"}
_NO_DELAY = ("click", "dblclick", "press")


def on_element(script: TestScript, place: PlaceInTest, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Do something with an element. Raises UnwritableError."""
    method = _NEW_NAMES.get(method, method)
    if method in _ELEMENT:
        act = _ELEMENT[method]
        given = bind(args, kwargs, act.names, act.options, act.least)
        extra = {
            key: item
            for name, value in given.items()
            if name in _OPTIONS
            for key, item in _OPTIONS[name](value).items()
        }
        script.add(place.page, {"act": act.act, **at(place), **act.main(given), **extra})
        return None
    if method not in _SPECIAL:
        raise UnwritableError(f"a task has no act for `{method}`")
    return _SPECIAL[method](script, place, args, kwargs)


def _typing(script: TestScript, place: PlaceInTest, args: list[Any], kwargs: Keys) -> None:
    """Keys behind what is in the field; if it has just been emptied, in place of it."""
    given = bind(args, kwargs, ("text",), ("delay", *_TIMED))
    slow = {"delay": min(seconds(given["delay"]) or 0, 10)} if given.get("delay") else {}
    keys = {"value": said(given["text"]), "keys": True, **slow}
    last = next((line for line in reversed(script.lines) if line.keys), LineOfTest())
    emptied = last.keys.get("act") == "clear" or (last.keys.get("act") == "type" and last.keys.get("value") == "")
    if emptied and {key: last.keys.get(key) for key in ("selector", "frame") if key in last.keys} == at(place):
        last.keys = {"act": "type", **at(place), **keys}
        return
    script.add(place.page, {"act": "focus", **at(place)})
    script.add(place.page, {"act": "type", **keys})


def _ticking(script: TestScript, place: PlaceInTest, args: list[Any], kwargs: Keys) -> None:
    given = bind(args, kwargs, ("checked",), _FORCED)
    on_element(script, place, "check" if plain(given.pop("checked")) else "uncheck", [], given)


def _waiting(script: TestScript, place: PlaceInTest, args: list[Any], kwargs: Keys) -> PlaceInTest:
    given = bind(args, kwargs, ("state",), _TIMED, 0)
    state, limit = said(given.get("state", "visible")), _limit(given["timeout"]) if "timeout" in given else {}
    if state == "visible":
        script.add(place.page, {"act": "wait", **at(place), **limit})
    else:
        read = "exists" if state in ("attached", "detached") else "visible"
        text = read_of(read, place)
        said_so = f"NOT[{text}]" if state in ("detached", "hidden") else text
        script.add(place.page, {"act": "wait", "expr": said_so, **limit})
    return place


def _picture(script: TestScript, place: PlaceInTest | SourcePage, args: list[Any], kwargs: Keys) -> None:
    given = bind(args, kwargs, ("path",), ("full_page", "clip", "mask", *_TIMED), 0)
    if not isinstance(given.get("path"), str):
        return  # its bytes are for a report
    where = at(place) if isinstance(place, PlaceInTest) and place.parts else {}
    page = place.page if isinstance(place, PlaceInTest) else place.index
    name = said(PurePosixPath(given["path"].replace("\\", "/")).stem)[:100]
    script.add(page, {"act": "screenshot", **where, "screenshot_id": name})


_SPECIAL: Mapping[str, Callable[[TestScript, PlaceInTest, list[Any], Keys], Any]] = {
    "press_sequentially": _typing,
    "set_checked": _ticking,
    "wait_for": _waiting,
    "screenshot": _picture,
    "highlight": lambda *_: None,
}
ELEMENT_METHODS = frozenset({*_ELEMENT, *_SPECIAL, *_NEW_NAMES})
"""The methods of elements; a page and a frame have them too, with a selector first."""


def read_of(function: str, place: PlaceInTest, *names: str) -> str:
    """A call that reads an element, in its frame. Raises UnwritableError."""
    target = target_of(place.parts)
    frame = "" if target.frame is None else f", frame={literal(target.frame)}"
    return f"{function}({', '.join(map(literal, (target.selector, *names)))}{frame})"


# Pages.


def _goto(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> Opaque:
    given = bind(args, kwargs, ("url",), ("wait_until", "referer", *_TIMED))
    until = said(given.get("wait_until", "load"))
    limit = _limit(given["timeout"]) if "timeout" in given else {}
    early = {"until": until} if until in _EARLIER else {}
    line = script.add(page.index, {"act": "open", "url": said(given["url"]) or "/", **early, **limit})
    if until == "networkidle":
        script.add(page.index, {"act": "wait", "state": until})
    return Opaque("response", page.index, line)


def _history(act: str) -> Callable[[TestScript, SourcePage, list[Any], Keys], Opaque]:
    def go(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> Opaque:
        given = bind(args, kwargs, (), ("wait_until", *_TIMED), 0)
        until = said(given.get("wait_until", "load"))
        line = script.add(page.index, {"act": act, **({"until": until} if until in _EARLIER else {})})
        if until == "networkidle":
            script.add(page.index, {"act": "wait", "state": until})
        return Opaque("response", page.index, line)

    return go


_LONG = 20
"""Seconds from which on a wait needs more than the usual time of a step."""


def pause(script: TestScript, value: Any, page: int = 0) -> None:
    """Wait for some seconds. Raises UnwritableError."""
    length = float(plain(value))
    script.add(page, {"act": "wait", "value": length, **({"timeout": length + 10} if length > _LONG else {})})


def _wait_for_url(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> None:
    given = bind(args, kwargs, ("url",), ("wait_until", *_TIMED))
    limit = _limit(given["timeout"]) if "timeout" in given else {}
    script.add(page.index, {"act": "wait", "expr": address(given["url"]), **limit})


def _wait_for_state(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> None:
    given = bind(args, kwargs, ("state",), _TIMED, 0)
    limit = _limit(given["timeout"]) if "timeout" in given else {}
    script.add(page.index, {"act": "wait", "state": said(given.get("state", "load")), **limit})


def _emulate(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> None:
    given = bind(args, kwargs, (), ("color_scheme", "reduced_motion"), 0)
    script.add(page.index, {"act": "set", **{name: said(value) for name, value in given.items()}})


def _size(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> None:
    size = plain(bind(args, kwargs, ("viewport_size",))["viewport_size"])
    if not any(line.keys for line in script.lines):
        script.keys.setdefault("browser", {})["viewport"] = [size["width"], size["height"]]
        return
    script.add(page.index, {"act": "set", "viewport": [size["width"], size["height"]]})


def _patience(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> None:
    limit = seconds(bind(args, kwargs, ("timeout",))["timeout"])
    if any(line.keys for line in script.lines):
        raise UnwritableError("`step_timeout` holds for the whole task: write `timeout` at the steps")
    if limit:
        script.keys["step_timeout"] = max(1, min(300, round(limit)))


_SCROLLS = {
    "window.scrollTo(0, document.body.scrollHeight)": {},
    "window.scrollTo(0,document.body.scrollHeight)": {},
    "window.scrollBy(0, document.body.scrollHeight)": {},
    "window.scrollTo(0, 0)": {"value": -1_000_000},
    "window.scrollTo(0,0)": {"value": -1_000_000},
}


def _evaluate(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> Any:
    text = args[0].strip().rstrip(";") if args and isinstance(args[0], str) else ""
    if found := re.fullmatch(r"(?:\(\)\s*=>\s*)?(?:window\.)?localStorage\.getItem\(['\"]([\w.:-]+)['\"]\)", text):
        return script.read(f"local_storage({literal(found[1])})", page.index)
    bare = text.removeprefix("()").strip().removeprefix("=>").strip()
    if bare not in _SCROLLS or len(args) > 1:
        raise UnwritableError("a task runs no script of its own")
    script.add(page.index, {"act": "scroll", **_SCROLLS[bare]})
    return None


_FUNCTIONS = (
    (re.compile(r"document\.readyState\s*===?\s*['\"]complete['\"]"), "state"),
    (re.compile(r"!\s*document\.querySelector\((['\"])(?P<css>.+)\1\)"), "NOT[exists({})]"),
    (re.compile(r"(?:!!\s*)?document\.querySelector\((['\"])(?P<css>.+)\1\)(?:\s*!==?\s*null)?"), "exists({})"),
    (re.compile(r"document\.querySelectorAll\((['\"])(?P<css>.+)\1\)\.length\s*(?P<rest>[=<>!]=*\s*\d+)"), "count({})"),
)


def _wait_for_function(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> None:
    """Wait for what a short script says, if a criterion says it too. Raises UnwritableError."""
    given = bind(args, kwargs, ("expression",), _TIMED)
    limit = _limit(given["timeout"]) if "timeout" in given else {}
    bare = re.sub(r"^\(\)\s*=>\s*", "", said(given["expression"]).strip().rstrip(";"))
    for pattern, form in _FUNCTIONS:
        if found := pattern.fullmatch(bare):
            rest = found.groupdict().get("rest")
            aim = (
                {"state": "load"}
                if form == "state"
                else {"expr": form.format(literal(found["css"])) + (f" {rest}" if rest else "")}
            )
            script.add(page.index, {"act": "wait", **aim, **limit})
            return
    raise UnwritableError("a task runs no script of its own: `wait` takes a criterion as `expr`")


def _ignored(script: TestScript, page: SourcePage, args: list[Any], kwargs: Keys) -> None:
    """What a task needs no step for."""


ON_PAGE: Mapping[str, Callable[[TestScript, SourcePage, list[Any], Keys], Any]] = {
    "goto": _goto,
    "go_back": _history("back"),
    "go_forward": _history("forward"),
    "reload": _history("reload"),
    "wait_for_timeout": lambda script, page, args, kwargs: pause(
        script, plain(bind(args, kwargs, ("timeout",))["timeout"]) / 1000, page.index
    ),
    "wait_for_url": _wait_for_url,
    "wait_for_load_state": _wait_for_state,
    "screenshot": _picture,
    "emulate_media": _emulate,
    "set_viewport_size": _size,
    "set_default_timeout": _patience,
    "evaluate": _evaluate,
    "wait_for_function": _wait_for_function,
    "set_extra_http_headers": lambda script, page, args, kwargs: script.add(
        page.index, {"act": "set", "extra_headers": data_of(bind(args, kwargs, ("headers",))["headers"])}
    ),
    **dict.fromkeys(
        ("bring_to_front", "close", "set_default_navigation_timeout", "pause"),
        _ignored,
    ),
}
"""Method of a page -> what it does."""


def _keyboard(script: TestScript, page: int, method: str, args: list[Any], kwargs: Keys) -> None:
    if method == "press":
        script.add(page, {"act": "press", "value": said(bind(args, kwargs, ("key",), ("delay",))["key"])})
    elif method in ("type", "insert_text"):
        text = said(bind(args, kwargs, ("text",), ("delay",))["text"])
        script.add(page, {"act": "type", "value": text, "keys": True})
    else:
        raise UnwritableError(f"a task has no act for `keyboard.{method}`")


def _mouse(script: TestScript, page: int, method: str, args: list[Any], kwargs: Keys) -> None:
    if method != "wheel":
        raise UnwritableError(f"a task has no act for `mouse.{method}`: name the element")
    given = bind(args, kwargs, ("delta_x", "delta_y"), least=2)
    right, down = int(plain(given["delta_x"])), int(plain(given["delta_y"]))
    script.add(page, {"act": "scroll", "value": down, **({"right": right} if right else {})})


DEVICES = {"keyboard": _keyboard, "mouse": _mouse}
"""Property of a page -> what its methods do."""


def _offline(script: TestScript, args: list[Any], kwargs: Keys) -> None:
    script.add(script.state.page, {"act": "set", "offline": plain(bind(args, kwargs, ("offline",))["offline"])})


def _set_in_context(name: str, key: str) -> Callable[[TestScript, list[Any], Keys], None]:
    def change(script: TestScript, args: list[Any], kwargs: Keys) -> None:
        value = data_of(bind(args, kwargs, (name,), ("origin",))[name])
        if not any(line.keys for line in script.lines):
            script.keys.setdefault("browser", {})[key] = value
        else:
            script.add(script.state.page, {"act": "set", key: value})

    return change


def _cleared(script: TestScript, args: list[Any], kwargs: Keys) -> None:
    if any(line.keys for line in script.lines):
        raise UnwritableError("a task cannot clear what the browser keeps: write a task of its own")


IN_CONTEXT: Mapping[str, Callable[[TestScript, list[Any], Keys], Any]] = {
    "set_offline": _offline,
    "set_geolocation": _set_in_context("geolocation", "geolocation"),
    "grant_permissions": _set_in_context("permissions", "permissions"),
    "set_extra_http_headers": _set_in_context("headers", "extra_headers"),
    **dict.fromkeys(
        ("close", "stop", "storage_state", "set_default_navigation_timeout"), lambda script, args, kwargs: None
    ),
    **dict.fromkeys(("clear_cookies", "clear_permissions"), _cleared),
}
"""Method of a browser or a context -> what it does."""
_CONTEXT_KEYS = {
    "viewport": "viewport",
    "locale": "locale",
    "timezone_id": "timezone",
    "color_scheme": "color_scheme",
    "geolocation": "geolocation",
    "permissions": "permissions",
    "user_agent": "user_agent",
    "extra_http_headers": "extra_headers",
    "http_credentials": "http_credentials",
    "ignore_https_errors": "ignore_https_errors",
    "java_script_enabled": "java_script",
    "reduced_motion": "reduced_motion",
    "offline": "offline",
}
_OF_REPORTS: tuple[str, ...] = (
    "record_video_dir",
    "record_video_size",
    "record_har_path",
    "accept_downloads",
    "no_viewport",
    "base_url",
)
_OF_REPORTS += ("screen", "device_scale_factor", "is_mobile", "has_touch", "channel", "headless", "slow_mo", "args")


def context_options(script: TestScript, options: Mapping[str, Any]) -> None:
    """The options of a context as `browser:` of the task. Raises UnwritableError."""
    for name, value in options.items():
        if name in _OF_REPORTS or value is None:
            if name == "base_url":
                script.notes.append(f"Its addresses are relative to base_url {plain(value)}: set it in [tool.harness].")
            if name in ("is_mobile", "has_touch", "device_scale_factor") and value:
                raise UnwritableError("name the `device` under `browser:` in the task")
        elif name not in _CONTEXT_KEYS:
            raise UnwritableError(f"write the option {name} under `browser:` in the task, or as its `login`")
        else:
            script.keys.setdefault("browser", {})[_CONTEXT_KEYS[name]] = _context_value(name, value)


def _context_value(name: str, value: Any) -> Any:
    if name == "viewport":
        size = plain(value)
        return [size["width"], size["height"]]
    return data_of(value)


# Requests.


def glob_of(url: Any) -> str:
    """A pattern for a URL as a task has it. Raises UnwritableError."""
    if isinstance(url, Regex):
        raise UnwritableError("a regular expression for a URL cannot be said in a task; `*` matches anything")
    return from_glob(said(url))


def api(script: TestScript, method: str, args: list[Any], kwargs: Keys, own: Mapping[str, Any] | None) -> Opaque:
    """A request with the page's cookies; `own` are the options of a context of its own. Raises UnwritableError."""
    options = ("data", "headers", "form", "params", "timeout", "method", "fail_on_status_code", "max_redirects")
    given = bind(args, kwargs, ("url",), options)
    if own is not None and any(line.keys.get("act") not in ("api", "assert", None) for line in script.lines):
        raise UnwritableError("an `api` step has the cookies of the page, and this request has its own")
    url, headers = said(given["url"]), {**((own or {}).get("extra_http_headers") or {}), **(given.get("headers") or {})}
    if (base := (own or {}).get("base_url")) and "://" not in url:
        url = said(base) if not url else f"{said(base).rstrip('/')}/{url.lstrip('/')}"
    if "params" in given:
        url += f"{'&' if '?' in url else '?'}{urlencode(plain(given['params']))}"
    keys: Keys = {"act": "api", "method": said(given.get("method", method)).upper(), "url": url}
    if "form" in given:
        headers["content-type"], keys["value"] = "application/x-www-form-urlencoded", urlencode(plain(given["form"]))
    elif "data" in given:
        keys["value"] = data_of(given["data"])
    if headers:
        keys["headers"] = data_of(headers)
    return Opaque("answer", script.state.page, script.add(script.state.page, keys))
