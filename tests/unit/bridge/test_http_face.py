"""The HTTP face under a clock that jumps."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from starlette.applications import Starlette

from harness.bridge.http_face import ANSWERED_WITHIN, http_routes
from harness.cli.mcp_relay import ANSWERED_WITHIN as RELAYED_WITHIN
from tests.unit.bridge.stage import make_hub, message, taken
from tests.unit.resilience.virtual import play


def test_a_request_has_more_time_than_the_longest_work_is_waited_for() -> None:
    assert ANSWERED_WITHIN == 35 < RELAYED_WITHIN

    async def main() -> None:
        hub = make_hub()
        client, run, playing, session = await taken(hub, takes=60)
        client.drop()
        transport = httpx2.ASGITransport(app=Starlette(routes=http_routes(hub, lambda _: True)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as http:
            place, act = f"/sessions/{session}/messages", message("act", turn=1, step={"act": "click"})
            began = hub.clock.now()
            late = (await http.post(place, json=act)).json()
            assert (late["type"], late["payload"]["status"]) == ("pending", "timeout")
            assert hub.clock.now() - began == pytest.approx(30, abs=0.1)
            await asyncio.sleep(31)
            asked = message("command_result", correlation_id=late["payload"]["correlation_id"])
            assert (await http.post(place, json=asked)).json()["type"] == "outcome"
            assert len(run.done) == 1
            await http.post(place, json=message("finish", turn=2))
        await playing

    play(main())
