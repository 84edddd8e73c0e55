"""Answers the requests of a task's pages and `api` steps by its `routes`, in every context that the task has."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Sequence
from copy import copy
from pathlib import Path

from playwright.async_api import BrowserContext, WebSocketRoute
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Route as Intercepted

from harness.browser.bounded import bounded
from harness.browser.page_events import PageEvents
from harness.browser.patching import Awaited, Patching, browser_pattern
from harness.browser.route_answers import (
    AnswerSource,
    ArmedRoute,
    DeclaredAnswer,
    Memory,
    NoAnswerError,
    PatchedAnswer,
    RecordedAnswers,
    RouteAnswer,
)
from harness.browser.sockets import RoutedSocket, socket_pattern
from harness.model.record import MESSAGE, MetRoute
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from harness.spec.routes import Route

_PROBLEMS = 20


class Answering:
    """A decision about one request: the route that answers it, and the answer; without one the request is aborted."""

    def __init__(self, armed: ArmedRoute, answer: RouteAnswer | None) -> None:
        self.number, self.delay, self.answer, self.armed = armed.number, armed.route.delay, answer, armed

    @property
    def patch(self) -> PatchedAnswer | None:
        """What changes the answer of the site, which the request reaches."""
        return self.armed.source if isinstance(self.armed.source, PatchedAnswer) else None


class Routing:
    """The routes of one task. Counts go on when the context is replaced, and when the task goes back."""

    def __init__(self, routes: Sequence[Route], sources: Sequence[AnswerSource], memory: Memory = dict) -> None:
        self._armed = [ArmedRoute(number, *pair) for number, pair in enumerate(zip(routes, sources, strict=True))]
        self._requests_of = [each for each in self._armed if not each.route.for_sockets]
        self._sockets_of = [each for each in self._armed if each.route.for_sockets]
        self._sockets: list[RoutedSocket] = []
        self.memory = memory
        self._step = -1
        self._problems: deque[Failure] = deque(maxlen=_PROBLEMS)
        self._ended = asyncio.Event()
        self._patching: Patching | None = None

    @classmethod
    async def of(cls, routes: Sequence[Route], folder: Path, memory: Memory) -> Routing:
        """Make the routes ready; `folder` is the task's. Raises Failed for a HAR file that cannot be used."""
        files = {route.from_har for route in routes if route.from_har is not None}
        recorded = {name: await asyncio.to_thread(RecordedAnswers, folder / name) for name in files}
        sources = [
            PatchedAnswer(route.patch, memory)
            if route.patch is not None
            else DeclaredAnswer(route, folder, memory)
            if route.from_har is None
            else recorded[route.from_har]
            for route in routes
        ]
        return cls(routes, sources, memory)

    def shared(self) -> Routing:
        """The same routes, with the same counts, for the pages of another user."""
        other = copy(self)
        other._patching = None  # noqa: SLF001 - its own; each browser has one
        return other

    def begin_step(self, index: int) -> None:
        """A step begins, perhaps again; -1 stands for the preconditions, the number of steps for the criteria."""
        self._step = index
        for each in tuple(self._sockets):
            each.look()

    def answers(self, method: str, url: str) -> bool:
        """Return whether a route would answer this request now; one that its HAR file does not have may pass.

        A request whose answer is only changed goes to its site.
        """
        first = next((each for each in self._requests_of if each.answers(self._step, method, url)), None)
        return first is not None and first.route.patch is None

    def decide(self, method: str, url: str, body: bytes | None) -> Answering | None:
        """Decide about a request, and count it; None: it passes."""
        for each in self._requests_of:
            if each.answers(self._step, method, url):
                if decision := self._decide(each, method, url, body):
                    return decision
                continue
            each.late += each.pattern.matches(method, url) and not each.route.lasts_at(self._step)
        return None

    def _decide(self, armed: ArmedRoute, method: str, url: str, body: bytes | None) -> Answering | None:
        """The decision of one route; None if its HAR file lets the request pass."""
        if armed.route.patch is not None:
            armed.pending += 1
            return Answering(armed, None)
        har, why = armed.route.from_har, ""
        try:
            answer = armed.source.find(method, url, body)
        except NoAnswerError as error:
            why = f"{har}: {error}" if har else str(error)
        except Exception as error:  # noqa: BLE001 - a defect of ours, or of a file, must not hang the request
            why = f"{type(error).__name__}: {error}"
        else:
            if answer is not None:
                self._count(armed, method, url, answer.status)
                return Answering(armed, answer)
            if armed.route.missing == "pass":
                return None
            why = f"{har} has no answer to it"
        self._tell_problem(armed, method, url, why)
        return Answering(armed, None)

    def _count(self, armed: ArmedRoute, method: str, url: str, status: int) -> None:
        armed.count += 1
        armed.note(self._step, method, url, status)

    def _tell_problem(self, armed: ArmedRoute, method: str, url: str, why: str) -> None:
        har = armed.route.from_har
        armed.problem = f"route {armed.number} could not answer {method} {url}: {why}"
        details = {"url": url, "method": method, "route": armed.number, **({"har": har} if har else {})}
        reached = armed.route.patch is not None or armed.route.for_sockets  # the site got it, perhaps
        effect = Effect.DONE if reached else Effect.NONE
        self._problems.append(Failure("ROUTE_UNANSWERED", armed.problem, details=details, effect=effect))

    def patched(self, decision: Answering, method: str, url: str, answer: RouteAnswer | None, why: str = "") -> None:
        """A site has answered, and the answer was changed; without one the reason, which is empty if no answer came."""
        decision.armed.pending -= 1
        if answer is not None:
            self._count(decision.armed, method, url, answer.status)
        elif why:
            self._tell_problem(decision.armed, method, url, why)

    def take_problem(self) -> Failure | None:
        """The first request that could not be answered since the last call."""
        found = self._problems[0] if self._problems else None
        self._problems.clear()
        return found

    def results(self) -> tuple[MetRoute, ...]:
        """What became of each route, in the order of the file."""
        return tuple(each.result() for each in self._armed)

    def route_of(self, url: str, taken: set[int]) -> ArmedRoute | None:
        """The route that acts on a WebSocket now; `taken`: the numbers of those that have taken it before."""
        for each in self._sockets_of:
            fits = each.pattern.matches(MESSAGE, url) and each.route.lasts_at(self._step)
            if fits and (each.number in taken or not each.spent):
                return each
        return None

    def did(self, armed: ArmedRoute, url: str, what: str) -> None:
        """A route has done something about a WebSocket."""
        armed.note(self._step, MESSAGE, url, 101, what)

    def refused(self, armed: ArmedRoute, url: str, why: str) -> None:
        """A route could not do about a message what it declares: the message is lost."""
        self._tell_problem(armed, MESSAGE, url, why)

    async def wait(self, seconds: float) -> bool:
        """Delay an answer, but not beyond the end of the session. Return whether the session goes on."""
        if seconds:
            await bounded(self._ended.wait(), seconds, None)
        return not self._ended.is_set()

    async def end(self) -> None:
        """End all delays: the session closes."""
        self._ended.set()
        if self._patching is not None:
            await self._patching.end()

    async def install(self, context: BrowserContext, watch: PageEvents, world: str) -> None:
        """Answer the requests of a context; `watch` learns which ones never reach a site."""
        watch.promised = self.answers
        patterns = [browser_pattern(each.route.url) for each in self._armed if each.route.patch is not None]
        if patterns:
            self._patching = self._patching or Patching(world, self.wait)
            await self._patching.install(context, patterns)

        async def handle(route: Intercepted) -> None:
            try:
                await self._respond(route, watch)
            except PlaywrightError:
                return  # the page closed while its request was handled
            except Exception as error:  # noqa: BLE001 - a defect of ours must not let the request wait for ever
                self._problems.append(Failure("ROUTE_UNANSWERED", f"{type(error).__name__}: {error}", cause=error))
                with contextlib.suppress(PlaywrightError):
                    await route.abort("failed")

        if self._requests_of:
            await context.route("**/*", handle)
        if self._sockets_of:
            await self._take_sockets(context, watch)

    async def _take_sockets(self, context: BrowserContext, watch: PageEvents) -> None:
        """Stand between the pages of a context and the servers of their WebSockets."""

        def handle(socket: WebSocketRoute) -> None:
            self._sockets[:] = [each for each in self._sockets if not each.closed]
            self._sockets.append(made := RoutedSocket(socket, watch, self))
            for each in self._sockets_of:
                each.late += each.pattern.matches(MESSAGE, socket.url) and not each.route.lasts_at(self._step)
            made.open()

        patterns = "|".join(socket_pattern(each.route.url) for each in self._sockets_of)
        await context.route_web_socket(re.compile(patterns, re.IGNORECASE), handle)

    async def _respond(self, route: Intercepted, watch: PageEvents) -> None:
        request = route.request
        decision = self.decide(request.method, request.url, request.post_data_buffer)
        if decision is None:
            await route.fallback()
            return
        if decision.patch is not None and self._patching is not None:

            def done(answer: RouteAnswer | None, why: str) -> None:
                self.patched(decision, request.method, request.url, answer, why)
                if answer is not None or why:
                    watch.patched(request, decision.number)

            self._patching.expect(Awaited(request, decision.patch, decision.delay, done))
            await route.fallback()
            return
        watch.routed(request, decision.number)
        if decision.answer is None:
            await route.abort("failed")
            return
        await self.wait(decision.delay)
        answer = decision.answer
        await route.fulfill(status=answer.status, headers=dict(answer.headers), body=answer.body)
