"""Changes the answers of sites by the `patch` of routes, as they come and before a page sees them.

The request leaves the browser like any other, so that faults strike it, `hold` stops it, and its write is known. The
answer is stopped by the browser's own control session, which has those of all pages and frames.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from playwright.async_api import BrowserContext, CDPSession, Request
from playwright.async_api import Error as PlaywrightError

from harness.browser.route_answers import NoAnswerError, PatchedAnswer, RouteAnswer
from harness.spec.url_patterns import plain


class Awaited(Struct):
    """A request whose answer is to be changed."""

    request: Request
    patch: PatchedAnswer
    delay: float
    done: Callable[[RouteAnswer | None, str], None]
    """Called with the changed answer; or with None and the reason why there is none, which may be empty."""


class Patching:
    """The answers to requests of one world that are to be changed, in the browser of its present context."""

    def __init__(self, world: str, wait: Callable[[float], Any]) -> None:
        self._world, self._wait = world, wait
        self._control: CDPSession | None = None
        self._awaited: list[Awaited] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def install(self, context: BrowserContext, patterns: list[str]) -> None:
        """Stop the answers in the browser of this context. Raises Playwright's errors."""
        await self.end()
        assert context.browser is not None  # every context is one of `new_context`
        self._control = control = await context.browser.new_browser_cdp_session()
        control.on("Fetch.requestPaused", self._on_answer)
        asked = [{"urlPattern": pattern, "requestStage": "Response"} for pattern in patterns]
        await control.send("Fetch.enable", {"patterns": asked})

    async def end(self) -> None:
        """Let go of all answers. It never raises."""
        for task in self._tasks:
            task.cancel()
        control, self._control, self._awaited = self._control, None, []
        if control is not None:
            try:
                await control.detach()
            except PlaywrightError:
                return  # the browser is gone

    def expect(self, awaited: Awaited) -> None:
        """The answer to a request that leaves now is to be changed."""
        self._awaited.append(awaited)

    def _on_answer(self, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._answered(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answered(self, event: Mapping[str, Any]) -> None:
        control, number = self._control, event["requestId"]
        if control is None:
            return
        awaited = self._take(event)
        try:
            if awaited is None or "responseErrorReason" in event:
                await control.send("Fetch.continueRequest", {"requestId": number})
                if awaited is not None:
                    awaited.done(None, "")
                return
            try:
                answer = await self._changed(control, event, awaited)
            except NoAnswerError as error:
                awaited.done(None, str(error))
                await control.send("Fetch.failRequest", {"requestId": number, "errorReason": "Failed"})
                return
            awaited.done(answer, "")
            given = {
                "responseCode": answer.status,
                "responseHeaders": [
                    {"name": name, "value": each}
                    for name, value in answer.headers.items()
                    for each in value.split("\n")
                ],
                "body": base64.b64encode(answer.body).decode(),
            }
            await control.send("Fetch.fulfillRequest", {"requestId": number, **given})
        except PlaywrightError:
            return  # the page is gone

    async def _changed(self, control: CDPSession, event: Mapping[str, Any], awaited: Awaited) -> RouteAnswer:
        headers: dict[str, str] = {}
        for each in event.get("responseHeaders", ()):
            name = each["name"]
            headers[name] = f"{headers[name]}\n{each['value']}" if name in headers else str(each["value"])
        status = int(event["responseStatusCode"])
        body = b""
        if not 300 <= status < 400:  # a redirect has none that could be read
            told = await control.send("Fetch.getResponseBody", {"requestId": event["requestId"]})
            body = base64.b64decode(told["body"]) if told["base64Encoded"] else told["body"].encode()
        await self._wait(awaited.delay)
        return awaited.patch.apply(RouteAnswer(status, headers, body))

    def _take(self, event: Mapping[str, Any]) -> Awaited | None:
        """The request that is answered, if its answer is to be changed. Another task's never is."""
        asked = event["request"]
        agent = next((value for name, value in asked["headers"].items() if name.lower() == "user-agent"), "")
        if not agent.endswith(f"harness-world/{self._world}"):
            return None
        key = asked["method"], asked["url"].partition("#")[0]
        for number, each in enumerate(self._awaited):
            if (each.request.method, each.request.url.partition("#")[0]) == key:
                return self._awaited.pop(number)
        return None


def browser_pattern(pattern: str) -> str:
    """A pattern for the browser that matches at least what a pattern of ours does; `?` and `\\` are special there."""
    bare = plain(pattern).partition("://")
    return f"*://{bare[2]}".replace("\\", "?") if bare[1] else pattern.replace("\\", "?")
