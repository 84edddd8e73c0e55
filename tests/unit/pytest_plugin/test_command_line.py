"""The command line of a run, without what is secret in it."""

from __future__ import annotations

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.history import without_secrets
from harness.reporting.redaction import Redactor, redactor_of


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("tasks -n 2 -k shop", "tasks -n 2 -k shop"),
        ("--api-token=abc tasks", "--api-token=[redacted] tasks"),
        ("--password abc tasks", "--password [redacted] tasks"),
        ("--password --headed tasks", "--password --headed tasks"),
        ("--base-url=https://me:word@shop.local/x", "--base-url=https://[redacted]@shop.local/x"),
        ("-k hunter2", "-k [redacted]"),
        ("--task-browser-endpoint ws://me:pw@a:1/secret,ws://b/x -k a", "--task-browser-endpoint ws://a:1,ws://b -k a"),
        ("--browser-endpoint=wss://a/secret?token=1", "--browser-endpoint=wss://a"),
    ],
)
def test_arguments(given: str, kept: str) -> None:
    assert " ".join(without_secrets(given.split(), Redactor(["hunter2"]).text)) == kept


def test_what_the_environment_and_the_settings_call_secret() -> None:
    there = {"SHOP_PASSWORD": "hunter2", "HOME": "/root", "PWD": "/work/shop", "OLDPWD": "/work", "DB_PWD": "s3cr3t"}
    redactor = redactor_of(Settings(redact=("4711-.*",)), (), there)
    told = [*without_secrets(["hunter2", "4711-x", "/root", "/work/shop/a", "s3cr3t"], redactor.text)]
    assert told == ["[redacted]", "[redacted]", "/root", "/work/shop/a", "[redacted]"]


def test_the_urls_of_browser_endpoints() -> None:
    urls = ("ws://me:pw@a:1/hidden?token=1", "ws://b/hidden-of-many")
    redactor = redactor_of(Settings(browser_endpoint=urls), (), {})
    assert [*without_secrets(["-o", "addopts=ws://a:1/hidden"], redactor.text)] == ["-o", "addopts=ws://[redacted]"]
    assert "hidden" not in redactor.text("<ws connecting> ws://me:pw@a:1/hidden?token=1 at /hidden-of-many")
    assert redactor.text("site-packages/hidden/a.py") == "site-packages/hidden/a.py", "a short path is a word"
