"""What is a login page, and when the task asked for it itself."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.browser.exchanges import RequestRecord
from harness.browser.failures.login import Form, form_of, is_login, is_unsent, page_of, was_requested
from harness.values import replace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BARE = Form(1, False, "", False, ("user", "secret"), "", "", "Go on", "Welcome")
LOGIN = "http://shop.local/login"


def asked(url: str, method: str = "GET", status: int = 200, to: str = "", kind: str = "text/html") -> RequestRecord:
    return RequestRecord(url, method, NOW, status=status, headers={"content-type": kind, "location": to})


REFUSAL = asked("http://shop.local/api", status=401, kind="application/json")


@pytest.mark.parametrize(
    "form",
    [
        replace(BARE, action="/session"),
        replace(BARE, action="https://id.local/auth?next=/account/change"),
        replace(BARE, button="Sign in"),
        replace(BARE, button="Anmelden"),
        replace(BARE, name="login-form"),
        replace(BARE, title="Log on"),
        replace(BARE, purpose="current-password", user_name=True),
    ],
)
def test_logins(form: Form) -> None:
    assert is_login(form, "http://shop.local/start", ())


@pytest.mark.parametrize(
    "form",
    [
        BARE,
        replace(BARE, purpose="current-password"),
        replace(BARE, action="/login", passwords=2),
        replace(BARE, action="/login", purpose="new-password"),
        replace(BARE, action="/login", purpose="one-time-code"),
        replace(BARE, title="Log in", button="Sign up"),
        replace(BARE, title="Log in", action="/register"),
        replace(BARE, title="Authors"),
        replace(BARE, purpose="current-password", user_name=True, action="/email/change"),
    ],
)
def test_other_forms(form: Form) -> None:
    assert not is_login(form, "http://shop.local/start", ("shop.local",))


def test_the_page_where_the_password_was_typed_is_the_login() -> None:
    url = "http://Shop.local/tervetuloa?x=1"
    assert page_of(url) == "shop.local/tervetuloa"
    assert is_login(BARE, url, {page_of(url)})


def test_form_of() -> None:
    answer = {
        "passwords": 1, "filled": True, "purpose": "", "user_name": False, "fields": ["a"],
        "action": "", "name": "", "button": "", "title": "",
    }  # fmt: skip
    form = form_of(answer)
    assert form is not None
    assert form.fields == ("a",)
    assert form_of(None) is None


@pytest.mark.parametrize(
    ("exchanges", "again", "wanted"),
    [
        ([asked(LOGIN)], False, True),
        ([asked("http://shop.local/cart", status=302, to="/login"), asked(LOGIN)], False, False),
        ([asked("http://shop.local/logout", "POST", 303, "/login"), asked(LOGIN)], False, True),
        ([asked(LOGIN, "POST")], False, False),
        ([REFUSAL, asked(LOGIN)], False, False),
        ([asked("http://other.local/api", status=401, kind="application/json"), asked(LOGIN)], False, True),
        ([REFUSAL, asked("http://shop.local/"), asked(LOGIN)], False, True),
        ([], False, False),
    ],
)
def test_visited(exchanges: list[RequestRecord], again: bool, wanted: bool) -> None:
    assert was_requested(exchanges, LOGIN, again=again) is wanted


@pytest.mark.parametrize("again", [True, False])
def test_a_page_not_called_a_login_is_visited_where_the_task_types_again(again: bool) -> None:
    assert was_requested([asked("http://shop.local/")], "http://shop.local/", again=again) is again


def test_unsent() -> None:
    filled = replace(BARE, filled=True)
    assert is_unsent(filled, [asked(LOGIN)], LOGIN)
    assert is_unsent(filled, [asked(LOGIN), asked("http://shop.local/api/me", status=401)], LOGIN)
    assert not is_unsent(filled, [asked(LOGIN), asked("http://shop.local/api/session", "POST", 401)], LOGIN)
    assert not is_unsent(BARE, [asked(LOGIN)], LOGIN)
