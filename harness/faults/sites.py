"""Faults done to the sites' processes."""

from __future__ import annotations

from typing import Protocol

from harness.faults.stranger import Stranger
from harness.model.ports import Heal, Strike
from harness.spec.faults import PortTaken, ServiceFault, ServiceRestarted


class Sites(Protocol):
    """The services of a run. Both raise Failed for a name that is not known."""

    def ports(self, name: str) -> tuple[int, ...]:
        """The ports that it listens on."""
        ...

    async def end(self, name: str, *, orderly: bool) -> None:
        """End its processes; whoever owns them starts it again. Raises Failed where that is not ours to do."""
        ...


class SiteHands:
    """Faults of the run's services; every task that uses the site meets them."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites

    async def strike(self, strike: Strike) -> Heal | None:
        """Do it. Raises Failed."""
        fault = strike.fault
        assert isinstance(fault, ServiceFault)
        ports = self._sites.ports(fault.service)
        await self._sites.end(fault.service, orderly=isinstance(fault, ServiceRestarted))
        strike.met()
        if not isinstance(fault, PortTaken):
            return None
        stranger = await Stranger.at(ports)
        return stranger.leave
