"""What is done to the services, and the stranger on their ports."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.faults.state import PortOccupier, SiteTarget
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import Fault
from tests.ports import free_port, free_ports
from tests.unit.faults.conftest import refuses, talk

FAULT: TypeAdapter[Any] = TypeAdapter(Fault)


@dataclass
class FakeSites:
    taken: tuple[int, ...] = ()
    ended: list[tuple[str, bool]] = field(default_factory=list)
    refusal: Failure | None = None

    def ports(self, name: str) -> tuple[int, ...]:
        return self.taken

    async def end(self, name: str, *, orderly: bool) -> None:
        if self.refusal:
            raise Failed(self.refusal)
        self.ended.append((name, orderly))


async def strike(sites: FakeSites, met: list[str], **fault: Any) -> Undo | None:
    kind = fault["kind"]
    parsed = FAULT.validate_python({"service": "demo", **fault})
    injection = Injection(parsed, Random(0), lambda: met.append(kind), lambda _: False)
    return await SiteTarget(sites.ports, sites.end).strike(injection)


@pytest.mark.parametrize(("kind", "orderly"), [("service_killed", False), ("service_restarted", True)])
def test_a_service_is_ended(kind: str, orderly: bool) -> None:
    sites, met = FakeSites(), []
    assert asyncio.run(strike(sites, met, kind=kind)) is None
    assert (sites.ended, met) == ([("demo", orderly)], [kind])


async def test_a_stranger_listens_on_all_its_ports_and_leaves() -> None:
    sites = FakeSites(free_ports(2))
    heal = await strike(sites, [], kind="port_taken", seconds=5)
    assert sites.ended == [("demo", False)]
    for port in sites.taken:
        answer = await asyncio.wait_for(talk(port, b"GET / HTTP/1.1\r\nHost: shop.local\r\n\r\n"), 10)
        assert b"\x00 a stranger is listening here" in answer
    assert heal is not None
    await heal()
    assert all([await refuses(port) for port in sites.taken])


async def test_a_port_that_somebody_has_taken_already() -> None:
    first, second = free_ports(2)
    with socket.create_server(("127.0.0.1", second)), pytest.raises(Failed, match="another program took it first"):
        await strike(FakeSites((first, second)), [], kind="port_taken", seconds=5)
    assert await refuses(first)


@pytest.mark.parametrize("rounds", range(8))
async def test_a_stranger_who_is_called_back_on_his_way_holds_no_port(rounds: int) -> None:
    ports = free_ports(2)
    coming = asyncio.create_task(PortOccupier.listen_on(ports))
    for _ in range(rounds):
        await asyncio.sleep(0)
    coming.cancel()
    came = await asyncio.gather(coming, return_exceptions=True)
    if isinstance(came[0], PortOccupier):
        await came[0].free_ports()
    assert all([await refuses(port) for port in ports])


async def test_a_stranger_who_meets_what_is_no_port_holds_none() -> None:
    port = free_port()
    with pytest.raises(OverflowError):
        await PortOccupier.listen_on((port, 70_000))
    assert await refuses(port)


def test_what_is_not_ours_is_not_met() -> None:
    met: list[str] = []
    sites = FakeSites(refusal=Failure("INVALID_INPUT", "this run has not started it"))
    with pytest.raises(Failed, match="has not started it"):
        asyncio.run(strike(sites, met, kind="port_taken", seconds=1))
    assert met == []
