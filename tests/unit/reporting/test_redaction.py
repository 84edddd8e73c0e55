"""Secrets leave texts and documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reporting.redaction import MARK, Redactor, masked_step

LETTERS = st.text(st.characters(codec="utf-8", exclude_characters="[]redact"), min_size=4, max_size=20)


def test_by_value_in_every_spelling() -> None:
    redactor = Redactor(["p@ss w&rd"])
    assert (
        redactor.text("x=p%40ss%20w%26rd y=p%40ss+w%26rd z=p@ss w&amp;rd p@ss w&rd")
        == f"x={MARK} y={MARK} z={MARK} {MARK}"
    )


def test_patterns() -> None:
    assert Redactor(patterns=[r"\d{4}-\d{4}"]).json({"card": "no 1234-5678", "n": [1]}) == {
        "card": f"no {MARK}", "n": [1],
    }  # fmt: skip


def test_a_pattern_that_matches_nothing_changes_nothing() -> None:
    assert Redactor(patterns=["x*"]).text("abc") == "abc"


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(ValueError, match="redact"):
        Redactor(patterns=["("])


def test_a_number_that_is_too_short_for_a_secret_stays() -> None:
    assert Redactor(["1", "23"]).json({"step_index": 1, "seconds": 23}) == {"step_index": 1, "seconds": 23}


def test_numbers_that_are_a_secret_go_too() -> None:
    assert Redactor(["7777"]).json({"pin": 7777, "other": 17777, "ok": True}) == {
        "pin": MARK, "other": 17777, "ok": True,
    }  # fmt: skip


def test_strings_leaves_the_format_alone() -> None:
    redactor = Redactor(["name"])
    assert redactor.strings({"name": "my name", "size": 3}) == {"name": f"my {MARK}", "size": 3}


def test_plus_keeps_the_first_ones() -> None:
    both = Redactor(["first-secret"], ["abc"]).plus(["second-secret"])
    assert both.text("first-secret second-secret abc") == f"{MARK} {MARK} {MARK}"


def test_bytes_that_are_no_text() -> None:
    assert Redactor(["hunter2"]).data(b"\xff\xfe hunter2 \x00") == b"\xff\xfe " + MARK.encode() + b" \x00"


def test_what_is_no_json_becomes_text() -> None:
    assert Redactor().json({"x": float("nan"), "s": {1}}) == {"x": "nan", "s": [1]}


def test_typed_passwords_are_masked() -> None:
    step = {"act": "type", "selector": "#password", "value": "hunter2"}
    assert masked_step(step)["value"] == MARK
    assert masked_step({**step, "selector": "#q"})["value"] == "hunter2"


DOCUMENTS = st.recursive(LETTERS, lambda inner: st.lists(inner) | st.dictionaries(LETTERS, inner))


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from _texts(value)
    elif isinstance(document, list):
        for item in document:
            yield from _texts(item)
    else:
        yield str(document)


SECRETS = LETTERS.map(lambda text: f"{text}#7")
"""No plain word and no number: those are masked only where they stand alone."""


@given(st.lists(SECRETS, min_size=1, max_size=3), DOCUMENTS)
def test_no_secret_survives(secrets: list[str], document: object) -> None:
    carried = [document, *(f"x{secret}y" for secret in secrets), dict.fromkeys(secrets, "-")]
    texts = list(_texts(Redactor(secrets).json(carried)))
    assert not [secret for secret in secrets for text in texts if secret in text]


def test_a_number_of_any_length_stays_a_number() -> None:
    assert Redactor().json({"n": 10**400}) == {"n": 10**400}
