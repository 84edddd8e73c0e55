"""How secrets are spelt, and which names hold one."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reporting.secrets import is_secret_name, spellings


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
    if len(secret.encode()) >= 6:
        letters = base64.b64encode(before + secret.encode() + after).decode()
        assert any(word in letters for word in found)


def test_a_very_short_value_is_no_secret() -> None:
    assert spellings("ab") == set()
    assert spellings("") == set()
