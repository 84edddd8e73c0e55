"""Opens sessions for a test, and plays steps in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from harness.browser import Browsers, PlaywrightSession, SessionRequest
from harness.recovery.failure import Failure, Passed
from harness.spec.steps import Step
from tests.browser.moments import stretched
from tests.browser.site import Site

SHOP, OTHER, EVIL, DEAD, GONE = "shop.test", "other.test", "evil.test", "dead.test", "gone.test"
WITHIN = 1.4
STEP: TypeAdapter[Step] = TypeAdapter(Step)


def hosts_of(site: Site) -> dict[str, int]:
    """Nothing listens for `dead.test`."""
    return {SHOP: site.port, OTHER: site.port, EVIL: site.port, DEAD: 9}


class Stage:
    """The sessions of one test."""

    def __init__(self, browsers: Browsers, site: Site, folder: Path) -> None:
        self.browsers, self.site, self.folder = browsers, site, folder
        self.opened = 0
        self.sessions: list[PlaywrightSession] = []

    @property
    def hosts(self) -> dict[str, int]:
        return hosts_of(self.site)

    async def session(self, **fields: Any) -> PlaywrightSession:
        folder = self.folder / f"s{self.opened}"
        self.opened += 1
        folder.mkdir()
        asked: dict[str, Any] = {"world": "w-1", "folder": folder, "uploads": self.folder, "hosts": self.hosts}
        session = await self.browsers.open_session(SessionRequest(**{**asked, **fields}))
        self.sessions.append(session)
        return session

    async def at(self, path: str = "/", **fields: Any) -> PlaywrightSession:
        """A session with a page of the site open."""
        session = await self.session(**fields)
        await passed(session, {"act": "open", "url": f"http://{SHOP}{path}"})
        return session


async def perform(
    session: PlaywrightSession, step: dict[str, Any], within: float = 5, patience: float = 2
) -> Passed | Failure:
    """Perform a step given as in a task file."""
    return await session.perform(STEP.validate_python(step), within, patience)


async def passed(session: PlaywrightSession, step: dict[str, Any], within: float = 20, patience: float = 10) -> Passed:
    """The step must pass, at its leisure: nothing is lost by waiting for what comes."""
    outcome = await perform(session, step, within, patience)
    assert isinstance(outcome, Passed), outcome
    return outcome


async def failed(
    session: PlaywrightSession, step: dict[str, Any], within: float | None = None, patience: float = 0.4
) -> Failure:
    """The step must fail; many do so only at the end of their time."""
    outcome = await perform(session, step, stretched(WITHIN) if within is None else within, patience)
    assert isinstance(outcome, Failure), outcome
    return outcome
