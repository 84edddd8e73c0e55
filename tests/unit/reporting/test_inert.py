"""A DOM snapshot that does nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reporting.redact_files import POLICY, inert
from harness.reporting.redaction import MARK

HARMFUL = [
    "<script>alert(1)</script>",
    "<SCRIPT src=//evil.example/x.js></SCRIPT>",
    "<img src=x onerror=alert(1)>",
    "<body onload=alert(1)>",
    '<a href="java\nscript:alert(1)">x</a>',
    "<a href='&#106;avascript:alert(1)'>x</a>",
    '<meta http-equiv="refresh" content="0;url=http://evil.example">',
    '<iframe src="http://evil.example"></iframe>',
    '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
    "<object data=http://evil.example/x.swf></object><embed src=http://evil.example>",
    "<form action=http://evil.example><button formaction=http://evil.example>go</button></form>",
    "<base href=http://evil.example/>",
    "<link rel=preload href=http://evil.example/x.js as=script><link rel=import href=http://evil.example>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    '<title><a title="</title><script>alert(1)</script>"></a></title>',
    "<svg><animate attributeName=href to=javascript:alert(1)></animate></svg>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<div style='background:url(http://evil.example/a.png)'>x</div>",
    "<style>@import 'http://evil.example/x.css'; p { background: url(http://evil.example/b.png) }</style>",
    "<video autoplay poster=http://evil.example/p.png><source src=http://evil.example/v></video>",
    "<!--><script>alert(1)</script>-->",
    "<script/><p>x</p>",
    "<div><template shadowrootmode=open><img src=x onerror=alert(1)><script>alert(2)</script></template></div>",
]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _tags(document: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed(document)
    return parser.found


def _acts(document: str) -> list[str]:
    """What in a document could still run or load something."""
    found = []
    for tag, attributes in _tags(document)[2:]:  # after our own two meta elements
        if tag in ("script", "object", "embed", "base", "meta", "link", "animate", "set"):
            found.append(tag)
        for name, value in attributes.items():
            loads = name in ("src", "srcset", "data", "action", "formaction", "poster", "srcdoc", "xlink:href")
            if name.startswith("on") or (loads and not (value or "").startswith("data:image/")):
                found.append(f"{tag}.{name}")
            if name == "href" and not (value or "").startswith("#"):
                found.append(f"{tag}.{name}={value}")
            if name == "style" and "url(http" in (value or ""):
                found.append(f"{tag}.style")
    return found


@pytest.mark.parametrize("harmful", HARMFUL)
def test_harmful_parts_go(harmful: str) -> None:
    document = inert(f"<html><head></head><body>before {harmful} after</body></html>")
    assert _acts(document) == []
    assert "evil.example" not in re.sub(r'data-inert-[a-z-]+="[^"]*"', "", document)
    assert "before" in document


@pytest.mark.parametrize("harmful", [h for h in HARMFUL if "<!--" not in h])
def test_text_after_them_stays(harmful: str) -> None:
    assert "after" in inert(f"<body>before {harmful} after</body>")


def test_text_and_layout_stay() -> None:
    page = (
        "<!doctype html><html lang=de><head><title>Shop &amp; more</title><style>p > b { color: red }</style></head>"
        '<body class="a b"><p style="color: blue">1 &lt; 2 <b>ü</b><br><input value="mouse" checked>'
        '<img alt="m" src="data:image/png;base64,AAAA"><svg viewBox="0 0 1 1"><path d="M0 0"/></svg></body></html>'
    )
    document = inert(page)
    for kept in (
        "<title>Shop &amp; more</title>", "p > b { color: red }", '<html lang="de">', '<body class="a b">',
        '<p style="color: blue">1 &lt; 2 <b>ü</b><br>', '<input value="mouse" checked>',
        'src="data:image/png;base64,AAAA"', '<path d="M0 0"></path>',
    ):  # fmt: skip
        assert kept in document
    assert document.startswith("<!DOCTYPE html>")
    assert POLICY in document


def test_where_things_led_can_still_be_read() -> None:
    assert 'data-inert-href="http://x/"' in inert("<a href='http://x/'>x</a>")
    assert 'data-inert-action="/pay"' in inert("<form action=/pay></form>")


def test_places_in_the_page_stay_links() -> None:
    assert '<a href="#top">' in inert("<a href='#top'>up</a>")


def test_passwords_are_redacted() -> None:
    document = inert("<input type=PASSWORD value='hunter2'><input type=text value=mouse>")
    assert "hunter2" not in document
    assert f'value="{MARK}"' in document
    assert 'value="mouse"' in document


def test_an_empty_password_field_is_not_shown_as_filled() -> None:
    assert MARK not in inert("<input type=password value=''><input type=password value><input type=password>")


@given(
    st.lists(
        st.sampled_from(
            [*HARMFUL, "<p>", "</p>", "<", ">", '"', "'", "<!--", "-->", "<textarea>", "</title>", "<svg>", "x=", "/>"]
        ),
        max_size=8,
    )
)
def test_no_mixture_acts(parts: list[str]) -> None:
    document = inert("".join(parts))
    assert _acts(document) == []
    assert not re.search(r"<\s*script", document, re.IGNORECASE)
