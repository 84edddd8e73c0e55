"""Secrets are hidden in every spelling."""

from __future__ import annotations

import json

import pytest

from harness.spec.references import hiding


@pytest.mark.parametrize("secret", ["pass word", 'it\'s \\ "it"', "a\nb\t", "caf\xe9 $x", "a${b}c"])
def test_spellings(secret: str) -> None:
    hide = hiding([secret])
    for text in (secret, repr(secret), json.dumps(secret), secret.replace("${", "$${")):
        assert hide(f"a {text} b").replace("'", "").replace('"', "") == "a [redacted] b"


def test_longer_secrets_first_and_the_mark_is_left_alone() -> None:
    hide = hiding(["red", "redder"])
    assert hide("redder [redacted] red") == "[redacted] [redacted] [redacted]"


def test_very_short_values_are_left() -> None:
    assert hiding(["a", ""])("a cat") == "a cat"
