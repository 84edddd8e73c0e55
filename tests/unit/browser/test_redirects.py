"""What an `api` step sends after a redirect."""

from __future__ import annotations

import pytest

from harness.browser.acts.api import Ask
from harness.spec.steps import Api

HEADERS = {"Authorization": "Bearer x", "X-Who": "me"}


@pytest.mark.parametrize(
    ("method", "status", "after"),
    [
        ("GET", 302, "GET"),
        ("HEAD", 303, "HEAD"),
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("DELETE", 301, "DELETE"),
    ],
)
def test_the_method_after_a_redirect(method: str, status: int, after: str) -> None:
    step = Api.model_validate({"url": "/", "method": method, "value": {"a": 1}, "headers": HEADERS})
    ask = Ask.of(step).after(status, same_origin=True)
    assert ask.method == after
    assert (ask.body, "content-type" in ask.headers) == (('{"a": 1}', True) if method == after else (None, False))
    assert ask.headers["authorization"] == "Bearer x"


def test_secrets_stay_with_their_origin() -> None:
    step = Api.model_validate({"url": "/", "headers": {**HEADERS, "Cookie": "a=b"}})
    assert Ask.of(step).after(302, same_origin=False).headers == {"x-who": "me"}
    assert Ask.of(step).headers["cookie"] == "a=b"


def test_a_content_type_of_the_step_wins() -> None:
    step = Api.model_validate({"url": "/", "method": "POST", "value": [1], "headers": {"Content-Type": "text/x"}})
    assert Ask.of(step) == Ask("POST", {"content-type": "text/x"}, "[1]")
