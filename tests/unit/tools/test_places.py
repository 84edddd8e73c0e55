"""Where a tool server is by its settings, and what its state file says of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import ToolState
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.tools import places
from harness.tools.exchange import ConnectionEvents
from harness.tools.places import ServerPlace, connector, kept_state, log_of
from harness.tools.statefile import ListedTool
from tests.unit.tools.scripted_server import HTTP, STDIO, Shop

pytestmark = pytest.mark.fake_clock

EVENTS = ConnectionEvents(lambda _: None, lambda: None)


def place(**table: Any) -> ServerPlace:
    settings = ToolServerSettings.model_validate({"command": ["{python}", "-m", "mail"], **table})
    return ServerPlace("mail", settings, Path("/project"), {}, SystemClock())


def test_the_command_is_that_of_the_settings_with_the_interpreter_of_the_run() -> None:
    assert place().argv() == (sys.executable, "-m", "mail")
    assert place().folder == Path("/project")
    assert place(cwd="servers").folder == Path("/project/servers")
    assert log_of(Path("/project"), "mail") == Path("/project/.harness/logs/tool-mail.log")


def test_references_to_variables_are_filled_in() -> None:
    assert place(environment={"A": "x${env:B}-${env:C}"}).environment({"B": "1", "C": "2"}) == {"A": "x1-2"}
    at = ServerPlace(
        "mail",
        ToolServerSettings(url="http://a.test/mcp", headers={"Authorization": "Bearer ${env:TOKEN}"}),
        Path(),
        {},
        SystemClock(),
    )
    assert at.headers({"TOKEN": "t"}) == {"Authorization": "Bearer t"}


def test_a_variable_that_is_not_set_is_named_with_its_place() -> None:
    with pytest.raises(Failed, match=r"the variable TOKEN is not set, which `environment\.KEY` of") as caught:
        asyncio.run(connector(place(environment={"KEY": "${env:TOKEN}"}), {})(EVENTS))
    assert caught.value.failure.code == "TOOL_AUTH"
    assert "export TOKEN=" in caught.value.failure.hint


@pytest.mark.parametrize(
    ("value", "why"),
    [("", "the variable TOKEN is empty"), ("pass-42\n", "has a line break"), ("p\u00e4ss-42", "has characters that")],
)
def test_a_header_that_cannot_be_sent_is_told_without_its_value(value: str, why: str) -> None:
    settings = ToolServerSettings(url="http://a.test/mcp", headers={"Authorization": "Bearer ${env:TOKEN}"})
    at = ServerPlace("shop", settings, Path(), {}, SystemClock())
    with pytest.raises(Failed, match=why) as caught:
        at.headers({"TOKEN": value})
    assert (caught.value.failure.code, "TOKEN" in caught.value.failure.hint) == ("TOOL_AUTH", True)
    assert "ss-42" not in f"{caught.value.failure.message}{caught.value.failure.hint}"


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "find_spec", lambda _: None)
    with pytest.raises(Failed, match=r"`mail` cannot be used, since the package `mcp` is not installed$") as caught:
        asyncio.run(connector(place(), {})(EVENTS))
    assert caught.value.failure.hint == "Install it: pip install 'pytest-taskspec[mcp]'."


async def test_people_are_told_what_a_server_is_and_has() -> None:
    shop = Shop(STDIO.model_copy(update={"allow": ("get_*",), "effects": {"set_*": "write"}}))
    assert kept_state(shop.server, "r1").tools == ()
    await shop.call()
    told = kept_state(shop.server, "r1")
    assert (told.server, told.place, told.stdio, told.state) == ("shop", "shop", True, ToolState.ONLINE)
    assert (told.pid, told.introduced, told.protocol, told.run) == (100, "shop 1.0", "2026-07-28", "r1")
    assert told.tools == (
        ListedTool("get_order", "read"),
        ListedTool("set_order", "write", allowed=False),
        ListedTool("place_order", "write", allowed=False),
    )
    assert told.alive
    clean = kept_state(shop.server, "r1", lambda text: text.replace("shop", "[redacted]").replace("order", "_"))
    assert (clean.introduced, clean.tools[0].name) == ("[redacted] 1.0", "get__")
    shop.world.connections[-1].die()
    shop.world.opens = [100]
    await asyncio.sleep(1)
    told = kept_state(shop.server, "r1")
    assert (told.state, told.reason, told.crashes, told.pid) == (ToolState.RESTARTING, "crash_1", 1, None)
    await shop.server.close()
    told = kept_state(shop.server, "r1")
    assert (told.state, told.reason) == (ToolState.STOPPED, "closed while restarting: crash_1")


async def test_an_address_is_told_without_what_may_be_a_secret() -> None:
    shop = Shop(HTTP.model_copy(update={"url": "http://ann:pass@shop.local:80/mcp?key=k1"}))
    assert kept_state(shop.server, "r1").place == "http://shop.local:80/mcp"
