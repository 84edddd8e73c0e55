"""What is a URL of a browser endpoint, and where they may be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.endpoint_urls import VARIABLE, of_environment, split
from harness.settings import SettingsError, load_settings

ONE, TWO = "ws://127.0.0.1:3000/x", "wss://browsers.example/path?token=1"


def test_several_are_written_with_commas() -> None:
    assert split(f"{ONE}, {TWO},") == (ONE, TWO)


@pytest.mark.parametrize(
    "text",
    ["http://a:1/", "ws://", "ws:///x", "ws://a:notaport/", "ws://a:70000/", "127.0.0.1:3000", "ws://a:0/", "ws://["],
)
def test_what_is_no_endpoint_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no browser endpoint: expected ws://HOST:PORT/PATH"):
        split(f"{ONE},{text}")


@pytest.mark.parametrize("text", ["", " , "])
def test_none_at_all(text: str) -> None:
    with pytest.raises(ValueError, match="found none"):
        split(text)


def test_the_same_twice() -> None:
    with pytest.raises(ValueError, match="is there twice"):
        split(f"{ONE},{ONE}")


def test_the_variable() -> None:
    assert of_environment({}) == of_environment({VARIABLE: ""}) == ()
    assert of_environment({VARIABLE: ONE}) == (ONE,)
    with pytest.raises(ValueError, match=f"{VARIABLE}: 'x' is no browser endpoint"):
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
    with pytest.raises(SettingsError, match=r"pyproject.toml: tool.harness.browser_endpoint: .*'http://file:1/' is no"):
        load_settings(tmp_path)
    monkeypatch.setenv(VARIABLE, "nothing")
    with pytest.raises(SettingsError, match=VARIABLE):
        load_settings(tmp_path)
