"""Faults that last: on the pages that are open, on all that come after, and in a context that takes the place of this.

Each is laid on a context and lifted again; both may find a browser that does not answer, and raise what Playwright
raises. The caller bounds them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from playwright.async_api import BrowserContext, Frame, Route
from playwright.async_api import Error as PlaywrightError

from harness.model.ports import Injection
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import Abort, AlertOnLoad, Dns, Late

# The scripts that faults put into pages: texts of the files in `scripts/`, made ready for one fault.

TOLD_BY = "__harness_met"
"""The function by which a script says that it has had an effect; it exists only where a fault was laid."""
_SAME = {"late": "missing"}
_FOLDER = Path(__file__).parent / "scripts"


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.js").read_text("utf-8")


def laying(kind: str, number: str, settings: Mapping[str, Any]) -> str:
    """What lays a fault of this kind on a document, once; `number` tells it from the others of its task."""
    watch, lay, make = (_source(name) for name in ("watch", "lay", _SAME.get(kind, kind)))
    given = f"{json.dumps(number)}, {json.dumps(settings)}"
    return f"(() => {{\nconst watch = ({watch});\n({lay})(({make}), {given});\n}})()"


def lifting(number: str) -> str:
    """What undoes that on a document."""
    return f"({_source('lift')})({json.dumps(number)})"


Met = Callable[[], None]


class StandingFault(Protocol):
    """One lasting fault."""

    async def lay(self, context: BrowserContext) -> None: ...

    async def lift(self, context: BrowserContext) -> None: ...


class Told:
    """Hears what the scripts of faults say of their effects. One for each session."""

    def __init__(self) -> None:
        self._mets: dict[str, Met] = {}
        self._hearing: BrowserContext | None = None

    async def hear(self, context: BrowserContext, number: str, met: Met) -> None:
        """From now on call `met` for each document in which this fault has an effect."""
        self._mets[number] = met
        if self._hearing is not context:
            await context.expose_binding(TOLD_BY, self._tell)
            self._hearing = context

    def forget(self, number: str) -> None:
        self._mets.pop(number, None)

    def _tell(self, _: Any, number: str) -> None:
        if met := self._mets.get(number):
            met()


class InDocuments:
    """A script in every document of the context."""

    def __init__(self, strike: Injection, number: str, told: Told) -> None:
        self._strike, self._number, self._told = strike, number, told
        self._script = laying(strike.fault.kind, number, _settings(strike, number))
        self._installed = AsyncExitStack()

    async def lay(self, context: BrowserContext) -> None:
        """Raises Failed for a selector that is none."""
        await self._told.hear(context, self._number, self._strike.met)
        self._installed = AsyncExitStack()  # what was put into another context went with it
        await self._installed.enter_async_context(await context.add_init_script(self._script))
        if isinstance(self._strike.fault, AlertOnLoad):
            return  # the pages that are there have loaded
        problems = await _in_frames(context, self._script)
        if any("is not a valid selector" in problem for problem in problems):
            await self.lift(context)
            fault = self._strike.fault
            message = f"fault {fault.kind}: `selector` is {fault.target!r}, which is no CSS selector"
            raise Failed(Failure("INVALID_INPUT", message))

    async def lift(self, context: BrowserContext) -> None:
        self._told.forget(self._number)
        await self._installed.aclose()
        await _in_frames(context, lifting(self._number))


def _settings(strike: Injection, number: str) -> dict[str, Any]:
    """What the fault's script reads. Only `late` ends by itself: the others are lifted from here."""
    keys = {"selector", "message", "by"} | ({"seconds"} if isinstance(strike.fault, Late) else set())
    return strike.fault.model_dump(include=keys) | {"id": number, "seed": str(strike.random.random())}


async def _in_frames(context: BrowserContext, script: str) -> list[str]:
    """Run a script in every frame there is; what went wrong. A frame that is just being replaced is left to others."""
    frames = [frame for page in context.pages for frame in page.frames]
    found = await asyncio.gather(*(_problem(frame, script) for frame in frames))
    return [problem for problem in found if problem]


async def _problem(frame: Frame, script: str) -> str:
    try:
        await frame.evaluate(script)
    except PlaywrightError as error:
        return error.message
    return ""


class OfflineContext:
    """No network."""

    def __init__(self, strike: Injection) -> None:
        self._met: Met | None = strike.met

    async def lay(self, context: BrowserContext) -> None:
        await context.set_offline(True)
        if self._met:
            self._met()
        self._met = None  # it goes on in the next context

    async def lift(self, context: BrowserContext) -> None:
        await context.set_offline(False)


class BrokenRequests:
    """Requests that end with a network error in the browser. The fault's own pattern decides (`Strike.takes`).

    Not seen here: what a redirect leads to, WebSockets, and requests that are no page's (`api`).
    """

    def __init__(self, strike: Injection) -> None:
        fault = strike.fault
        assert isinstance(fault, Dns | Abort)
        self._takes = strike.takes
        self._error = "namenotresolved" if isinstance(fault, Dns) else fault.error.replace("_", "")

    async def lay(self, context: BrowserContext) -> None:
        await context.route("**/*", self._judge)

    async def lift(self, context: BrowserContext) -> None:
        await context.unroute("**/*", self._judge)

    async def _judge(self, route: Route) -> None:
        try:
            if self._takes((route.request.url,)):
                await route.abort(self._error)
            else:
                await route.fallback()
        except PlaywrightError:
            return  # the page has gone away with its request
