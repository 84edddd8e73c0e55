"""Recorded pages that are redacted, cut, broken or hostile: no guess is made, and no odd error is raised."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.criteria import parse
from harness.reporting.redaction import MARK
from harness.runner.regrade.criteria import Grade, grade
from harness.runner.regrade.page import DEEPEST, MOST_NODES, recorded_page
from harness.runner.regrade.recorded import RecordedSources

HTML = [-1, "html", {}, {}]


def document(*nodes: Any, **changes: Any) -> dict[str, Any]:
    whole = {"version": 1, "url": "http://x/", "title": "x", "quirks": False, "shadows": 0, "whole": True}
    return {**whole, "nodes": [HTML, *nodes], **changes}


def judged(text: str, found: dict[str, Any]) -> Grade:
    return asyncio.run(grade(parse(text), RecordedSources(recorded_page(found), {}, {}, None)))


FORM = document(
    [0, "p", {"id": "a", "class": "x", "title": MARK}, {"visible": True}],
    [1, "two "],
    [1, "b", {}, {}],
    [3, " words"],
    [0, "p", {"id": "long"}, {"text": None}],
    [0, "p", {"id": "told"}, {"text": f"Hello {MARK}"}],
    [0, "input", {"type": "Submit", "value": "go"}, {"value": "gone"}],
    [0, "fb:like", {"@on": "1", "xlink:href": "\x01"}, {}],
    [0, "svg", {"viewBox": "0"}, {"ns": "http://www.w3.org/2000/svg"}],
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("text('#a') == 'two words'", True),
        ("text('#long') != ''", None),
        ("text('#told') includes 'Hello'", None),
        ("exists('[title]')", None),
        ("exists('[title=x]')", None),
        ("exists('p[title^=s].x')", None),
        ("exists('//p[@title]')", None),
        ("exists('//*[@*]')", None),
        ("attr('#a', 'title') == 'x'", None),
        ("attr('#a', 'nothing') == null", True),
        ("exists('input[type=submit]')", None),
        ("exists('input')", True),
        ("value('input') == 'gone'", True),
        ("attr('input', 'value') == 'go'", True),
        ("count('*') == 8", True),
        ("attr('svg', 'viewBox') == '0'", True),
        ("attr('svg', 'viewbox') == null", True),
        ("exists('p::before')", None),
        ("exists('p:hover')", None),
        ("exists('p[')", None),
        ("exists('//p[')", None),
        ("exists('//p/text()')", False),
        ("exists('xpath=count(//p)')", None),
        ("exists('//x:p')", None),
        ("exists('(' )", None),
        ("exists('[\\\\@on]')", None),
        ("exists('\"two\"')", None),
        ("exists('id=a')", None),
        ("exists('css=#a')", True),
        ("exists('*|p')", None),
        ("exists('|p')", None),
        ("exists('[*|id]')", None),
        ("exists('p:not([x|id])')", None),
        ("exists('[id|=a]')", True),
        ("exists('[id=\"a|b\"]')", False),
        ("exists('[id=\"a\" s]')", None),
        ("exists('[id=\"a\"S]')", None),
        ("exists('[id=a s ]')", None),
        ("exists('[s]')", False),
        ("exists('[id=\"s\"]')", False),
        ("exists('[id=\"A\" i]')", True),
        ("visible('p')", True),
    ],
)
def test_no_guess_is_made(text: str, holds: bool | None) -> None:
    assert judged(text, FORM).holds is holds


def test_texts_that_are_redacted_in_a_page_hide_what_xpath_finds_by_text() -> None:
    page = document([0, "p", {}, {}], [1, f"pin {MARK}"])
    assert judged("exists('//p[contains(., \"4711\")]')", page).holds is None
    assert judged("exists('//p')", page).holds is True


def test_what_was_cut_off_or_is_in_quirks_mode() -> None:
    assert judged("exists('p')", document([0, "p", {}, {}], whole=False)).holds is None
    quirks = document([0, "p", {"class": "Big"}, {}], quirks=True)
    assert judged("exists('.big')", quirks).holds is None
    assert judged("exists('p')", quirks).holds is True


def test_a_page_without_elements_has_none() -> None:
    assert judged("exists('p')", {**document(), "nodes": []}).holds is False


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], "holds no page"),
        ({"nodes": {}}, "holds no page"),
        (document(version=2), "another version"),
        (document(title=None), "another version"),
        (document([5, "p", {}, {}]), "node 1 is below none"),
        (document([-1, "p", {}, {}]), "node 1 is below none"),
        (document([0, "p", {}]), "node 1 is none"),
        (document([0, "p", {"a": 1}, {}]), "node 1 is none"),
        (document([True, "p", {}, {}]), "node 1 is none"),
        (document([0, 7]), "node 1 is none"),
        (document("p"), "node 1 is none"),
        ({**document(), "nodes": [[-1, "text"]]}, "below none"),
        (document([0, "text"], [1, "p", {}, {}]), "node 2 is below none"),
        (document(*([n, "p", {}, {}] for n in range(DEEPEST + 5))), "nested more than"),
        (document(*([0, "x"] for _ in range(MOST_NODES))), f"more than {MOST_NODES} nodes"),
    ],
)
def test_what_is_no_page_is_refused(found: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        recorded_page(found)


def test_a_large_page_is_judged_in_a_moment() -> None:
    deep = [[n, "div", {"id": f"d{n}"}, {}] for n in range(200)]
    wide = [[0, "p", {"class": "x"}, {}] for _ in range(15_000)]
    page = document(*deep, *wide)
    assert judged("count('.x') == 15000", page).holds is True
    assert judged("exists('//div[@id=\"d199\"]')", page).holds is True
