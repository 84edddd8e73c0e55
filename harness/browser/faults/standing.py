"""Faults that last: on open pages, on later pages, and in a context that replaces this one.

Each is injected into a context and undone again; both may meet a browser that does not answer, and raise Playwright's
errors. The caller limits the time.
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

from harness.browser.offline import go_offline, go_online
from harness.model.ports import Injection
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import Abort, AlertOnLoad, Dns, Late

# The scripts that faults put into pages: texts of the files in `scripts/`, filled in for one fault.

_TOLD_BY = "__harness_met"
"""The function by which a script reports an effect; it exists only where a fault was injected."""
_SAME = {"late": "missing"}
_FOLDER = Path(__file__).parent / "scripts"


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.js").read_text("utf-8")


def _injection_script(kind: str, number: str, settings: Mapping[str, Any]) -> str:
    """The script that injects a fault of this kind into a document, once; `number` identifies it in the task."""
    watch, lay, make = (_source(name) for name in ("watch", "lay", _SAME.get(kind, kind)))
    given = f"{json.dumps(number)}, {json.dumps(settings)}"
    return f"(() => {{\nconst watch = ({watch});\n({lay})(({make}), {given});\n}})()"


def _removal_script(number: str) -> str:
    """The script that undoes it in a document."""
    return f"({_source('lift')})({json.dumps(number)})"


_Met = Callable[[], None]


class StandingFault(Protocol):
    """One lasting fault."""

    async def install(self, context: BrowserContext) -> None: ...

    async def remove(self, context: BrowserContext) -> None: ...


class EffectReports:
    """Receives the reports of the faults' scripts. There is one for each session."""

    def __init__(self) -> None:
        self._mets: dict[str, _Met] = {}
        self._hearing: BrowserContext | None = None

    async def subscribe(self, context: BrowserContext, number: str, met: _Met) -> None:
        """Call `met` from now on for each document in which this fault has an effect."""
        self._mets[number] = met
        if self._hearing is not context:
            await context.expose_binding(_TOLD_BY, self._tell)
            self._hearing = context

    def forget(self, number: str) -> None:
        self._mets.pop(number, None)

    def _tell(self, _: Any, number: str) -> None:
        if met := self._mets.get(number):
            met()


class InDocuments:
    """A fault that is a script in every document of the context."""

    def __init__(self, strike: Injection, number: str, told: EffectReports) -> None:
        self._strike, self._number, self._told = strike, number, told
        self._script = _injection_script(strike.fault.kind, number, _settings(strike, number))
        self._installed = AsyncExitStack()

    async def install(self, context: BrowserContext) -> None:
        """Raises Failed for an invalid selector."""
        await self._told.subscribe(context, self._number, self._strike.met)
        self._installed = AsyncExitStack()  # the scripts in the other context ended with it
        await self._installed.enter_async_context(await context.add_init_script(self._script))
        if isinstance(self._strike.fault, AlertOnLoad):
            return  # the pages that exist have loaded
        problems = await _in_frames(context, self._script)
        if any("is not a valid selector" in problem for problem in problems):
            await self.remove(context)
            fault = self._strike.fault
            message = f"fault {fault.kind}: `selector` is {fault.target!r}, which is not a CSS selector"
            raise Failed(Failure("INVALID_INPUT", message))

    async def remove(self, context: BrowserContext) -> None:
        self._told.forget(self._number)
        await self._installed.aclose()
        undo = _removal_script(self._number)
        if await _in_frames(context, undo):
            await _in_frames(context, undo)  # a frame was just being replaced, and its new document may have the fault


def _settings(strike: Injection, number: str) -> dict[str, Any]:
    """The settings that the fault's script reads. Only `late` ends by itself: the others are undone from here."""
    keys = {"selector", "message", "by"} | ({"seconds"} if isinstance(strike.fault, Late) else set())
    return strike.fault.model_dump(include=keys) | {"id": number, "seed": str(strike.random.random())}


async def _in_frames(context: BrowserContext, script: str) -> list[str]:
    """Run a script in every frame; returns the errors. A frame that is just being replaced is skipped."""
    frames = [frame for page in context.pages for frame in page.frames]
    found = await asyncio.gather(*(_problem(frame, script) for frame in frames))
    return [problem for problem in found if problem]


async def _problem(frame: Frame, script: str) -> str:
    try:
        await frame.evaluate(script)
    except PlaywrightError as error:
        return error.message
    return ""


_FAULT = "fault"
"""Why a context is offline."""


class OfflineContext:
    """A context without a network."""

    def __init__(self, strike: Injection) -> None:
        self._met: _Met | None = strike.met

    async def install(self, context: BrowserContext) -> None:
        await go_offline(context, _FAULT)
        if self._met:
            self._met()
        self._met = None  # it continues in the next context

    async def remove(self, context: BrowserContext) -> None:
        await go_online(context, _FAULT)


class BrokenRequests:
    """Requests that end with a network error in the browser. The fault's own pattern decides (`Injection.takes`).

    It does not see targets of redirects, WebSockets, and requests that no page sends (`api`).
    """

    def __init__(self, strike: Injection) -> None:
        fault = strike.fault
        assert isinstance(fault, Dns | Abort)
        self._takes = strike.takes
        self._error = "namenotresolved" if isinstance(fault, Dns) else fault.error.replace("_", "")

    async def install(self, context: BrowserContext) -> None:
        await context.route("**/*", self._judge)

    async def remove(self, context: BrowserContext) -> None:
        await context.unroute("**/*", self._judge)

    async def _judge(self, route: Route) -> None:
        try:
            if self._takes((route.request.url,)):
                await route.abort(self._error)
            else:
                await route.fallback()
        except PlaywrightError:
            return  # the page closed while its request was handled
