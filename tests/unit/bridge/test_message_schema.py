"""schemas/bridge.schema.json says the same as the bridge itself."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import jsonschema
import pytest

from harness.bridge.messages import CLIENT_MESSAGES, ClientMessage, message_schema, read_message
from tests.unit.bridge.small_server import Network, SmallServer
from tests.unit.bridge.test_client import bridge, purchase

pytestmark = pytest.mark.fake_clock

SCHEMA = jsonschema.Draft202012Validator(message_schema())


def message(kind: str, **payload: Any) -> dict[str, Any]:
    moment = "2026-03-20T14:32:00.000+00:00"
    return {"type": kind, "id": str(uuid4()), "timestamp": moment, "payload": payload}


@pytest.mark.parametrize(
    ("document", "right"),
    [
        (message("auth", token="t"), True),
        (message("act", turn=1, step={"act": "click", "selector": "#buy"}), True),
        (message("act", step={}), False),
        (message("observe", turn=-1), False),
        (message("observe", turn=1, screen=True), False),
        (message("buy"), False),
        (message("synchronize") | {"payload": []}, False),
        (message("synchronize") | {"more": 1}, False),
        (message("hook_event", event="Stop", timestamp="2026-01-01T00:00:00Z", session_id="s", payload={}), True),
        (message("hook_event", event="Halt", timestamp="2026-01-01T00:00:00Z", session_id="s", payload={}), False),
    ],
)
def test_the_schema_accepts_what_the_bridge_accepts(document: dict[str, Any], right: bool) -> None:
    assert SCHEMA.is_valid(document) == right
    assert isinstance(read_message(document), ClientMessage) == right


async def test_all_types_are_in_it_and_what_the_client_sends_is_right() -> None:
    assert set(CLIENT_MESSAGES) <= set(message_schema()["$defs"])
    network, sent = Network(SmallServer()), list[str]()
    handle = network.server.handle
    network.server.handle = lambda text: (sent.append(text), handle(text))[1]  # type: ignore[method-assign, func-returns-value]
    async with bridge(network) as client:
        await purchase(client)
    assert len(sent) == 9
    for text in sent:
        SCHEMA.validate(json.loads(text))
