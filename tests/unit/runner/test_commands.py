"""What the failure of a command says is the line that tells why, though programs write more after it."""

from __future__ import annotations

import pytest

from harness.runner.commands import telling_line

PYTHON = """opening the shop
Traceback (most recent call last):
  File "drive.py", line 11, in <module>
    page.goto("http://todo.test/")
playwright._impl._errors.Error: Page.goto: net::ERR_FAILED
Call log:
  - navigating to "http://todo.test/", waiting until "load"

"""
NODE = """file:///bridge.mjs:55
  return new Refused(code);
         ^

ConnectionRefusedForGood: AUTH_INVALID: the token is unknown
    at refusal (file:///bridge.mjs:55:10) {
  code: 'AUTH_INVALID'
}

Node.js v22.1.0
"""
CODED = "TypeError [ERR_INVALID_URL]: Invalid URL\n    at new URL (node:internal/url:797:36)\n\nNode.js v22.1.0"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (PYTHON, "playwright._impl._errors.Error: Page.goto: net::ERR_FAILED"),
        (NODE, "ConnectionRefusedForGood: AUTH_INVALID: the token is unknown"),
        (CODED, "TypeError [ERR_INVALID_URL]: Invalid URL"),
        ("Usage: agent URL\n  no address was given\n\n", "no address was given"),
        ("", ""),
    ],
)
def test_the_line_that_tells_why(output: str, told: str) -> None:
    assert telling_line(output) == told
