"""How secrets are spelt, and which names hold one."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reporting.redaction import MARK, Redactor, is_secret_name, spellings


@pytest.mark.parametrize(
    "name",
    ["password", "userPassword", "PASSWD", "pin", "cardPin", "pin_code", "csrf_token", "accessToken", "client-secret",
     "api_key", "X-Api-Key", "cvv", "#login-password", "input[name='otp']", "pw"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["shipping", "opinion", "compass", "spinner", "author", "q", "email", "pint"])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@given(st.text(st.characters(codec="utf-8"), min_size=3, max_size=40), st.binary(max_size=7), st.binary(max_size=7))
def test_every_encoding_is_found(secret: str, before: bytes, after: bytes) -> None:
    found = spellings(secret)
    encoded = {
        quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }  # fmt: skip
    assert encoded <= found
    for text in {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}:
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(before + text.encode() + after).decode()
            ways = (letters, letters.rstrip("="), letters.replace("/", "\\/"), quote(letters, safe=""))
            assert len(text.encode()) < 4 or all(any(word in way for word in found) for way in ways)


def test_a_very_short_value_is_no_secret() -> None:
    assert spellings("ab") == set()
    assert spellings("") == set()


MARKS = "A!\"$%&'()*+,-./:;<=>@[\\]^_`{|}~ é\xa0Z"


@pytest.mark.parametrize(
    "seen",
    [
        "A!%22$%&'()*+,-./:;%3C=%3E@[/]%5E_%60%7B%7C%7D~%20%C3%A9%C2%A0Z",
        "A!%22$%&%27()*+,-./:;%3C=%3E@[\\]^_`{|}~%20%C3%A9%C2%A0Z",
        "A!%22$%&'()*+,-./:;%3C=%3E@[\\]^_%60{|}~%20%C3%A9%C2%A0Z",
        "A%21%22%24%25%26%27%28%29*%2B%2C-.%2F%3A%3B%3C%3D%3E%40%5B%5C%5D%5E_%60%7B%7C%7D%7E+%C3%A9%C2%A0Z",
        "A%21%22%24%25%26%27%28%29*%2B%2C-.%2F%3A%3B%3C%3D%3E%40%5B%5C%5D%5E_%60%7B%7C%7D%7E+%E9%A0Z",
        "A!\"$%&amp;'()*+,-./:;&lt;=&gt;@[\\]^_`{|}~ é&nbsp;Z",
        "A!&quot;$%&amp;'()*+,-./:;&lt;=&gt;@[\\]^_`{|}~ é&nbsp;Z",
        "A!&quot;$%&amp;'()*+,-./:;<=>@[\\]^_`{|}~ é&nbsp;Z",
    ],
    ids=["path", "query", "fragment", "form", "western form", "text", "attribute", "older attribute"],
)
def test_chromium_writes_it_so(seen: str) -> None:
    """Seen in `location.href`, in its HAR and in `outerHTML` of Chromium."""
    assert seen in spellings(MARKS)


def test_an_address_goes_on_into_its_other_parts_and_drops_line_breaks() -> None:
    assert "pp?qq%27^`{}|\\#ff'^%60{}|\\?#a" in spellings("pp?qq'^`{}|\\#ff'^`{}|\\?#a")
    assert {"nlx", "nl%0D%0Ax"} <= spellings("nl\nx")


@pytest.mark.parametrize("around", ["{}", "'{}", '"{}', "'\"{}"])
@settings(deadline=None)
@given(secret=st.text(st.characters(codec="utf-8"), min_size=3, max_size=40))
def test_a_secret_inside_of_a_python_text_is_found(around: str, secret: str) -> None:
    whole = repr(around.format(secret))
    assert any(word in whole for word in spellings(secret))


def test_no_secret_is_refused_for_its_letters() -> None:
    assert "abc\udc80\ud800" in spellings("abc\udc80\ud800")


def test_the_letters_that_a_path_of_the_world_does_not_show() -> None:
    assert "sk a1 b2" in spellings("sk\x01a1\x02b2")
    assert "   " not in spellings("\x01\x02\x03")


BODY = (
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",
    "VJTUt9Us8cKjMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuK+==",
)


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\\n", "\n    "])
def test_each_line_of_a_private_key_is_found_alone(line_break: str) -> None:
    """A tool server that prints its key: its log, of which reports keep the end, is redacted line by line."""
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    redactor = Redactor([line_break.join((begin, *BODY, end))])
    said = [redactor.text(line) for line in (*BODY, f"bad key {BODY[1]}.", quote(BODY[1]), end, "of no key")]
    assert said == [MARK, MARK, f"bad key {MARK}.", MARK, end, "of no key"]


def test_words_and_short_lines_of_a_secret_are_not_searched_alone() -> None:
    assert Redactor(["first line\nsecond line"]).text("second line") == "second line"
