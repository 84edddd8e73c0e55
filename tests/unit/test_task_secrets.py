"""Which values a task learns as secrets, and that texts are cut without them."""

from __future__ import annotations

import base64

import pytest

from harness.criteria import difference
from harness.criteria.texts import in_sentence
from harness.masking import MARK, Secrets
from harness.task_secrets import (
    LearnedSecrets,
    hidden,
    is_secret_name,
    is_session_value,
    learn,
    learn_named,
    masking,
    secrets_of_header,
)


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


def test_what_is_learned_of_a_document() -> None:
    learned = LearnedSecrets()
    learned.learn_named(
        {
            "user": "ann-4711",
            "password": "hunter-22",
            "accounts": [{"api_key": "kx-99", "pin": 2468}, {"passphrase": "correct horse battery"}],
            "token": True, "secret": "", "otp": 123, "client_secret": "true", "access_token": "expired",
            "token_type": "bearer", "total_tokens": 15234, "password_policy": "long-and-odd-1",
            "new_password": "must have eight letters", "old_password": MARK,
        }
    )  # fmt: skip
    assert learned.values == {"hunter-22", "kx-99", "2468", "correct horse battery"}


def test_what_a_header_gives_away() -> None:
    pair = base64.b64encode(b"ann:pw-4711").decode()
    assert list(secrets_of_header("Authorization", f"Basic {pair}")) == [pair, "ann:pw-4711", "pw-4711"]
    assert list(secrets_of_header("authorization", "Bearer kx-99")) == ["kx-99"]
    assert list(secrets_of_header("Accept", "kx-99")) == []


@pytest.mark.parametrize(
    ("value", "so"), [("s3ss10n-id", True), ("dark-mode", False), ("20261128", False), ("a1", False)]
)
def test_which_cookies_are_sessions(value: str, so: bool) -> None:
    assert is_session_value(value) is so


def test_a_task_learns_only_for_itself_and_for_those_around_it() -> None:
    outer, inner = LearnedSecrets(), LearnedSecrets()
    learn("nobody-1")
    with masking(Secrets(["outer-11"]).mask, outer):
        learn("outer-11")
        with masking(Secrets(["inner-22"]).mask, inner):
            learn_named({"password": "inner-22"})
            assert hidden("outer-11 inner-22") == f"{MARK} {MARK}"
        assert hidden("outer-11 inner-22") == f"{MARK} inner-22"
    assert (outer.values, inner.values) == ({"outer-11"}, {"inner-22"})
    assert hidden("outer-11") == "outer-11"


SEVERAL = "alpha 11\nbravo\ncharlie 33 and more of it"


def test_a_difference_is_made_of_texts_without_secrets() -> None:
    """In the difference itself, each line of the secret would stand alone."""
    with masking(Secrets([SEVERAL]).mask):
        for actual in (f"before\n{SEVERAL}\nafter", {"key": SEVERAL}, [SEVERAL]):
            told = difference("nothing\nat all", actual)
            assert MARK in told
            assert not any(line in told for line in SEVERAL.split("\n"))


def test_a_cut_leaves_nothing_of_a_secret() -> None:
    secret = "kx" * 300
    with masking(Secrets([secret]).mask):
        assert in_sentence(f"it is {secret}") == f"'it is {MARK}'"
        assert in_sentence({"key": secret}) == f'{{"key": "{MARK}"}}'
