"""A secret is found in every spelling; nothing else is masked; what a cut has left of it goes, too."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.masking import MARK, Secrets
from tests.unit.spelling import SECRETS, spelt

AROUND = ("{}", "<p>{}</p>", "it is {}, he said", '{{"a": "{}"}}', "x{}x", "C:\\dir\\{}\\n", "100% {}&amp;")
ONLY_ENDS = 8
"""Letters that may be left of a spelling: in base64 the last ones depend on what follows, a shell quotes a word."""


@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_is_found_in_each_spelling(kind: str) -> None:
    secret = SECRETS[kind]
    secrets = Secrets([secret])
    for way, text in spelt(secret).items():
        for around in AROUND:
            masked = secrets.mask(around.format(text))
            left = "".join(masked.replace(MARK, "").split())
            assert MARK in masked, (way, around)
            assert len(left) <= len("".join(around.format("").split())) + ONLY_ENDS, (way, around, masked)


TEXTS = st.text(st.characters(codec="utf-8"), min_size=4, max_size=40).filter(
    lambda text: text.strip() and text != MARK
)


@settings(deadline=None)
@given(TEXTS, st.text(max_size=30), st.text(max_size=30))
def test_no_spelling_of_any_secret_is_left(secret: str, before: str, after: str) -> None:
    assume(MARK not in secret and secret.lower() not in ("true", "null", "false", "none", "yes", "off"))
    secrets = Secrets([secret])
    for text in (secret, secret.lower(), json.dumps(secret)[1:-1], quote(secret), quote(quote(secret))):
        assert text not in secrets.mask(f"{before}{text}{after}").replace(MARK, "") or text in f"{before}{after}"


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=3), st.text(max_size=200))
def test_what_is_masked_stays_as_it_is(secrets: list[str], text: str) -> None:
    found = Secrets(secrets)
    once = found.mask(text + "".join(f"{each}{text[:5]}{json.dumps(each)}" for each in secrets))
    assert found.mask(once) == once


@settings(deadline=None)
@given(TEXTS, st.text("ab &%\\n=;x4", max_size=100))
def test_a_text_without_secrets_stays_as_it_is(secret: str, text: str) -> None:
    assume(len(secret) > 5 and not set(secret.lower()) <= set("ab &%\\n=;x4amplt"))
    assert Secrets([secret]).mask(text) == text


@pytest.mark.parametrize("value", ["", "ab", "true", "NULL", " yes "])
def test_what_stands_everywhere_is_no_secret(value: str) -> None:
    text = "tables are true, null or yes"
    assert Secrets([value]).mask(text) == text


def test_a_secret_within_another_and_one_that_the_mark_contains() -> None:
    secrets = Secrets(["kx7-long-zq", "long", "redacted"])
    assert secrets.mask("a kx7-long-zq, long b") == f"a {MARK}, {MARK} b"
    assert secrets.mask(f"{MARK} redacted") == f"{MARK} {MARK}"


@pytest.mark.parametrize(
    ("secret", "part"),
    [
        ("postgres://ann:Pw-4711x@db/app", "Pw-4711x"),
        ("Bearer abc.def-0815", "abc.def-0815"),
        ('{"id": 1, "key": "Vv93-json-key"}', "Vv93-json-key"),
        ("one-1\r\ntwo-22\r\nthree", "two-22"),
        ("first-of-long-lines\\nsecond-of-long-lines", "second-of-long-lines"),
    ],
)
def test_parts_that_are_secrets_alone(secret: str, part: str) -> None:
    assert Secrets([secret]).mask(f"it was {part}.") == f"it was {MARK}."


def test_words_of_a_secret_are_no_secrets() -> None:
    assert Secrets(["first line\nsecond line"]).mask("second line") == "second line"


@pytest.mark.parametrize(
    "seen",
    [
        "A!%22$%&'()*+,-./:;%3C=%3E@[/]%5E_%60%7B%7C%7D~%20%C3%A9%C2%A0Z",
        "A!%22$%&%27()*+,-./:;%3C=%3E@[\\]^_`{|}~%20%C3%A9%C2%A0Z",
        "A%21%22%24%25%26%27%28%29*%2B%2C-.%2F%3A%3B%3C%3D%3E%40%5B%5C%5D%5E_%60%7B%7C%7D%7E+%C3%A9%C2%A0Z",
        "A%21%22%24%25%26%27%28%29*%2B%2C-.%2F%3A%3B%3C%3D%3E%40%5B%5C%5D%5E_%60%7B%7C%7D%7E+%E9%A0Z",
        "A!\"$%&amp;'()*+,-./:;&lt;=&gt;@[\\]^_`{|}~ é&nbsp;Z",
        "A!&quot;$%&amp;'()*+,-./:;<=>@[\\]^_`{|}~ é&nbsp;Z",
    ],
    ids=["path", "query", "form", "western form", "text", "attribute"],
)
def test_chromium_writes_it_so(seen: str) -> None:
    """Seen in `location.href`, in its HAR and in `outerHTML` of Chromium."""
    marks = "A!\"$%&'()*+,-./:;<=>@[\\]^_`{|}~ é\xa0Z"
    assert Secrets([marks]).mask(f"<{seen}>").strip("<>") == MARK


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("a" * 200_000, "a" * 10_000),
        ("\\" * 200_000, "\\\\x"),
        ("%25" * 70_000 + "&amp;" * 40_000, "p&%25q"),
        ("https://x.example/..." * 10_000, "https://ann:pass-77@x.example/"),
        ("=\n" * 100_000 + "…" * 50_000, "abcdef-ghijkl"),
    ],
    ids=["one letter", "backslashes", "escapes", "beginnings", "line ends and cuts"],
)
def test_no_text_takes_long(text: str, secret: str) -> None:
    began = time.process_time()
    Secrets([secret]).mask(text)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Price: 91234, 12345, 0.1234 and 1234.50", "Price: 91234, 12345, 0.1234 and 1234.50"),
        ("pin=1234, PIN1234 and %31234", f"pin={MARK}, PIN{MARK} and {MARK}"),
        ("pytest says: the latest tests", "pytest says: the latest tests"),
        ("a Test, test_1 and %74est", f"a {MARK}, {MARK}_1 and {MARK}"),
    ],
)
def test_a_secret_that_is_a_word_or_a_short_number_is_not_masked_within_others(text: str, masked: str) -> None:
    """Reports in which `pytest` and prices are masked hide the cause of a failure."""
    assert Secrets(["1234", "test"]).mask(text) == masked


def test_a_letter_with_a_longer_lower_case_costs_no_more_than_another() -> None:
    """Scripts of 3 MB name that letter once, and are searched again after each round of escapes."""

    def seconds(letter: str) -> float:
        began = time.process_time()
        Secrets(["pass-77-word"]).mask(letter + "x = y + z; " * 100_000)
        return time.process_time() - began

    seconds("é")
    assert min(seconds("İ") for _ in range(3)) < 3 * min(seconds("é") for _ in range(3))
