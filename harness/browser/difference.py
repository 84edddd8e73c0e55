"""What differs between two states of a browser, in a line each. Pure.

Values of cookies, storage and secret fields never appear. Order and the time at which a cookie expires do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from playwright.async_api import StorageState

from harness.browser.forms import Field, PageState
from harness.browser.scene import shortened

SCROLL_SLACK = 2.0
"""Pixels; a position is rounded by the browser."""
_GONE, _NEW, _OTHER = "was saved, is missing", "was not there, now is", "differs"


def storage_differences(saved: StorageState, now: StorageState) -> Iterator[str]:
    """Cookies, localStorage and IndexedDB."""
    yield from _compared(_cookies(saved), _cookies(now))
    yield from _compared(_local(saved), _local(now))
    yield from _compared(_databases(saved), _databases(now))


def page_differences(saved: Sequence[PageState], now: Sequence[PageState]) -> Iterator[str]:
    """Pages in their order, and what is in each."""
    for number, page in enumerate(saved, 1):
        before = f"page {number}: " if len(saved) > 1 else ""
        if number > len(now):
            yield f"{before}{page.url} was open, is not"
        else:
            yield from (before + line for line in _page(page, now[number - 1]))
    for number, page in enumerate(now[len(saved) :], len(saved) + 1):
        yield f"page {number}: {page.url} was not open, now is"


def _page(saved: PageState, now: PageState) -> Iterator[str]:
    if saved.url != now.url:
        yield f"URL: was {saved.url}, is {now.url}"
    yield from _compared(_session(saved), _session(now))
    yield from _fields(saved.fields, now.fields)
    if any(abs(a - b) > SCROLL_SLACK for a, b in zip(saved.scroll, now.scroll, strict=True)):
        yield "scroll position: was {:g},{:g}, is {:g},{:g}".format(*saved.scroll, *now.scroll)


def _compared(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for what in [*saved, *(each for each in now if each not in saved)]:
        if what not in now:
            yield f"{what}: {_GONE}"
        elif what not in saved:
            yield f"{what}: {_NEW}"
        elif saved[what] != now[what]:
            yield f"{what}: {_OTHER}"


def _cookies(state: StorageState) -> dict[str, str]:
    named: dict[str, str] = {}
    for cookie in state["cookies"]:
        path = "" if cookie["path"] == "/" else f" (path {cookie['path']})"
        named[f"cookie {cookie['name']} of {cookie['domain']}{path}"] = cookie["value"]
    return named


def _local(state: StorageState) -> dict[str, str]:
    return {
        f"localStorage {entry['name']} of {origin['origin']}": entry["value"]
        for origin in state["origins"]
        for entry in origin["localStorage"]
    }


def _databases(state: StorageState) -> dict[str, Any]:
    """Playwright gives them, its type does not name them."""
    origins: Sequence[Mapping[str, Any]] = state["origins"]
    return {
        f"IndexedDB {database['name']} of {origin['origin']}": database
        for origin in origins
        for database in origin.get("indexedDB", ())
    }


def _session(page: PageState) -> dict[str, str]:
    return {f"sessionStorage {name} of {page.origin}": value for name, value in page.session.items()}


def _fields(saved: Sequence[Field], now: Sequence[Field]) -> Iterator[str]:
    before, after = ({each.place: each for each in fields} for fields in (saved, now))
    for place, entry in before.items():
        other = after.get(place)
        if other is None:
            yield f"{place}: {_GONE}"
        elif not same(entry, other):
            yield f"{place}: {_change(entry, other)}"
    yield from (f"{place}: {_NEW}" for place in after if place not in before)


def same(saved: Field, now: Field) -> bool:
    """Whether the values are equal; of files all but the content is compared."""
    if saved.kind == now.kind == "file":
        return _bare(saved.value) == _bare(now.value)
    return bool(saved.kind == now.kind and saved.value == now.value)


def _bare(files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in file.items() if key != "content"} for file in files]


def _change(saved: Field, now: Field) -> str:
    if saved.secret or now.secret:
        return _OTHER
    shown = _SHOWN.get(saved.kind, _text)
    lost = saved.kind == "file" and any(file["content"] is None for file in saved.value)
    return f"was {shown(saved.value)}, is {shown(now.value)}" + (" (too large to keep)" if lost else "")


def _text(value: Any) -> str:
    return repr(shortened(str(value)))


def _checked(value: Any) -> str:
    return "checked" if value else "not checked"


def _selected(value: Any) -> str:
    return shortened(", ".join(value)) or "nothing"


def _chosen(value: Any) -> str:
    return shortened(", ".join(file["name"] for file in value)) or "no file"


_SHOWN: dict[str, Callable[[Any], str]] = {"check": _checked, "select": _selected, "file": _chosen}
