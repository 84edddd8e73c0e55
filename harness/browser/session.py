"""A browser context with its page: the engine's hands and eyes (ports.Session)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
from playwright.async_api import Error as PlaywrightError

from harness.browser import evidence as collecting
from harness.browser.acts import ACTIONS
from harness.browser.acts.attempt import ActContext
from harness.browser.acts.files import free_path
from harness.browser.acts.navigation import await_answer, await_parts
from harness.browser.acts.page_tools import ANSWER, offered, tool_failure
from harness.browser.bounded import bounded
from harness.browser.checkpoint import PageCheckpoint, take
from harness.browser.context import CLOSE_SECONDS, GRACE, BrowserPool, Tab
from harness.browser.debugger import DebuggedContext, debugged
from harness.browser.evidence import LastGood
from harness.browser.exchanges import RequestRecord, document_of
from harness.browser.failures.classify import facts_now, failure_of, with_unanswered
from harness.browser.failures.liveness import PROBE_SECONDS, lost
from harness.browser.failures.navigation import navigation_failure, refused_hosts, with_bad_answers
from harness.browser.failures.parts import find_spare_parts, never_there, with_missing_parts
from harness.browser.failures.scene import FailureContext, describe
from harness.browser.heard import DownloadedFile
from harness.browser.holding import hold, release
from harness.browser.locating import locate
from harness.browser.net_log import UNREAD, UNTOLD_SECONDS, Repeatable, milliseconds
from harness.browser.page_events import PageEvents
from harness.browser.page_looks import PageLooks
from harness.browser.process import Chromium
from harness.browser.queries import LEAST_SECONDS
from harness.browser.raw_trace import TRACE
from harness.browser.reading import lasting_selectors, look
from harness.browser.recovery import PageRecovery
from harness.browser.request import SessionRequest
from harness.browser.storage import read_storage
from harness.browser.video import VIDEO
from harness.criteria import PageQuery
from harness.criteria.syntax import Happened, Selected
from harness.model.dialogs import MetDialog
from harness.model.policy import WritePermission
from harness.model.ports import Evidence, Observation, Saved
from harness.model.record import LASTING, MetRoute, PageRequest, Sent
from harness.model.snapshot import refs_of
from harness.model.tools import PAGE, ToolAnswer, ToolDescription
from harness.recovery import Capture
from harness.recovery.catalog import Effect, Family, Scope
from harness.recovery.failure import Failed, Failure, Outcome, Passed, routed_failure
from harness.resilience import Clock, Deadline, poll_until
from harness.spec import steps
from harness.spec.page_steps import Wait
from harness.spec.step_base import EffectClass, RequestingStep
from harness.spec.step_keys import AnswerKeys, ArrivalKeys, as_statuses
from harness.values import replace

if TYPE_CHECKING:
    from harness.browser.faults import Sabotage

T = TypeVar("T")
_HOLD_SECONDS = 0.1
"""Seconds within which a held-back request of an act appears."""
_STOP_SECONDS = 0.1
"""Seconds for telling a page that did not load in time to stop loading."""
_LAST_WORDS = 0.05
"""Seconds for the last messages of a lost browser or driver: a request that left is evidence."""


class PlaywrightSession(PageLooks):
    """One task's page. Every call is bounded; `perform` and `evidence` never raise."""

    def __init__(self, pool: BrowserPool, clock: Clock, request: SessionRequest, chromium: Chromium, tab: Tab) -> None:
        super().__init__(pool, clock, request, chromium, tab)
        self._files: list[Path] = []
        self._downloads: list[DownloadedFile] = []
        self._unfound: str | None = None
        self._begun: tuple[PageEvents, int] | None = None
        """The context in which the last act began that may have caused requests, and how many there were before."""
        self._repeatable = Repeatable(request.world)
        self._writes = False
        """Whether the last act was of a step that is declared to write."""
        self._aimed: FailureContext | None = None
        """What the last step looked for."""
        self._failed: Failure | None = None
        """How it failed; None if it passed."""
        self._awaits = False
        """Whether the answer to the last act is awaited beyond its limit, since a `done_when` may tell of it."""
        self._seen = ""
        """The ARIA snapshot of the last look, which gave the refs."""
        self._last_good = LastGood(request.own_folder, clock, request.scale)
        self._recovery = PageRecovery(self._handle, clock, self._attempt, self._scene)

    def act_as(self, user: str | None) -> str | None:
        """Without other users it makes no difference (ports.Session)."""
        return user

    def of(self, user: str | None = None) -> PlaywrightSession:
        if user and user != self._request.user:
            raise Failed(of_nobody(user))
        return self

    @property
    def user(self) -> str:
        return self._request.user

    @property
    def locale(self) -> str | None:
        return self._request.options.locale

    @cached_property
    def sabotage(self) -> Sabotage:
        """The target of faults in this browser (ports.FaultTarget); few tasks have some."""
        from harness.browser.faults import Sabotage

        return Sabotage(self._handle, self._pool, self._clock)

    async def debugged(self) -> DebuggedContext:
        """Where programs reach the context over the DevTools protocol. Raises Failed if they cannot."""
        pid, message = self.chromium.pid, "the browser cannot be reached over the DevTools protocol"
        if pid is None:
            raise Failed(Failure("BROWSER_LAUNCH_FAILED", f"{message}: it runs elsewhere (`browser_endpoint`)"))
        try:
            return await debugged(self.tab.control, pid, self._clock)
        except (OSError, ValueError, PlaywrightError, psutil.Error) as error:
            raise Failed(Failure("BROWSER_LAUNCH_FAILED", f"{message}: {error}", cause=error)) from error

    async def turn_to(self, target: str, within: float) -> None:
        """Make the page with that target id the current one; if it is gone, and the current one too, the newest."""
        await bounded(self._turn_to(target), within, None)  # whoever reads the page next says what is wrong

    async def _turn_to(self, target: str) -> None:
        pages = [page for page in self.tab.context.pages if not page.is_closed()]
        for page in pages:
            info = await (await self.tab.control_of(page)).send("Target.getTargetInfo")
            if info["targetInfo"]["targetId"] == target:
                break
        else:
            page = pages[-1] if pages and self.tab.page.is_closed() else self.tab.page
        if page is not self.tab.page:
            await self.tab.switch(page)

    @property
    def url(self) -> str | None:
        return self.tab.page.url

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._files)

    @property
    def requests(self) -> int:
        return self._handle.requests

    @property
    def user_agent(self) -> str:
        """The User-Agent that the sites see; it ends in `harness-world/<id>`."""
        return self.tab.user_agent

    async def perform(self, step: steps.Step, within: float, patience: float) -> Outcome:
        until = Deadline.after(within, self._clock.now())

        async def act() -> Outcome:
            left = until.left(self._clock.now())
            return await self._perform(step, left, min(patience, left))

        if isinstance(step, steps.SwitchPage):  # it leaves the page anyway
            return await act()
        return await self._where_open(act, reads=step.effect_class == "read")

    async def _perform(self, step: steps.Step, within: float, patience: float) -> Outcome:
        scene = self._scene(within).of_step(step, patience)
        wanted = as_statuses(step.status) if isinstance(step, AnswerKeys) else ()
        self._aimed, self._failed = scene, None
        self.tab.watch.begin(type(step), looks=step.looks_only, wanted=wanted)
        gone = await lost("", scene)
        if gone and not (
            isinstance(step, steps.SwitchPage) and gone.scope is Scope.PAGE
        ):  # this step leaves the page anyway
            return await self._finish_failed(replace(gone, effect=Effect.NONE))
        self._awaits = step.done_when is not None
        if not step.looks_only:
            self._writes = step.effect_class == "write"
        attempt = self._attempt(scene, patience, once=step.effect_class == "write")
        before = self.tab.watch.frame.latest
        try:
            with self._vanished.during(self.tab.control):
                async with asyncio.timeout(within + GRACE):
                    details = await self._act(attempt, step, scene)
        except Exception as error:  # noqa: BLE001 - every failure of an act becomes a value; this is the one place
            return await self._finish_failed(self._unanswered() or await failure_of(error, scene))
        if failure := self._unanswered() or navigation_failure(scene) or await self._held_back(step):
            return await self._finish_failed(failure)
        self.tab.watch.passed()
        if before is not None and _acts(step):
            before.acted = True
        return self._finish_passed(step, details)

    async def _act(self, attempt: ActContext, step: steps.Step, scene: FailureContext) -> dict[str, Any]:
        """Do the act, and wait for the request that it must cause."""
        if isinstance(step, RequestingStep | steps.Tool) and not isinstance(step, Wait):
            self._begun = self.tab.watch, self.tab.watch.requests
        if (
            (document := self.tab.watch.frame.latest) is not None
            and (document.acted if isinstance(step, ArrivalKeys) else _acts(step) and not document.acted)
            and self.chromium.net_log is None
        ):
            await self.tab.watch.ask_what_leaving_does(self.tab.control)
        found = {**await self._healed_element(step), **await self._named_by_refs(step)}
        if (
            isinstance(step, steps.Click | steps.Check | steps.Uncheck | steps.Hover) and step.force
        ):  # Playwright does not ask what covers it
            facts = await facts_now(scene, PROBE_SECONDS, briefly=True)
            found |= {"covered_by": facts.covered_by} if facts is not None and facts.covered_by else {}
        if self._request.gate is not None and self._request.gate.closed:
            await self._request.gate.admit(self.tab.page, step)
        details = {**found, **await ACTIONS[type(step)](attempt, step)}
        if isinstance(step, AnswerKeys) and step.status is not None:
            details["status"] = await await_answer(attempt, step, as_statuses(step.status))
        await await_parts(attempt, step)
        expected = step.wanted_request if isinstance(step, RequestingStep) else None
        if expected is not None and navigation_failure(scene) is None:
            from harness.browser.expectation import await_request  # few steps expect a request

            details["expected_request"] = (await await_request(attempt, expected, self._sent_since)).describe()
        return details

    async def _named_by_refs(self, step: steps.Step) -> dict[str, Any]:
        """The lasting selectors of the step's refs. Raises Failed for a ref that means another element by now."""
        refs = refs_of(step)
        found = await lasting_selectors(self.tab.page, refs, self._seen) if refs else None
        return {LASTING: found} if found else {}

    async def _held_back(self, step: steps.Step) -> Failure | None:
        """The failure of a step that caused a request which the agent's policy holds back."""
        gate = self._request.gate
        if gate is None or not gate.closed or step.effect_class == "read":
            return None
        await poll_until(self._clock, lambda: gate.caused_by(step) is not None, 0.01, _HOLD_SECONDS)
        held = gate.caused_by(step)
        return held.failure() if held else None

    def _sent_since(self) -> list[RequestRecord]:
        """The requests since the last act began that may have caused some."""
        watch, before = self._begun or (self.tab.watch, 0)
        count = watch.requests - before if watch is self.tab.watch else watch.requests
        return list(self.tab.watch.exchanges)[-count:] if count else []

    def begin_step(self, index: int, heard: Callable[[Sent], None]) -> None:
        self._request.announcer.heard = heard
        self._closed_pages.clear()
        self.tab.aim = None
        if self._request.routing is not None:
            self._request.routing.begin_step(index)
        self.tab.watch.dialog_answers.begin_step(index)

    def restrict(self, permission: WritePermission | None) -> None:
        if self._request.gate is not None:
            self._request.gate.restrict(permission)

    @property
    def routes(self) -> tuple[MetRoute, ...]:
        return self._request.routing.results() if self._request.routing else ()

    @property
    def exchanged(self) -> tuple[PageRequest, ...]:
        from harness.browser.expectation import page_request  # few criteria read requests

        return tuple(map(page_request, self._handle.exchanged))

    async def happened(self, function: str, pattern: str, within: float) -> Happened:
        from harness.browser.happenings import happened  # few criteria read them

        until = Deadline.after(within, self._clock.now())
        if function != "downloads":  # what the page did before it answers has been told then
            await self.read(PageQuery("title"), within)
        left = max(LEAST_SECONDS, until.left(self._clock.now()))
        return await happened(function, pattern, self._handle.watches, self._downloads, left)

    @property
    def dialogs(self) -> tuple[MetDialog, ...]:
        return self._handle.dialogs

    async def await_dialogs(self, within: float) -> Failure | None:
        dialogs = self.tab.watch.dialog_answers
        await poll_until(self._clock, lambda: dialogs.missing() is None, 0.02, within)
        wanted = dialogs.missing()
        return None if wanted is None else dialogs.tell_missing(wanted)

    def _attempt(self, scene: FailureContext, patience: float, *, once: bool = False) -> ActContext:
        playwright, log = self._pool.playwright, self.chromium.net_log
        until = Deadline.after(scene.within, self._clock.now())
        return ActContext(playwright, self.tab, self._request, self._clock, until, patience, scene, once, log)

    async def _healed_element(self, step: steps.Step) -> dict[str, Any]:
        """The element that another selector found after one was not found; the usual step pays nothing."""
        unfound, self._unfound = self._unfound, None
        if unfound is None or step.target is None or step.target == unfound:
            return {}
        element = await describe(locate(self.tab.page, step.target, getattr(step, "frame", None)), PROBE_SECONDS)
        return {"element": element} if element else {}

    async def _finish_failed(self, failure: Failure) -> Failure:
        if failure.code == "NET_TIMEOUT" and not self._awaits:
            await self.tab.stop_loading(_STOP_SECONDS)
        if failure.family is Family.BROWSER:
            await self._clock.sleep(_LAST_WORDS)
        if failure.code == "ELEMENT_NOT_FOUND":
            self._unfound = failure.selector
        asked = document_of(self.tab.watch.exchanges, failure.requested or "")
        if failure.family is Family.NETWORK and asked is not None and asked.routed is not None:
            failure = routed_failure(failure, patched=asked.patched)
        self._failed = failure
        failure = replace(failure, details={**failure.details, **self._side_effects()})
        return self._with_pages(with_unanswered(failure, self.tab.watch.exchanges, self._clock.wall()))

    async def by_page(self, failure: Failure) -> Failure:
        if (document := self.tab.watch.frame.latest) is not None:
            await find_spare_parts(self.tab.page, document, self._request.domains)
        return with_bad_answers(with_missing_parts(failure, self._scene(0)), self._scene(0))

    async def page_failure(self) -> Failure | None:
        document = self.tab.watch.frame.latest
        if document is None or not document.unmet:
            return None
        await find_spare_parts(self.tab.page, document, self._request.domains)
        return never_there(document, self._scene(0))

    def _finish_passed(self, step: steps.Step, details: Mapping[str, Any]) -> Passed:
        if "path" in details:
            self._files.append(Path(details["path"]))
        if isinstance(step, steps.Download):
            self._downloads.append(DownloadedFile(Path(details["path"]), details["url"]))
            details = {key: value for key, value in details.items() if key != "url"}
        self._recovery.passed(step)
        if not step.looks_only:
            self._vanished.acted()
        if self.tab.opened and not step.looks_only and not isinstance(step, steps.Open):
            self.tab.opened.acted = True
        shown = {key: value for key, value in details.items() if key != "path"}
        return Passed({**shown, **self._side_effects()})

    def _side_effects(self) -> dict[str, Any]:
        """Dialogs that opened during the step, and hosts that the page was refused."""
        watch, domains = self.tab.watch, self._request.domains
        refused = refused_hosts(watch.exchanges, watch.lines, self.tab.page.url, domains)
        found = {"dialogs": [each.as_json() for each in watch.dialogs], "refused_hosts": list(refused)}
        return {name: value for name, value in found.items() if value}

    async def screenshot(self, name: str, within: float) -> Path | None:
        path = free_path(self._request.folder / "screenshots", f"{name}.png")
        try:
            await self.tab.picture(path, within)
        except (PlaywrightError, TimeoutError):
            return None
        self._files.append(path)
        return path

    async def record(self, *, freeing: bool = True) -> None:
        if self._awaits and self.tab.watch.frame.unanswered is not None:
            await self.tab.stop_loading(_STOP_SECONDS)
        self._awaits = False
        await self._handle.record(freeing=freeing)

    async def passed(self, index: int) -> None:
        if self._request.recording == "full":
            await self._last_good.keep(self.tab, index)

    def take_sent(self) -> tuple[Sent, ...]:
        taken = self._handle.take_sent()
        self._repeatable.add(taken, writes=self._writes)
        return taken

    async def take_settled(self) -> tuple[Sent, ...]:
        if self._handle.ended:
            await self._read_log()
        else:
            self._note_untold(UNTOLD_SECONDS)
        taken, chromium = self.take_sent(), self.chromium
        answers = self._repeatable.open and self._answers
        await self._repeatable.count(chromium.net_log, chromium.control, answers=answers)
        return taken

    async def hold(self) -> bool:
        known = self._handle.ended or await hold(self.tab, self.chromium, self._clock)
        await self._read_log(held=known)
        return known

    async def _read_log(self, *, held: bool = False) -> None:
        """Record what has left the pages and was told by no event, as far as the browser has a log of it.

        `held`: they are stopped, so the log has all that a worker sent before it was watched.
        """
        log, watch = self.chromium.net_log, self.tab.watch
        if log is None or not self._answers:
            return
        if await log.complete(self.chromium.control):
            self._note_untold()
            if held and log.shows_all(watch.began, watch.origins):
                watch.clear_doubts()
        elif watch.left_at:
            watch.sending.announce(watch.sending.doubt(UNREAD))

    def _note_untold(self, age: float = 0.0) -> None:
        """Record what the log has told, for at least so many seconds, and no event has."""
        watch, until = self.tab.watch, milliseconds() - age * 1000
        if (log := self.chromium.net_log) is not None:
            left = log.departed(self._request.world, watch.began, until, watch.left_at, watch.origins)
            watch.sending.add_untold(left)

    @property
    def _answers(self) -> bool:
        return self.chromium.alive and not self.chromium.process.stopped

    async def release(self) -> None:
        await release(self.tab, self.chromium)

    @property
    def renewed_at(self) -> tuple[str, ...]:
        return self._recovery.addresses

    async def renew(self, failure: Failure, within: float, barred: str | None = None) -> Failure | None:
        return await self._recovery.renew(failure, Deadline.after(within, self._clock.now()), barred)

    async def save(self, within: float) -> PageCheckpoint:
        saved = await self._read_page("save a checkpoint", within, lambda: take(self.tab, self._clock))
        return replace(saved, posted=self._recovery.posted)

    async def restore(
        self, saved: Saved | None, within: float, *, restart: bool, barred: str | None = None
    ) -> tuple[str, ...] | Failure:
        """Restore a checkpoint of `save` in a new context.

        `restart` ends the browser too, unless it has other sessions; one that does not answer, or is gone, is replaced
        in any case, and the other sessions in it end with it.
        """
        assert saved is None or isinstance(saved, PageCheckpoint)
        self._unfound = None
        until = Deadline.after(within, self._clock.now())
        return await self._recovery.restore(saved, until, restart=restart, barred=barred)

    async def observe(self, within: float, *, screenshot: bool) -> Observation:
        until = Deadline.after(within, self._clock.now())
        folder, gate = self._request.folder, self._request.gate
        seen = await self._read_page(
            "observe the page", within, lambda: look(self.tab, folder, until, self._clock, screenshot=screenshot)
        )
        self._seen = seen.aria
        return replace(seen, held_back=gate.held) if gate and gate.held else seen

    async def page_tools(self, within: float, awaited: str | None = None) -> tuple[ToolDescription, ...]:
        until, clock = Deadline.after(within, self._clock.now()), self._clock
        return await self._read_page(
            "list the page's tools", within, lambda: offered(self.tab.page, awaited, until, clock)
        )

    async def call_page_tool(
        self, name: str, arguments: Mapping[str, Any], within: float, effect: EffectClass = "write"
    ) -> ToolAnswer:
        step = steps.Tool(server=PAGE, tool=name, arguments=dict(arguments), effect=effect)
        outcome = await self.perform(step, within, within)
        if isinstance(outcome, Failure):
            raise Failed(tool_failure(name, outcome))
        answer: ToolAnswer = outcome.details[ANSWER]
        return answer

    async def leave_storage(self, within: float, *, held_up: bool) -> Failure | None:
        leave, tab = self._request.leave, self.tab
        if leave is None:
            return None
        return leave(await read_storage(tab.context, lambda: tab.freed(PROBE_SECONDS), within, held_up=held_up))

    async def evidence(self, capture: Capture, folder: Path, selectors: Collection[Selected] = ()) -> Evidence:
        if self.tab.watch.pace.heavy and not await self.tab.answers(PROBE_SECONDS):
            self.tab.begin_silence()  # the sooner its events end, the more the page gives
            self.tab.watch.spare()
        await self._leave_closed()
        await self._learn_secrets(waits=True)
        deadline = Deadline.after(collecting.TOTAL_SECONDS * self._request.scale, self._clock.now())
        url = self.tab.page.url
        if capture.logs:
            await self._handle.record()  # the task may have ended between two steps
        round_ = self._collector(folder, deadline, selectors)
        vanished = await self._vanished.collect(self.tab.control) if capture.dom else ()
        har = self._request.recording != "minimal"
        await collecting.take(round_, capture, self._handle.segments if har else None, self._handle.end)
        if capture.logs:
            self._files += [folder / name for name in self._request.always_kept]
        lines = self._handle.console if capture.logs else ()
        return Evidence(folder, tuple(round_.items), url, lines, round_.page, vanished=vanished)

    def _collector(
        self, folder: Path, deadline: Deadline, selectors: Collection[Selected] = ()
    ) -> collecting.EvidenceCollector:
        earlier, kept = tuple(self._handle.earlier), self._last_good
        return collecting.EvidenceCollector(
            self._scene(0), self.tab, folder, deadline, kept, self._request, earlier, selectors, *self._marked
        )

    @property
    def _marked(self) -> tuple[FailureContext | None, tuple[str, ...]]:
        """What the failed step looked for on this page, and what it nearly found."""
        if self._failed is None or self._aimed is None or self._aimed.page is not self.tab.page:
            return None, ()
        return self._aimed, tuple(self._failed.details.get("similar", ()))

    async def close(self) -> None:
        if self._files or self._request.always_kept:
            await self._learn_secrets(waits=True)
        if self._request.routing is not None:
            await self._request.routing.end()
        own = self._request.own_folder
        if self._request.tracing == "on" and self.tab.traced:
            deadline = Deadline.after(CLOSE_SECONDS * self._request.scale, self._clock.now())
            own.mkdir(parents=True, exist_ok=True)
            await collecting.take_trace(self._collector(own, deadline))
            self._files.append(own / TRACE)
        await self._handle.end(CLOSE_SECONDS)
        if (videos := self._request.videos) is not None and videos.always and not videos.taken:
            own.mkdir(parents=True, exist_ok=True)
            await collecting.take_video(self._collector(own, Deadline.after(0, 0)), videos)
            self._files.append(own / VIDEO)


def of_nobody(user: str) -> Failure:
    """The failure of whatever names a user that the task does not have: a reference has given the name."""
    return Failure("INVALID_INPUT", f"the task has no user `{user}`", details={"as": user})


def _acts(step: steps.Step) -> bool:
    """Return whether a step may change the page that it finds."""
    return step.effect_class != "read" and not isinstance(step, steps.Api)
