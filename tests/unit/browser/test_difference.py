"""The comparison of two states."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import StorageState

from harness.browser.checkpoint import (
    FormField,
    PageCheckpoint,
    PageState,
    is_same_value,
    page_differences,
    storage_differences,
)
from harness.values import replace

PAGE = PageState(
    "http://a.test/", "http://a.test", 200, (0, 0), {"step": "1"}, (FormField("#qty", "text", False, "2"),)
)


def cookie(name: str = "sid", value: str = "s3cret", **fields: Any) -> dict[str, Any]:
    plain = {"domain": "a.test", "path": "/", "expires": 5, "httpOnly": True, "secure": False, "sameSite": "Lax"}
    return {"name": name, "value": value, **plain, **fields}


def storage(*cookies: dict[str, Any], **local: str) -> StorageState:
    entries = [{"name": name, "value": value} for name, value in local.items()]
    origin = {"origin": "http://a.test", "localStorage": entries}
    state: Any = {"cookies": list(cookies), "origins": [origin] if local else []}
    return state


def test_expiry_and_order_do_not_count() -> None:
    saved = storage(cookie(), cookie("b"), x="1", y="2")
    now = storage(cookie("b", expires=99), cookie(expires=-1), y="2", x="1")
    assert list(storage_differences(saved, now)) == []


def test_cookies_are_named_without_their_values() -> None:
    saved = storage(cookie(), cookie("gone", path="/shop"))
    now = storage(cookie(value="other-s3cret"), cookie("new"))
    lines = list(storage_differences(saved, now))
    assert lines == [
        "cookie sid of a.test: differs",
        "cookie gone of a.test (path /shop): was saved, is missing",
        "cookie new of a.test: was not saved, is present",
    ]
    assert "s3cret" not in "".join(lines)


def test_stores_are_named_by_origin() -> None:
    saved: Any = storage(cart="[7]", only="1")
    now: Any = storage(cart="[]")
    saved["origins"][0]["indexedDB"] = [{"name": "shop", "version": 1, "stores": []}]
    now["origins"][0]["indexedDB"] = [{"name": "shop", "version": 2, "stores": []}]
    assert list(storage_differences(saved, now)) == [
        "localStorage cart of http://a.test: differs",
        "localStorage only of http://a.test: was saved, is missing",
        "IndexedDB shop of http://a.test: differs",
    ]


def field(kind: str, value: Any, secret: bool = False) -> FormField:
    return FormField("#f", kind, secret, value)


def file(name: str, content: str | None = "eA==") -> dict[str, Any]:
    return {"name": name, "type": "", "size": 1, "modified": 3, "content": content}


@pytest.mark.parametrize(
    ("saved", "now", "line"),
    [
        (field("text", "2"), field("text", "1"), "#f: was '2', is '1'"),
        (field("check", True), field("check", False), "#f: was checked, is not checked"),
        (field("select", ["a", "b"]), field("select", []), "#f: was a, b, is nothing"),
        (field("file", [file("x.txt")]), field("file", []), "#f: was x.txt, is no file"),
        (field("file", [file("x", None)]), field("file", []), "#f: was x, is no file (too large to keep)"),
        (field("text", "pw", secret=True), field("text", ""), "#f: differs"),
        (field("text", "x"), field("text", "pw", secret=True), "#f: differs"),
        (field("text", "x" * 200), field("text", ""), f"#f: was '{'x' * 79}…', is ''"),
    ],
)
def test_fields_say_what_they_were(saved: FormField, now: FormField, line: str) -> None:
    assert list(page_differences([replace(PAGE, fields=(saved,))], [replace(PAGE, fields=(now,))])) == [line]


def test_the_content_of_files_is_not_read_again() -> None:
    assert is_same_value(field("file", [file("x")]), field("file", [file("x", None)]))
    assert not is_same_value(field("file", [file("x")]), field("file", [file("y")]))


def test_pages_are_numbered_when_there_are_several() -> None:
    other = replace(PAGE, url="http://a.test/2")
    moved = replace(other, url="http://a.test/login", scroll=(0, 500), session={}, fields=())
    assert list(page_differences([PAGE, other], [PAGE, moved])) == [
        "page 2: URL: was http://a.test/2, is http://a.test/login",
        "page 2: sessionStorage step of http://a.test: was saved, is missing",
        "page 2: #qty: was saved, is missing",
        "page 2: scroll position: was 0,0, is 0,500",
    ]
    assert list(page_differences([PAGE, other], [PAGE])) == ["page 2: http://a.test/2 was open, is not"]
    assert list(page_differences([PAGE], [PAGE, other])) == ["page 2: http://a.test/2 was not open, now is"]


def test_a_checkpoint_tells_what_it_could_not_save_and_no_secrets() -> None:
    saved = PageCheckpoint(storage(cookie()), (PAGE, PAGE), 0, frozenset(), ("IndexedDB: was not saved (why)",))
    assert saved.differences(saved) == ("IndexedDB: was not saved (why)",)
    assert saved.differences(replace(saved, current=1))[-1] == "current page: was page 1, is page 2"
    assert saved.url == "http://a.test/"
    assert "s3cret" not in repr(saved)
