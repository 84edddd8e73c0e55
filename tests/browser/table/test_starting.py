"""Failure table 2.7: browsers that do not start, and one whose proxy is not there."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browsers, SessionRequest
from harness.model.browser_settings import BrowserSettings
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.resilience import SystemClock
from tests.browser.table.case import Case, compare, judge
from tests.browser.table.fault_site import FaultSite
from tests.browser.table.table_stage import TableStage
from tests.browser.table.test_navigation import opened


@dataclass(frozen=True, slots=True)
class Start:
    """A browser of one's own, started with these settings; without steps it is its start that fails."""

    case: Case
    settings: Mapping[str, Any] = field(default_factory=dict)
    script: str | None = None
    """A program that is started instead of a browser."""
    proxied: bool = False
    """Whether it is told to use a proxy that is not there."""

    @property
    def id(self) -> str:
        return self.case.id

    @property
    def fast(self) -> bool:
        return self.case.fast


def start(name: str, message: str, script: str | None = None, *, fast: bool = False, **settings: Any) -> Start:
    """A start that fails."""
    case = Case(f"2.7-launch-{name}", (), "BROWSER_LAUNCH_FAILED", Effect.NONE, message=message, fast=fast)
    return Start(case, settings, script)


PROXY = Case(
    "2.1-proxy-refused",
    opened("/"),
    "NET_PROXY",
    Effect.NONE,
    {"net_error": "net::ERR_PROXY_CONNECTION_FAILED"},
)
CASES = (
    start("missing", "was not found: /nowhere/chrome", executable="/nowhere/chrome"),
    start("not-executable", "was not found:", executable=__file__),
    start("no-such-channel", "chrome-canary", channel="chrome-canary"),
    start("exits-at-once", "exit code 3", "exit 3", fast=True),
    start("says-why", "no room left", "echo 'no room left' >&2; exit 1"),
    start("killed-at-once", "ended by SIGKILL", "kill -9 $$"),
    start("hangs", "Timeout 1500ms exceeded", "exec sleep 60"),
    Start(PROXY, proxied=True),
)


def test_starting(
    run: Any, stage: TableStage, faults: FaultSite, tmp_path: Path, case: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def judged() -> None:
        browsers = Browsers(settings, SystemClock(), temp=tmp_path)
        try:
            await judge(TableStage(browsers, stage.site, tmp_path, faults), case.case)
        finally:
            await browsers.close()

    proxy = (f"--proxy-server=http://127.0.0.1:{faults.places['refused']}",) if case.proxied else ()
    settings = BrowserSettings(**{"args": proxy, **_program(case, tmp_path), **case.settings})
    if case.case.steps:
        run(judged())
        return
    monkeypatch.setattr("harness.browser.launch.LAUNCH_SECONDS", 1.5)
    failure = run(refusal(settings, tmp_path))
    compare(failure, case.case)
    assert "\n" not in failure.message


def _program(start: Start, folder: Path) -> dict[str, str]:
    """The settings that make the script the browser."""
    if start.script is None:
        return {}
    program = folder / "browser"
    program.write_text(f"#!/bin/sh\n{start.script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"executable": str(program)}


async def refusal(settings: BrowserSettings, temp: Path) -> Failure:
    """Why no session can be opened."""
    browsers = Browsers(settings, SystemClock(), temp=temp)
    try:
        with pytest.raises(Failed) as raised:
            await browsers.open_session(SessionRequest(world="w", folder=temp, uploads=temp))
        return raised.value.failure
    finally:
        await browsers.close()
