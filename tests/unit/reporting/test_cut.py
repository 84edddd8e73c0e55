"""What a cut has left of a secret goes too."""

from __future__ import annotations

import textwrap
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.criteria import difference
from harness.criteria.texts import in_sentence
from harness.reporting.redaction import MARK, Redactor
from harness.reporting.words import shortened

LONG = "sk-" + "A1b2C3d4E5" * 32
SPACED = "correct horse-battery staple of the seventh floor"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("#f = 'sk-A1b2C3…  FAILED", f"#f = '{MARK}…  FAILED"),
        ("actual: sk-A1b2C3... (325 characters)", f"actual: {MARK}... (325 characters)"),
        ("at …C3d4E5 now", f"at …{MARK} now"),
        ("said sk-A1b2C3d4\nnext", f"said {MARK}\nnext"),
        ("said sk-A1b2C3d4", f"said {MARK}"),
        ("x=sk-A1b2 sk-A1b2C3…", f"x=sk-A1b2 {MARK}…"),
    ],
)
def test_what_is_left_of_a_long_secret(text: str, left: str) -> None:
    assert Redactor([LONG]).text(text) == left


@pytest.mark.parametrize("text", ["sk-A1…", "sk-A1b2C3 is a name", "sk-A1b2\nnext", "…4E5", "task-B1b…"])
def test_a_few_letters_or_no_sign_of_a_cut_are_no_secret(text: str) -> None:
    assert Redactor([LONG]).text(text) == text


@pytest.mark.parametrize("text", ["correct  horse-battery staple…", "…of the\tseventh floor", "correct\n\nhorse-ba…"])
def test_white_space_does_not_count(text: str) -> None:
    assert Redactor([SPACED]).text(text).replace("…", "") == MARK


@settings(deadline=None)
@given(st.text("ab cdé'\"\\&%_", min_size=10, max_size=400), st.integers(20, 90))
def test_a_secret_broken_over_lines_goes_whole(secret: str, width: int) -> None:
    assume(len(set("".join(secret.split())[:10])) > 4)  # of the same few signs again and again anything is a part
    redactor = Redactor([secret])
    for lines in (textwrap.wrap(f"said {secret} twice", width), textwrap.wrap(f"said {secret}", width)):
        _gone(secret, redactor.text("\n             ".join(lines)))


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="["), min_size=10, max_size=400), st.integers(20, 90))
def test_a_secret_in_what_people_read_goes(secret: str, width: int) -> None:
    redactor = Redactor([secret])
    diff = "\n".join(
        f"    {line}" for line in difference({"a": "x", "pw": "no"}, {"a": "x", "pw": secret}).splitlines()
    )
    for text in (in_sentence(secret), in_sentence({"pw": secret}), shortened(f"#f = {secret!r}", width), diff):
        _gone(secret, redactor.text(text))


def _gone(secret: str, text: str) -> None:
    letters = "".join(secret.split())[:10]
    squeezed = "".join(text.split())
    assert len(letters) < 10 or letters not in squeezed


def test_a_large_text_takes_no_longer_than_a_few_seconds() -> None:
    text = "sk-A1b is " * 100_000 + "\n" * 100_000 + "s\n" * 100_000
    began = time.perf_counter()
    assert Redactor([LONG, SPACED]).text(text) == text
    assert time.perf_counter() - began < 20


def test_a_secret_that_looks_like_a_difference_goes_whole() -> None:
    secret = "- + - + - + - + - +"
    for lines in (textwrap.wrap(f"said {secret} twice", 20), textwrap.wrap(f"said {secret}", 20)):
        _gone(secret, Redactor([secret]).text("\n             ".join(lines)))
