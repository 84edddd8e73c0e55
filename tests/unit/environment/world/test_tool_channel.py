"""A channel that is a tool: what it calls, what it reads, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.environment.channel import Refused
from harness.environment.channels import Channels
from harness.model.channel_settings import ChannelSettings
from harness.model.settings import Settings
from harness.model.tools import ToolAnswer, ToolRequest
from harness.recovery.failure import Failed, Failure

TABLE: dict[str, Any] = {
    "tool": "shop.get_state",
    "restore": "shop.set_state",
    "arguments": {"world": "{world}", "deep": [{"of": "w-{world}"}, 3]},
    "timeout": 7,
}


class Shop:
    """A server that keeps one document for each world."""

    def __init__(self, answer: ToolAnswer | Failure | None = None) -> None:
        self.requests: list[tuple[ToolRequest, float]] = []
        self.state: dict[str, Any] = {}
        self.answer = answer

    async def call(self, request: ToolRequest, within: float) -> ToolAnswer:
        self.requests.append((request, within))
        if isinstance(self.answer, Failure):
            raise Failed(self.answer)
        if self.answer is not None:
            return self.answer
        world = request.arguments["world"]
        if request.tool == "set_state":
            self.state[world] = request.arguments["document"]
        return ToolAnswer("", self.state.get(world, {}))


def run(shop: Shop, work: Callable[[Channels], Awaitable[Any]], **more: Any) -> Any:
    channels = Channels({"env": ChannelSettings(**{**TABLE, **more})}, hosts={}, root=Path(), call=shop.call)

    async def main() -> Any:
        try:
            return await work(channels)
        finally:
            await channels.close()

    return asyncio.run(main())


def test_each_world_has_its_document_and_reading_is_a_read() -> None:
    shop = Shop()

    async def work(channels: Channels) -> Any:
        await channels.write("env", "w1", "orders[0].id", "O-1")
        await channels.restore("env", "w2", {"orders": []})
        assert await channels.writable("env")
        assert (await channels.resettable(), await channels.merge("env", "w1", {"a": 1})) == ((), False)
        return await channels.read("env", "w1"), await channels.read("env", "w2")

    assert run(shop, work) == ({"orders": [{"id": "O-1"}]}, {"orders": []})
    assert [(each.server, each.tool, each.effect, within) for each, within in shop.requests[:2]] == [
        ("shop", "get_state", "read", 7),
        ("shop", "set_state", "idempotent", 7),
    ]
    assert shop.requests[0][0].arguments == {"world": "w1", "deep": [{"of": "w-w1"}, 3]}
    assert shop.requests[1][0].arguments["document"] == {"orders": [{"id": "O-1"}]}


def test_the_document_may_be_another_argument() -> None:
    shop = Shop(ToolAnswer("", {}))
    run(shop, lambda channels: channels.restore("env", "w", {"a": 1}), restore_argument="state")
    assert shop.requests[0][0].arguments["state"] == {"a": 1}


@pytest.mark.parametrize(
    ("answer", "refused", "told"),
    [
        (Failure("TOOL_UNAVAILABLE", "nobody is there"), False, "nobody is there (TOOL_UNAVAILABLE)"),
        (Failure("TOOL_UNKNOWN", "no such tool"), True, "no such tool (TOOL_UNKNOWN)"),
        (ToolAnswer("no such world", is_error=True), True, "answered that it failed: no such world"),
        (ToolAnswer("hello"), True, "did not answer with JSON: 'hello'"),
    ],
)
def test_what_is_no_document_is_told(answer: ToolAnswer | Failure, refused: bool, told: str) -> None:
    with pytest.raises(Failed) as caught:
        run(Shop(answer), lambda channels: channels.read("env", "w"))
    assert (caught.value.failure.code, isinstance(caught.value, Refused)) == ("CHANNEL_UNREADABLE", refused)
    assert told in caught.value.failure.message


def test_a_text_of_json_is_a_document_and_a_schema_holds_for_it(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"type": "object"}', "utf-8")
    schema = str(tmp_path / "s.json")
    assert run(Shop(ToolAnswer('{"a": 1}')), lambda channels: channels.read("env", "w"), schema=schema) == {"a": 1}
    with pytest.raises(Failed, match=r"does not conform to s\.json"):
        run(Shop(ToolAnswer("[1]")), lambda channels: channels.read("env", "w"), schema=schema)


def test_without_restore_it_is_only_read() -> None:
    table = {"tool": "shop.get_state", "arguments": {"world": "{world}"}}
    channels = Channels({"env": ChannelSettings(**table)}, hosts={}, root=Path(), call=Shop().call)
    assert asyncio.run(channels.writable("env")) is False
    for work in (channels.restore("env", "w", {}), channels.write("env", "w", "a", 1), channels.reset("env", "w")):
        with pytest.raises(Refused):
            asyncio.run(work)


SERVER = {"shop": {"url": "http://shop.local/mcp", "allow": ["get_*", "set_*"]}}


@pytest.mark.parametrize(
    ("channel", "told"),
    [
        ({"tool": "get_state"}, "`tool` must be written `server.tool`"),
        ({"tool": "shop.get_state", "restore": "set_state"}, "`restore` must be written `server.tool`"),
        ({"tool": "nobody.get_state"}, "channels.env.tool: there is no server `nobody`"),
        ({"tool": "page.get_state"}, "a channel cannot be a tool of the page"),
        ({"tool": "shop.drop"}, "does not name the tool `drop`"),
        ({"tool": "shop.get_state", "restore": "shop.drop"}, "channels.env.restore: `allow`"),
        ({"file": "a.json", "arguments": {"a": 1}}, "`arguments` belongs to a channel with `tool`"),
        ({"tool": "shop.get_state", "restore_argument": "x"}, "belongs to a channel with `tool` and `restore`"),
        ({"file": "a.json", "restore": "shop.set_state"}, "belongs to a channel with `python` or `tool`"),
        ({"tool": "shop.get_state", "restore": "shop.set_state", "readonly": True}, "`readonly = true` contradicts"),
    ],
)
def test_settings_that_cannot_work_are_refused(channel: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match="env") as caught:
        Settings.model_validate({"tools": SERVER, "channels": {"env": channel}})
    assert told in str(caught.value)


def test_a_channel_is_one_kind() -> None:
    with pytest.raises(ValueError, match="`file` and `tool` both say where it is"):
        ChannelSettings(file="a.json", tool="shop.get_state")


def test_what_only_a_person_can_mend_is_not_tried_again_and_says_how() -> None:
    why = Failure("INVALID_INPUT", "`mcp` is not installed", advice="Install it: pip install it.")
    with pytest.raises(Failed, match=r"is not installed \(INVALID_INPUT\)\. Install it: pip install it\.$") as caught:
        run(Shop(why), lambda channels: channels.read("env", "w1"))
    assert not caught.value.failure.retryable
    away = Failure("TOOL_UNAVAILABLE", "refused")
    with pytest.raises(Failed) as caught:
        run(Shop(away), lambda channels: channels.read("env", "w1"))
    assert caught.value.failure.retryable
