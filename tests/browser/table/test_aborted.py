"""Failure table 2.10: the words a route may end a request with, each one as the fault plans use them."""

from __future__ import annotations

from typing import Any

from harness.browser import PlaywrightSession
from harness.recovery.catalog import Effect
from tests.browser.table.case import Case, judge
from tests.browser.table.table_stage import TableStage
from tests.browser.table.test_navigation import opened

CODES = {
    "aborted": ("ERR_ABORTED", "NAVIGATION_INTERRUPTED", Effect.POSSIBLE),
    "accessdenied": ("ERR_ACCESS_DENIED", "NET_BLOCKED", Effect.NONE),
    "addressunreachable": ("ERR_ADDRESS_UNREACHABLE", "NET_UNREACHABLE", Effect.NONE),
    "blockedbyclient": ("ERR_BLOCKED_BY_CLIENT", "NET_BLOCKED", Effect.NONE),
    "blockedbyresponse": ("ERR_BLOCKED_BY_RESPONSE", "NET_BLOCKED", Effect.NONE),
    "connectionaborted": ("ERR_CONNECTION_ABORTED", "NET_CONNECTION_RESET", Effect.POSSIBLE),
    "connectionclosed": ("ERR_CONNECTION_CLOSED", "NET_CONNECTION_RESET", Effect.POSSIBLE),
    "connectionfailed": ("ERR_CONNECTION_FAILED", "NET_UNREACHABLE", Effect.NONE),
    "connectionrefused": ("ERR_CONNECTION_REFUSED", "NET_CONNECTION_REFUSED", Effect.NONE),
    "connectionreset": ("ERR_CONNECTION_RESET", "NET_CONNECTION_RESET", Effect.POSSIBLE),
    "internetdisconnected": ("ERR_INTERNET_DISCONNECTED", "NET_OFFLINE", Effect.NONE),
    "namenotresolved": ("ERR_NAME_NOT_RESOLVED", "NET_DNS", Effect.NONE),
    "timedout": ("ERR_TIMED_OUT", "NET_TIMEOUT", Effect.POSSIBLE),
    "failed": ("ERR_FAILED", "NET_FAILED", Effect.POSSIBLE),
}


def aborted(word: str) -> Case:
    error, code, effect = CODES[word]

    async def route(session: PlaywrightSession) -> None:
        await session.tab.context.route("**/*", lambda request: request.abort(word))

    details = {"net_error": f"net::{error}"}
    return Case(f"2.10-{word}", opened("/"), code, effect, details, before=route, fast=word == "addressunreachable")


CASES = tuple(aborted(word) for word in CODES)


def test_aborted(run: Any, stage: TableStage, case: Case) -> None:
    run(judge(stage, case))
