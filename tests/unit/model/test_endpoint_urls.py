"""What is a URL of a browser endpoint, and where they may be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.browser_settings import VARIABLE, names, of_environment, secrets, split
from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError

ONE, TWO = "ws://127.0.0.1:3000/x", "wss://browsers.example/path?token=1"


def test_several_are_written_with_commas() -> None:
    assert split(f"{ONE}, {TWO},") == (ONE, TWO)


@pytest.mark.parametrize(
    "text",
    ["http://a:1/", "ws://", "ws:///x", "ws://a:notaport/", "ws://a:70000/", "127.0.0.1:3000", "ws://a:0/", "ws://["],
)
def test_what_is_no_endpoint_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a browser endpoint: expected ws://HOST:PORT/PATH"):
        split(f"{ONE},{text}")


def test_a_port_too_high_is_named_as_the_cause() -> None:
    with pytest.raises(ValueError, match="wss://HOST/PATH; a port is at most 65535"):
        split("ws://127.0.0.1:99999/a")


def test_what_is_not_shown_is_said_not_to_be() -> None:
    with pytest.raises(ValueError, match="what was written is not shown: it may hold a secret"):
        split("x")


@pytest.mark.parametrize("text", ["", " , "])
def test_none_at_all(text: str) -> None:
    with pytest.raises(ValueError, match="found none"):
        split(text)


def test_the_same_twice() -> None:
    with pytest.raises(ValueError, match="is given twice"):
        split(f"{ONE},{ONE}")


def test_names_hold_no_secret_and_tell_them_apart() -> None:
    urls = ["ws://user:word@a:1/secret", "ws://a:1/other?token=1", "wss://b/"]
    assert names(urls) == ("ws://a:1#1", "ws://a:1#2", "wss://b")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("wss://b/", set()),
        ("ws://c", set()),
        ("ws://me:word@a:1/hidden", {"a:1/hidden", "me:word", "word"}),
        ("ws://d/of-many-letters", {"d/of-many-letters", "of-many-letters"}),
        ("ws://ci:3000/playwright/", {"ci:3000/playwright/"}),
        ("ws://admin@ci/", set()),
        ("ws://ci?v=1", {"ci?v=1"}),
        ("ws://ci?token=short&v=1", {"ci?token=short&v=1", "token=short"}),
        (
            "wss://ci?token=0123456789abcdef",
            {"ci?token=0123456789abcdef", "token=0123456789abcdef", "0123456789abcdef"},
        ),
        ("wss://ci?0123456789ab", {"ci?0123456789ab", "0123456789ab"}),
        ("wss://ci:443/x", {"ci:443/x", "ci/x"}),
    ],
)
def test_the_secrets_of_a_url(url: str, found: set[str]) -> None:
    assert set(secrets([url])) == found


@pytest.mark.parametrize(
    "text",
    [
        "http://me:hidden@a:1/hidden",
        "hidden@a/hidden",
        "ws:///hidden",
        "ws://[/hidden",
        "ws://a:0?hidden",
        "ws://hidden:hid/den@a:3000/x",
        "ws://hidden:hid#den@a:3000/x",
        "hidden",
    ],
)
def test_a_mistyped_one_keeps_its_secret(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a browser endpoint") as raised:
        split(text)
    assert "hidden" not in str(raised.value)
    for written in (f'["{text}"]', f'"{text}"', f'["ws://a/hidden", "ws://a/hidden", "{text}"]'):
        (tmp_path / "pyproject.toml").write_text(f"[tool.harness]\nbrowser_endpoint = {written}\n")
        with pytest.raises(SettingsError) as refused:
            load_settings(tmp_path)
        assert "hidden" not in str(refused.value)
    with pytest.raises(ValueError, match="is given twice") as raised:
        split("ws://a/hidden,ws://a/hidden")
    assert "hidden" not in str(raised.value)


def test_the_variable() -> None:
    assert of_environment({}) == of_environment({VARIABLE: ""}) == ()
    assert of_environment({VARIABLE: ONE}) == (ONE,)
    with pytest.raises(ValueError, match=rf"{VARIABLE}: '\.\.\.' \(URL 1 of 1\) is not a browser endpoint"):
        of_environment({VARIABLE: "x"})


def test_the_variable_goes_over_the_file_and_an_option_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.harness]\nbrowser_endpoint = ["ws://file:1/"]\n')
    assert load_settings(tmp_path).browser_endpoint == ("ws://file:1/",)
    monkeypatch.setenv(VARIABLE, ONE)
    assert load_settings(tmp_path).browser_endpoint == (ONE,)
    assert load_settings(tmp_path, browser_endpoint=(TWO,)).browser_endpoint == (TWO,)


def test_a_bad_one_in_the_file_or_the_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.harness]\nbrowser_endpoint = ["http://file:1/"]\n')
    with pytest.raises(
        SettingsError,
        match=r"toml:2:1: tool.harness.browser_endpoint: .*'http://file:1' \(URL 1 of 1\) is no",
    ):
        load_settings(tmp_path)
    monkeypatch.setenv(VARIABLE, "nothing")
    with pytest.raises(SettingsError, match=VARIABLE):
        load_settings(tmp_path)
