"""A browser context with its page: the engine's hands and eyes (ports.Session)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from playwright.async_api import Error as PlaywrightError

from harness.browser import evidence as collecting
from harness.browser.acts import ACTIONS
from harness.browser.acts.attempt import ActContext
from harness.browser.acts.files import free_path
from harness.browser.checkpoint import PageCheckpoint, take
from harness.browser.context import CLOSE_SECONDS, BrowserPool, ContextHandle, Tab, state_of
from harness.browser.evidence import LastGood
from harness.browser.failures.classify import failure_of, with_popups, with_redirect
from harness.browser.failures.liveness import PROBE_SECONDS, dead, lost
from harness.browser.failures.navigation import navigation_failure, refused_hosts
from harness.browser.failures.scene import FailureContext, describe, locate, other_frame
from harness.browser.faults import Sabotage
from harness.browser.process import Chromium
from harness.browser.reading import look, read_between_pages, text_of
from harness.browser.recovery import GRACE, PageRecovery
from harness.browser.request import SessionRequest
from harness.model.ports import Evidence, Observation, Saved
from harness.model.record import Sent
from harness.recovery import Capture
from harness.recovery.catalog import Effect, Family, Scope
from harness.recovery.failure import Failed, Failure, Outcome, Passed
from harness.resilience import Clock, Deadline
from harness.spec.steps import Api, Open, Step, SwitchPage

T = TypeVar("T")
LEAVE_SECONDS = 2.0
"""For what the browser stores, at the end of a task of an episode."""
LAST_WORDS = 0.05
"""Seconds for what a browser or driver that is gone had still told: a request that left is evidence."""


class PlaywrightSession:
    """One task's page. Every call is bounded; `perform` and `evidence` never raise."""

    def __init__(self, pool: BrowserPool, clock: Clock, request: SessionRequest, chromium: Chromium, tab: Tab) -> None:
        self._pool = pool
        self._clock = clock
        self._request = request
        self._handle = ContextHandle(pool, clock, request, chromium, tab)
        self._files: list[Path] = []
        self._leaving = request.leave
        self._unfound: str | None = None
        self._recorded: tuple[Chromium, list[Sent]] | None = None
        """The browser that records what it sends again, and what has left meanwhile."""
        self._last_good = LastGood(request.folder, clock)
        self._recovery = PageRecovery(self._handle, clock, lambda within: self._attempt(within, within), self._scene)
        self.sabotage = Sabotage(self._handle, pool, clock)
        """Where faults are done to this browser (ports.FaultTarget)."""

    @property
    def _tab(self) -> Tab:
        return self._handle.tab

    @property
    def _chromium(self) -> Chromium:
        return self._handle.chromium

    @property
    def url(self) -> str | None:
        return self._tab.page.url

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._files)

    @property
    def requests(self) -> int:
        return self._handle.requests

    @property
    def user_agent(self) -> str:
        """What the sites see; it ends in `harness-world/<id>`."""
        return f"{self._chromium.user_agent} harness-world/{self._request.world}"

    async def perform(self, step: Step, within: float, patience: float) -> Outcome:
        scene = self._scene(within).of_step(step, patience)
        self._tab.watch.begin(type(step), looks=step.looks_only)
        gone = await lost("", scene)
        if gone and not (isinstance(step, SwitchPage) and gone.scope is Scope.PAGE):  # that leaves the page anyway
            return await self._failed(replace(gone, effect=Effect.NONE))
        await self._record_sending(step)
        attempt = replace(self._attempt(within, patience), once=step.effect_class == "write")
        try:
            async with asyncio.timeout(within + GRACE):
                found = await self._healed_element(step)
                details = await ACTIONS[type(step)](attempt, step)
        except Exception as error:  # noqa: BLE001 - every failure of an act becomes a value; this is the one place
            return await self._failed(await failure_of(error, scene))
        if failure := navigation_failure(scene):
            return await self._failed(failure)
        self._tab.watch.passed()
        return self._passed(step, {**found, **details})

    def _scene(self, within: float) -> FailureContext:
        return FailureContext(
            page=self._tab.page,
            watch=self._tab.watch,
            chromium=self._chromium,
            control=self._tab.control,
            driver_alive=lambda: self._pool.driver_alive,
            clock=self._clock,
            domains=self._request.domains,
            within=within,
            until=Deadline.after(within, self._clock.now()),
            world=self._request.world,
            logins=frozenset(self._tab.passwords),
        )

    def _attempt(self, within: float, patience: float) -> ActContext:
        until = Deadline.after(within, self._clock.now())
        playwright, agent = self._pool.playwright, self.user_agent
        return ActContext(playwright, self._tab, self._request, agent, self._clock, until, patience)

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
        if failure.family is Family.BROWSER:
            await self._clock.sleep(LAST_WORDS)
        if failure.code == "ELEMENT_NOT_FOUND":
            self._unfound = failure.selector
        failure = replace(failure, details={**failure.details, **self._surroundings()})
        return self._with_pages(failure)

    def _with_pages(self, failure: Failure) -> Failure:
        """With the pages that tell why an element is not here: new ones, and the one that was asked for instead."""
        opened = with_redirect(failure, self._tab.opened, self._tab.page.url)
        return with_popups(opened, self._tab.watch.popups)

    def _passed(self, step: Step, details: Mapping[str, Any]) -> Passed:
        if "path" in details:
            self._files.append(Path(details["path"]))
        self._recovery.passed(step)
        if self._tab.opened and not step.looks_only and not isinstance(step, Open):
            self._tab.opened.acted = True
        shown = {key: value for key, value in details.items() if key != "path"}
        return Passed({**shown, **self._surroundings()})

    def _surroundings(self) -> dict[str, Any]:
        """Dialogs that came up during the step, and hosts that the page was refused."""
        watch, domains = self._tab.watch, self._request.domains
        refused = refused_hosts(watch.exchanges, watch.lines, self._tab.page.url, domains)
        found = {"dialogs": list(watch.dialogs), "refused_hosts": list(refused)}
        return {name: value for name, value in found.items() if value}

    async def text(self, selector: str, frame: str | None, patience: float) -> str | Failure:
        what = f"text of {selector}"
        scene = replace(self._scene(patience), selector=selector, frame=frame, what=what, patience=patience)
        try:
            async with asyncio.timeout(patience + GRACE):
                return await text_of(locate(self._tab.page, selector, frame), scene.until, self._clock)
        except (PlaywrightError, TimeoutError) as error:
            return self._with_pages(await failure_of(error, scene))

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

    async def frame_of(self, selector: str) -> str:
        return await other_frame(self._tab.page, selector)

    async def screenshot(self, name: str, within: float) -> Path | None:
        path = free_path(self._request.folder / "screenshots", f"{name}.png")
        try:
            await self._tab.picture(path, within)
        except (PlaywrightError, TimeoutError):
            return None
        self._files.append(path)
        return path

    async def record(self) -> None:
        await self._handle.record()

    async def passed(self, index: int) -> None:
        if self._request.recording == "full":
            await self._last_good.keep(self._tab, index)

    def take_sent(self) -> tuple[Sent, ...]:
        taken = self._handle.take_sent()
        if self._recorded is not None:
            self._recorded[1].extend(taken)
        return taken

    async def heard(self) -> tuple[Sent, ...]:
        taken = self.take_sent()
        if self._recorded is not None:
            (chromium, sent), self._recorded = self._recorded, None
            await chromium.resending.end(sent)
        return taken

    async def _record_sending(self, step: Step) -> None:
        """While a declared write is under way. `api` does not go through the browser; what is stopped tells nothing."""
        if step.effect_class != "write" or isinstance(step, Api) or self._chromium.process.stopped:
            return
        if self._recorded is None:
            self._recorded = self._chromium, []
            await self._chromium.resending.begin(self._recorded[1])

    @property
    def renewed_at(self) -> tuple[str, ...]:
        return self._recovery.addresses

    async def renew(self, failure: Failure, within: float, barred: str | None = None) -> Failure | None:
        return await self._recovery.renew(failure, Deadline.after(within, self._clock.now()), barred)

    async def save(self, within: float) -> PageCheckpoint:
        return await self._seen("save a checkpoint", within, lambda: take(self._tab, self._clock))

    async def restore(
        self, saved: Saved | None, within: float, *, restart: bool, barred: str | None = None
    ) -> tuple[str, ...] | Failure:
        """Back to a checkpoint of `save`, in a fresh context.

        `restart` ends the browser itself when nobody else lives in it; one that does not answer, or is gone, is
        replaced in any case, and the other sessions in it end with it.
        """
        assert saved is None or isinstance(saved, PageCheckpoint)
        self._unfound = None
        until = Deadline.after(within, self._clock.now())
        return await self._recovery.restore(saved, until, restart=restart, barred=barred)

    async def observe(self, within: float, *, screenshot: bool) -> Observation:
        until = Deadline.after(within, self._clock.now())
        folder = self._request.folder
        return await self._seen(
            "observe the page", within, lambda: look(self._tab, folder, until, self._clock, screenshot=screenshot)
        )

    async def _seen(self, what: str, within: float, see: Callable[[], Awaitable[T]]) -> T:
        """What `see` finds; raises Failed when the page cannot be asked, or not in time."""
        scene = replace(self._scene(within), what=what)
        failure = await lost("", scene)
        if failure is not None:
            raise Failed(failure)
        try:
            async with asyncio.timeout(within):
                return await see()
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(await failure_of(error, scene)) from error

    async def _leave(self) -> None:
        """Give what the browser stores to whoever is to go on with it, before its context ends; once."""
        leave, self._leaving = self._leaving, None
        if leave is not None and (state := await state_of(self._tab, LEAVE_SECONDS)) is not None:
            leave(state)

    async def evidence(self, capture: Capture, folder: Path) -> Evidence:
        await self._leave()
        deadline = Deadline.after(collecting.TOTAL_SECONDS, self._clock.now())
        url = self._tab.page.url
        if capture.logs:
            await self._handle.record()  # what ended the task may not have been a step
        round_ = self._collector(folder, deadline)
        har = self._request.recording != "minimal"
        await collecting.take(round_, capture, self._handle.segments if har else None, self._handle.end)
        lines = self._handle.console if capture.logs else ()
        extra = {"popups": list(self._tab.watch.popups), "page": round_.page}
        return Evidence(folder, tuple(round_.items), url, lines, extra)

    def _collector(self, folder: Path, deadline: Deadline) -> collecting.EvidenceCollector:
        earlier, wanted = tuple(self._handle.earlier), self._request.traceable
        return collecting.EvidenceCollector(
            self._scene(0), self._tab, folder, deadline, self._last_good, wanted, earlier
        )

    async def close(self) -> None:
        await self._leave()
        if self._request.tracing == "on" and self._tab.traced:
            deadline = Deadline.after(CLOSE_SECONDS, self._clock.now())
            folder = self._request.folder
            await collecting.take_trace(self._collector(folder, deadline))
            self._files.append(self._request.folder / collecting.TRACE)
        await self._handle.end(CLOSE_SECONDS)
