"""A redirect to a site that is left alone, in a real browser: the failure says what stands behind it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.kills import Kills
from tests.ports import free_ports


async def redirecting(port: int, to: str) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", port)


@pytest.mark.thorough
def test_a_page_that_leads_on_to_a_site_that_is_left_alone(tmp_path: Path) -> None:
    alive, dead = free_ports(2)
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    kills = Kills(tmp_path)
    spec = {
        "error_recovery": {"on_network_error": "abort"},
        "steps": [{"act": "open", "url": f"http://127.0.0.1:{alive}/"}],
    }
    with closing(kills), kills.serving(redirecting(alive, f"http://127.0.0.1:{dead}/")):
        results = [kills.run(kills.plan(spec, f"T-{number}")) for number in range(6)]
    failures = [result.failure for result in results if result.failure]
    assert [each.code for each in failures] == ["NET_CONNECTION_REFUSED"] * 6
    circuit = f"origin:http://127.0.0.1:{dead}"
    said = [f"the step was led to another site, whose circuit {circuit} is open" in each.message for each in failures]
    assert said == [False] * 5 + [True]
    assert failures[-1].details["circuit"] == {"name": circuit, "state": "open"}
