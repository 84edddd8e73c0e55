"""A browser context with its page: the engine's hands and eyes (ports.Session)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, StorageState

from harness.browser import evidence as taking
from harness.browser.actions import ACTIONS
from harness.browser.attempt import Attempt
from harness.browser.chromium import Chromium
from harness.browser.facts import describe, locate
from harness.browser.failures import failure_of, navigation_failure, with_popups
from harness.browser.liveness import PROBE_SECONDS, dead
from harness.browser.navigation import go_to
from harness.browser.network import status_failure
from harness.browser.reading import read_between_pages, text_of
from harness.browser.request import SessionRequest
from harness.browser.scene import Scene, seconds
from harness.browser.storage import state_of
from harness.browser.tab import Tab
from harness.browser.transfer import free_path
from harness.failure import Failed, Failure, Outcome, Passed
from harness.ports import Evidence
from harness.recovery import Capture
from harness.resilience import Clock, Deadline
from harness.spec.steps import Step

GRACE = 0.1
"""Seconds after its limit at which a call that Playwright did not end is ended from outside."""
CLOSE_SECONDS = 3.0
STOPPED_SECONDS = 0.75
"""A browser that is silent for so long twice is taken for stopped, and killed; others may live in it."""
STATE_SECONDS = 2.0
TRACE_START_SECONDS = 1.0


class Fleet(Protocol):
    """What a session needs of the browsers it came from."""

    @property
    def playwright(self) -> Playwright: ...

    @property
    def driver_alive(self) -> bool: ...

    async def open_tab(self, request: SessionRequest, state: StorageState | None) -> tuple[Tab, Chromium]: ...

    async def release(self, chromium: Chromium) -> None: ...


class PlaywrightSession:
    """One task's page. Every call is bounded; `perform` and `evidence` never raise."""

    def __init__(self, fleet: Fleet, clock: Clock, request: SessionRequest, chromium: Chromium, tab: Tab) -> None:
        self._fleet = fleet
        self._clock = clock
        self._request = request
        self._chromium = chromium
        self._tab = tab
        self._recordings = [tab.har] if tab.har else []
        self._console: list[str] = []
        self._files: list[Path] = []
        self._good_url: str | None = None
        self._unfound: str | None = None
        self._closed = False

    @property
    def url(self) -> str | None:
        return self._tab.page.url

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._files)

    @property
    def user_agent(self) -> str:
        """What the sites see; it ends in `harness-world/<id>`."""
        return f"{self._chromium.user_agent} harness-world/{self._request.world}"

    async def perform(self, step: Step, within: float, patience: float) -> Outcome:
        scene = self._scene(within).of_step(step, patience)
        self._tab.watch.begin()
        attempt = self._attempt(within, patience)
        try:
            async with asyncio.timeout(within + GRACE):
                found = await self._healed_element(step)
                details = await ACTIONS[type(step)](attempt, step)
        except Exception as error:  # noqa: BLE001 - every failure of an act becomes a value; this is the one place
            return await self._failed(await failure_of(error, scene))
        failure = navigation_failure(scene)
        return await self._failed(failure) if failure else self._passed({**found, **details})

    def _scene(self, within: float) -> Scene:
        return Scene(
            page=self._tab.page,
            watch=self._tab.watch,
            chromium=self._chromium,
            control=self._tab.control,
            driver_alive=lambda: self._fleet.driver_alive,
            clock=self._clock,
            policed=bool(self._request.allowed_domains),
            within=within,
        )

    def _attempt(self, within: float, patience: float) -> Attempt:
        until = Deadline.after(within, self._clock.now())
        playwright, agent = self._fleet.playwright, self.user_agent
        return Attempt(playwright, self._tab, self._request, agent, self._clock, until, patience)

    async def _healed_element(self, step: Step) -> dict[str, Any]:
        """After an element was not found, what another selector found instead; the usual step pays nothing."""
        unfound, self._unfound = self._unfound, None
        if unfound is None or step.target is None or step.target == unfound:
            return {}
        element = await describe(locate(self._tab.page, step.target, getattr(step, "frame", None)), PROBE_SECONDS)
        return {"element": element} if element else {}

    async def _failed(self, failure: Failure) -> Failure:
        if failure.code == "NET_TIMEOUT":
            await self._tab.stop_loading(GRACE)
        if failure.code == "ELEMENT_NOT_FOUND":
            self._unfound = failure.selector
        failure = replace(failure, details={**failure.details, **self._surroundings()})
        return with_popups(failure, self._tab.watch.popups)

    def _passed(self, details: Mapping[str, Any]) -> Passed:
        if "path" in details:
            self._files.append(Path(details["path"]))
        if self._tab.page.url.startswith("http"):
            self._good_url = self._tab.page.url
        shown = {key: value for key, value in details.items() if key != "path"}
        return Passed({**shown, **self._surroundings()})

    def _surroundings(self) -> dict[str, Any]:
        """Dialogs that came up during the step."""
        dialogs = self._tab.watch.dialogs
        return {"dialogs": list(dialogs)} if dialogs else {}

    async def text(self, selector: str, frame: str | None, patience: float) -> str | Failure:
        what = f"text of {selector}"
        scene = replace(self._scene(patience), selector=selector, frame=frame, what=what, patience=patience)
        try:
            async with asyncio.timeout(patience + GRACE):
                return await text_of(locate(self._tab.page, selector, frame), max(patience, 0.02) * 1000)
        except (PlaywrightError, TimeoutError) as error:
            return with_popups(await failure_of(error, scene), self._tab.watch.popups)

    async def read(self, function: str, selector: str | None, name: str | None, within: float) -> Any:
        scene = replace(self._scene(within), selector=selector, what=f"{function}({selector or ''})")
        try:
            async with asyncio.timeout(within):
                value = await read_between_pages(self._tab.page, function, selector, name, self._clock)
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(await failure_of(error, scene)) from error
        failure = dead("", scene)
        if failure is not None:
            raise Failed(failure)
        return value

    async def screenshot(self, name: str, within: float) -> Path | None:
        path = free_path(self._request.folder / "screenshots", f"{name}.png")
        try:
            await self._tab.picture(path, within)
        except (PlaywrightError, TimeoutError):
            return None
        self._files.append(path)
        return path

    async def record(self) -> None:
        if not self._request.traceable or self._tab.traced:
            return
        try:
            async with asyncio.timeout(TRACE_START_SECONDS):
                await self._tab.trace()
        except (PlaywrightError, TimeoutError):
            return  # a page that is gone cannot be recorded; the evidence says so

    async def renew(self, within: float) -> Failure | None:
        deadline = Deadline.after(within, self._clock.now())
        traced = self._tab.traced
        state = await state_of(self._tab, deadline.clip(STATE_SECONDS, self._clock.now()))
        await self._end(deadline.clip(CLOSE_SECONDS / 2, self._clock.now()))
        try:
            async with asyncio.timeout(deadline.left(self._clock.now())):
                self._tab, self._chromium = await self._fleet.open_tab(self._request, state)
        except Failed as error:
            return error.failure
        except TimeoutError:
            return Failure("BROWSER_UNRESPONSIVE", f"no new page in {seconds(within)}", tainted=True)
        self._closed = False
        self._recordings += [self._tab.har] if self._tab.har else []
        if traced:
            await self.record()
        return await self._return_to_page(deadline)

    async def _return_to_page(self, deadline: Deadline) -> Failure | None:
        """To the last URL at which a step passed."""
        if self._good_url is None:
            return None
        within = deadline.left(self._clock.now())
        scene = replace(self._scene(within), opens=True, what=f"return to {self._good_url}")
        try:
            async with asyncio.timeout(within + GRACE):
                response = await go_to(self._attempt(within, within), self._good_url)
        except (PlaywrightError, TimeoutError) as error:
            return await failure_of(error, scene)
        return status_failure(response.status, response.url, response.headers, self._clock.wall()) if response else None

    async def evidence(self, capture: Capture, folder: Path) -> Evidence:
        deadline = Deadline.after(taking.TOTAL_SECONDS, self._clock.now())
        url = self._tab.page.url
        round_ = taking.Taking(self._tab, folder, self._clock, deadline)
        har = self._request.recording != "minimal"
        await taking.take(round_, capture, self._recordings if har else None, self._end)
        console = self._console if self._closed else [*self._console, *self._tab.watch.console()]
        lines = tuple(console) if capture.logs else ()
        return Evidence(folder, tuple(round_.items), url, lines, {"popups": list(self._tab.watch.popups)})

    async def close(self) -> None:
        if self._request.tracing == "on" and self._tab.traced:
            deadline = Deadline.after(CLOSE_SECONDS, self._clock.now())
            await taking.take_trace(taking.Taking(self._tab, self._request.folder, self._clock, deadline))
            self._files.append(self._request.folder / taking.TRACE)
        await self._end(CLOSE_SECONDS)

    async def _end(self, seconds: float) -> bool:
        """Close the context; a browser that does not even answer is killed. Whether it closed cleanly."""
        if self._closed:
            return True
        self._closed = True
        self._console += self._tab.watch.console()
        closed = False
        try:
            async with asyncio.timeout(seconds):
                closed = await self._chromium.answers(STOPPED_SECONDS)
                if closed:
                    await self._tab.context.close()
        except (PlaywrightError, TimeoutError):
            closed = False
        if not closed and not await self._chromium.answers(STOPPED_SECONDS):
            self._chromium.kill()
        await self._fleet.release(self._chromium)
        return closed
