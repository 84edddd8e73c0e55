"""What the page's answer means, and what is put into a script."""

from __future__ import annotations

import json

from harness.browser.checkpoint import FormField, PageState, state_of_answer
from harness.browser.storage import session_script, without_databases


def test_an_answer_is_a_page() -> None:
    state = state_of_answer(
        {
            "url": "http://a.test/x",
            "origin": "http://a.test",
            "status": None,
            "scroll": [0, 12.5],
            "session": {"k": "v"},
            "fields": [["#pw", "text", True, "hunter2"]],
            "room": 5,
        }
    )
    expected = PageState("http://a.test/x", "http://a.test", None, (0, 12.5), {"k": "v"}, (_password(),))
    assert state == expected
    assert "hunter2" not in repr(state)
    assert "'v'" not in repr(state)


def _password() -> FormField:
    return FormField("#pw", "text", True, "hunter2")


def test_the_session_script_carries_the_entries_as_data() -> None:
    entries = {"k": "'\"</script>\u2028"}
    script = session_script("http://a.test", entries)
    assert script is not None
    assert json.loads(script[script.index('(["http') + 1 : -1]) == ["http://a.test", entries]
    assert session_script("null", {}) is None


def test_without_databases_keeps_the_rest() -> None:
    origin = {"origin": "http://a.test", "localStorage": [{"name": "k", "value": "v"}]}
    state = {"cookies": [], "origins": [{**origin, "indexedDB": [{"name": "d"}]}]}
    assert without_databases(state) == {"cookies": [], "origins": [origin]}  # type: ignore[arg-type]
