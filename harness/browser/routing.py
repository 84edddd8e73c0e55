"""Answers the requests of a task's pages and `api` steps by its `routes`, in every context that the task has."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import BrowserContext
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Route as Intercepted

from harness.browser.bounded import bounded
from harness.browser.page_events import PageEvents
from harness.browser.route_answers import (
    AnswerSource,
    DeclaredAnswer,
    Memory,
    NoAnswerError,
    RecordedAnswers,
    RouteAnswer,
)
from harness.model.record import MetRoute, RoutedRequest
from harness.recovery.failure import Failure
from harness.spec.routes import Route
from harness.spec.url_patterns import RequestPattern, UrlPattern

_KEPT = 100
"""The number of answered requests of one route that are kept for the report."""
_PROBLEMS = 20


class _Armed:
    """One route, and what it has answered so far."""

    def __init__(self, number: int, route: Route, source: AnswerSource) -> None:
        self.number, self.route, self.source = number, route, source
        self.pattern = RequestPattern(route.methods, UrlPattern.parse(route.url))
        self.count = 0
        self.late = 0
        """Requests that matched outside of its steps."""
        self.answered: list[RoutedRequest] = []
        self.problem = ""

    def answers(self, step: int, method: str, url: str) -> bool:
        """Return whether it answers this request now."""
        spent = self.route.times is not None and self.count >= self.route.times
        return not spent and self.pattern.matches(method, url) and self.route.lasts_at(step)


class Answering:
    """A decision about one request: the route that answers it, and the answer; without one the request is aborted."""

    def __init__(self, armed: _Armed, answer: RouteAnswer | None) -> None:
        self.number, self.delay, self.answer = armed.number, armed.route.delay, answer


class Routing:
    """The routes of one task. Counts go on when the context is replaced, and when the task goes back."""

    def __init__(self, routes: Sequence[Route], sources: Sequence[AnswerSource]) -> None:
        self._armed = [_Armed(number, *pair) for number, pair in enumerate(zip(routes, sources, strict=True))]
        self._step = -1
        self._problems: deque[Failure] = deque(maxlen=_PROBLEMS)
        self._ended = asyncio.Event()

    @classmethod
    async def of(cls, routes: Sequence[Route], folder: Path, memory: Memory) -> Routing:
        """Make the routes ready; `folder` is the task's. Raises Failed for a HAR file that cannot be used."""
        files = {route.from_har for route in routes if route.from_har is not None}
        recorded = {name: await asyncio.to_thread(RecordedAnswers, folder / name) for name in files}
        sources = [
            DeclaredAnswer(route, folder, memory) if route.from_har is None else recorded[route.from_har]
            for route in routes
        ]
        return cls(routes, sources)

    def begin_step(self, index: int) -> None:
        """A step begins, perhaps again; -1 stands for the preconditions, the number of steps for the criteria."""
        self._step = index

    def answers(self, method: str, url: str) -> bool:
        """Return whether a route would answer this request now; one that its HAR file does not have may pass."""
        return any(each.answers(self._step, method, url) for each in self._armed)

    def decide(self, method: str, url: str, body: bytes | None) -> Answering | None:
        """Decide about a request, and count it; None: it passes."""
        for each in self._armed:
            if each.answers(self._step, method, url):
                if decision := self._decide(each, method, url, body):
                    return decision
                continue
            each.late += each.pattern.matches(method, url) and not each.route.lasts_at(self._step)
        return None

    def _decide(self, armed: _Armed, method: str, url: str, body: bytes | None) -> Answering | None:
        """The decision of one route; None if its HAR file lets the request pass."""
        har, why = armed.route.from_har, ""
        try:
            answer = armed.source.find(method, url, body)
        except NoAnswerError as error:
            why = f"{har}: {error}" if har else str(error)
        except Exception as error:  # noqa: BLE001 - a defect of ours, or of a file, must not hang the request
            why = f"{type(error).__name__}: {error}"
        else:
            if answer is not None:
                armed.count += 1
                del armed.answered[_KEPT - 1 :]  # when the list is full, the last entry is replaced
                armed.answered.append(RoutedRequest(self._step, method, url, answer.status))
                return Answering(armed, answer)
            if armed.route.missing == "pass":
                return None
            why = f"{har} has no answer to it"
        armed.problem = f"route {armed.number} could not answer {method} {url}: {why}"
        details = {"url": url, "method": method, "route": armed.number, **({"har": har} if har else {})}
        self._problems.append(Failure("ROUTE_UNANSWERED", armed.problem, details=details))
        return Answering(armed, None)

    def take_problem(self) -> Failure | None:
        """The first request that could not be answered since the last call."""
        found = self._problems[0] if self._problems else None
        self._problems.clear()
        return found

    def results(self) -> tuple[MetRoute, ...]:
        """What became of each route, in the order of the file."""
        return tuple(
            MetRoute(each.number, each.route, each.count, tuple(each.answered), each.problem, each.late)
            for each in self._armed
        )

    async def wait(self, seconds: float) -> None:
        """Delay an answer, but not beyond the end of the session."""
        if seconds:
            await bounded(self._ended.wait(), seconds, None)

    def end(self) -> None:
        """End all delays: the session closes."""
        self._ended.set()

    async def install(self, context: BrowserContext, watch: PageEvents) -> None:
        """Answer the requests of a context; `watch` learns which ones never reach a site."""
        watch.promised = self.answers

        async def handle(route: Intercepted) -> None:
            try:
                await self._respond(route, watch)
            except PlaywrightError:
                return  # the page closed while its request was handled
            except Exception as error:  # noqa: BLE001 - a defect of ours must not let the request wait for ever
                self._problems.append(Failure("ROUTE_UNANSWERED", f"{type(error).__name__}: {error}", cause=error))
                with contextlib.suppress(PlaywrightError):
                    await route.abort("failed")

        await context.route("**/*", handle)

    async def _respond(self, route: Intercepted, watch: PageEvents) -> None:
        request = route.request
        decision = self.decide(request.method, request.url, request.post_data_buffer)
        if decision is None:
            await route.fallback()
            return
        watch.routed(request, decision.number)
        if decision.answer is None:
            await route.abort("failed")
            return
        await self.wait(decision.delay)
        answer = decision.answer
        await route.fulfill(status=answer.status, headers=dict(answer.headers), body=answer.body)
