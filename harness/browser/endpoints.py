"""The browser endpoints of a run: the next one is asked when one does not give a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from harness.browser.chromium import Chromium
from harness.browser.endpoint import Endpoint
from harness.browser.endpoint_choice import Candidate, first_turn, order
from harness.browser.endpoint_failure import UNFIT, down, none_left
from harness.model.settings import BrowserSettings, Settings, names
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker, CircuitOpen, Ticket

Lived = Callable[[Endpoint], Chromium | None]
"""The browser that already runs at an endpoint for these hosts."""
Start = Callable[[Endpoint], Awaitable[Chromium]]


class Endpoints:
    """In turn, those first that work and have the fewest sessions; a circuit for each."""

    def __init__(
        self, urls: Sequence[str], settings: BrowserSettings, breaker: Callable[[str], Breaker], turn: int = 0
    ) -> None:
        """`breaker` is asked by the name of an endpoint; `turn` is whose turn is first."""
        self._places = tuple(Endpoint(url, name, settings) for url, name in zip(urls, names(urls), strict=True))
        self._breaker = breaker
        self._turn = turn
        self._unfit: dict[str, Failure] = {}

    @classmethod
    def of(cls, settings: Settings, breaker: Callable[[str], Breaker], environ: Mapping[str, str]) -> Endpoints | None:
        """Those of a run; None where its browsers are started here."""
        urls = settings.browser_endpoint
        return cls(urls, settings.browser, breaker, first_turn(environ)) if urls else None

    async def browser(self, hosts: bool, sessions: Callable[[str], int], lives: Lived, start: Start) -> Chromium:
        """The browser of the first endpoint that has or gives one. Raises Failed, with the reason of each."""
        candidates = [self._candidate(place, sessions(place.name)) for place in self._places]
        places = [self._places[number] for number in order(candidates, self._turn, hosts=hosts)]
        self._turn += 1
        failures: list[tuple[str, Failure]] = []
        for place in places:
            try:
                return lives(place) or await self._started(place, lives, start)
            except Failed as failed:
                failures.append((place.name, failed.failure))
        raise Failed(none_left(failures))

    def _candidate(self, place: Endpoint, sessions: int) -> Candidate:
        return Candidate(sessions, self._breaker(place.name).failures > 0 or place.name in self._unfit, place.far)

    async def _started(self, place: Endpoint, lives: Lived, start: Start) -> Chromium:
        """One at a time, so that those who wait learn of it when there is none. Raises Failed."""
        async with place.lock:
            return lives(place) or await self._asked(place, start)

    async def _asked(self, place: Endpoint, start: Start) -> Chromium:
        """Raises Failed."""
        if place.name in self._unfit:
            raise Failed(self._unfit[place.name])
        ticket = self._admitted(place)
        try:
            chromium = await start(place)
        except Failed as failed:
            if failed.failure.code == UNFIT:
                self._unfit[place.name] = failed.failure
                ticket.released()
            else:
                ticket.failed(str(failed.failure.details.get("reason", failed.failure.message)))
            raise
        except BaseException:
            ticket.released()
            raise
        ticket.succeeded()
        return chromium

    def _admitted(self, place: Endpoint) -> Ticket:
        try:
            return self._breaker(place.name).admit()
        except CircuitOpen as error:
            rest = "another task is trying it" if error.probing else f"left alone for {error.reopens_in:.0f} s more"
            reason = f"{rest} ({error.error})"
            raise Failed(down(place.name, reason)) from error
