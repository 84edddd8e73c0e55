"""What messages name exists: every code that a part raises is explained, every option is one of the named program."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from harness.bridge.refusals import WIRE_CODES
from harness.cli.main import app
from harness.recovery.catalog import CATALOG

PACKAGE = Path(__file__).parents[3] / "harness"
CLIENT = PACKAGE.parent / "clients" / "js" / "bridge.mjs"
CODE = re.compile(r"(?<![A-Z_])(?:CONN|SESS|AUTH|PROTO|HOOK|SYS)_[A-Z_]*[A-Z]")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
COMMAND = re.compile(r"harness ([a-z]+)(?: ([a-z]+))?([^`\n]*)")
NO_CODES = {"AUTH_WITHIN", "CONN_SLOW", "CONN_LISTEN"}
"""A constant of the protocol, the beginning of a code, a state of a socket."""
OTHERS: Mapping[str, frozenset[str]] = {
    "a newer pytest-playwright than the lowest": frozenset({"--playwright-debug"}),
    "Chromium": frozenset(
        {
            "--disable-auto-reload", "--disable-background-networking", "--disable-component-update", "--disable-gpu",
            "--disable-quic", "--disable-sync", "--enable-features", "--force-webrtc-ip-handling-policy", "--headless",
            "--host-resolver-rules", "--ignore-certificate-errors-spki-list", "--no-first-run", "--no-sandbox",
            "--log-net-log", "--proxy-server", "--remote-debugging-port", "--user-data-dir", "--harness-run",
        }
    ),
    "node": frozenset({"--experimental-websocket"}),
    "playwright codegen": frozenset({"--target"}),
    "npm": frozenset({"--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "--single-file"}),
    "pip and uv": frozenset({"--no-deps"}),
    "playwright run-server": frozenset({"--unsafe"}),
    "pytest-cov": frozenset({"--cov"}),
    "pytest-repeat": frozenset({"--count", "--repeat-scope"}),
    "git": frozenset(
        {
            "--exclude-standard", "--name-only", "--no-renames", "--others", "--quiet", "--show-toplevel", "--verify",
        }
    ),
    "pytest's own spelling": frozenset({"--junitxml"}),
    "python -m harness.demo, our drivers": frozenset(
        {"--cdp", "--model", "--task", "--steps", "--vision", "--ports", "--state"}
    ),
    "python -m http.server": frozenset({"--bind", "--directory"}),
    "ray": frozenset({"--head", "--working-dir"}),
    "beginnings and made-up names": frozenset({"--task-x", "--first-page", "--nothing", "--after", "--again"}),
}  # fmt: skip
"""Program -> its options that our messages or command lines name."""


@cache
def strings() -> tuple[tuple[str, str], ...]:
    """Place and text of the strings of the package, with the client in JavaScript line by line.

    Modules that name no code and no option are not parsed: that takes seconds.
    """
    return tuple(_strings())


def _strings() -> Iterator[tuple[str, str]]:
    texts = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    for path, text in texts.items():
        if "--" not in text and not CODE.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value
    for number, line in enumerate(CLIENT.read_text("utf-8").splitlines(), 1):
        yield f"{CLIENT.name}:{number}", line


def test_every_code_of_the_bridge_is_explained() -> None:
    named = {code: place for place, text in strings() for code in CODE.findall(text)}
    unknown = {code: place for code, place in named.items() if code not in {*WIRE_CODES, *CATALOG} | NO_CODES}
    assert unknown == {}, "harness/bridge/refusals.py lists the codes"


@cache
def options_of_pytest() -> frozenset[str]:
    wide = {**os.environ, "COLUMNS": "500"}  # else an option may be broken at a hyphen
    line = [sys.executable, "-m", "pytest", "--help"]
    shown = subprocess.run(line, capture_output=True, text=True, check=True, env=wide)
    return frozenset(OPTION.findall(shown.stdout))


def commands() -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Each command with its options, subcommands too."""

    def walk(command: Any, name: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
        own = {each for parameter in command.params for each in (*parameter.opts, *parameter.secondary_opts)}
        yield name, frozenset(own) | {"--help"}
        if hasattr(command, "list_commands"):
            context = command.make_context("harness", [], resilient_parsing=True)
            for sub in command.list_commands(context):
                yield from walk(command.get_command(context, sub), (*name, sub))

    return walk(get_command(app), ())


def test_every_option_that_a_text_names_exists() -> None:
    ours = dict(commands())
    known = frozenset[str]().union(options_of_pytest(), *ours.values(), *OTHERS.values())
    named = {option: place for place, text in strings() for option in OPTION.findall(text)}
    assert {option: place for option, place in named.items() if option not in known} == {}
    wrong = [
        (place, found[0])
        for place, text in strings()
        for found in COMMAND.finditer(text)
        for option in OPTION.findall(found[3])
        if (found[1],) in ours and option not in _taken(ours, found[1], found[2]) | options_of_pytest()
    ]
    assert wrong == [], "the command that the text names has no such option"


def _taken(ours: Mapping[tuple[str, ...], frozenset[str]], command: str, sub: str | None) -> frozenset[str]:
    return ours.get((command, sub or ""), ours[command,]) | ours[command,]
