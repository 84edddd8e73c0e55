"""The act `tool` with `server: page`: the tools that the page itself offers to agents (WebMCP).

Only the tools of the main frame count, as Playwright's `page.webmcp` has them (docs/decisions/027-webmcp.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, WebMCPTool
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.attempt import ActContext
from harness.browser.executable import WEBMCP
from harness.browser.isolated import script
from harness.browser.page_events import LoggedLine
from harness.browser.queries import LEAST_SECONDS
from harness.model.tools import ToolAnswer, ToolDescription, ToolHints
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline, poll_until
from harness.spec.steps import Tool
from harness.values import replace

ANSWER = "answer"
"""The key of the answer in the details of the act."""
_APPEAR_SECONDS = 2.0
"""Seconds for a page to offer a tool: one that has just come registers its tools a moment later."""
_NAVIGATION_START = 0.1
"""Seconds within which the request for another page appears."""
LARGEST = 2_000_000
"""Characters of an answer, as JSON."""
_SHOWN = 20
"""The number of tools that a failure lists."""
_LEFT = "Execution context was destroyed"
_THREW = "Tool was executed but the invocation failed"
_VANISHED = re.compile(r"No WebMCP tool named|is not registered in this frame|unknown transient reason")
"""The words of Playwright and of Chromium about a tool that the page has taken back."""
_NOT_ENABLED = "WebMCP is not enabled"
_SAID = re.compile(r"WebMCP tool execution failed: (?:Uncaught )?(?P<why>.*)", re.S)
"""How Chromium's console tells what a tool has thrown."""
_SUPPORT = script(
    "webmcp",
    "() => ({there: !!(document.modelContext || navigator.modelContext), secure: isSecureContext, "
    "address: location.href})",
)


async def offered(page: Page, awaited: str | None, until: Deadline, clock: Clock) -> tuple[ToolDescription, ...]:
    """The tools that the page offers now, or as soon as the awaited one is among them. The caller limits the time.

    Raises Failed (WEBMCP_MISSING) where there can be none, and Playwright's errors.
    """
    patience = Deadline.after(min(_APPEAR_SECONDS, until.left(clock.now()) / 2), clock.now())
    while True:
        found = await _known(page, until, clock)
        there = awaited is None or any(tool.name == awaited for tool in found)
        if there or patience.left(clock.now()) <= 0:
            return found
        await clock.sleep(0.05)


async def _known(page: Page, until: Deadline, clock: Clock) -> tuple[ToolDescription, ...]:
    """The tools now; of a page that is being replaced, those of the new one."""
    while True:
        try:
            return await _listed(page, max(LEAST_SECONDS, until.left(clock.now())))
        except PlaywrightError as error:
            if _NOT_ENABLED in error.message:
                raise Failed(Failure("WEBMCP_MISSING", _WITHOUT, advice=_ENABLE)) from error
            if _LEFT not in error.message:
                raise
        await clock.sleep(0.02)


_WITHOUT = f"the browser of this task was started without {WEBMCP}"
_ENABLE = "Add the table `[tool.harness.tools.page]`, or a step with `server: page`, so that it is enabled."


async def _listed(page: Page, seconds: float) -> tuple[ToolDescription, ...]:
    found = await page.webmcp.tools(timeout=1000 * seconds)
    if not found:
        browser = page.context.browser
        version = f"Chromium {browser.version}" if browser else "the browser"
        if lacking := missing(await _SUPPORT.of_page(page, None, seconds), version):
            raise Failed(lacking)
    return tuple(map(described, found))


def missing(support: Mapping[str, Any], browser: str) -> Failure | None:
    """The failure if the page can offer no tools, whatever it does. Pure."""
    if support["there"]:
        return None
    details = {"url": support["address"]}
    if not support["secure"]:
        message = f"{support['address']} can offer no tools: browsers have {WEBMCP} only in secure contexts"
        advice = "Open the page over https, also a host of `[tool.harness.services]`, or on 127.0.0.1 or localhost."
        return Failure("WEBMCP_MISSING", message, details=details, advice=advice)
    message = f"{browser} has no {WEBMCP}, so {support['address']} can offer no tools"
    return Failure("WEBMCP_MISSING", message, details=details)


def described(tool: WebMCPTool) -> ToolDescription:
    """A tool as the page registered it. Pure."""
    schema, hints = tool.get("inputSchema"), tool.get("annotations") or {}
    return ToolDescription(
        tool["name"],
        tool.get("description", ""),
        schema if isinstance(schema, Mapping) else {},
        ToolHints(read_only=hints.get("readOnly"), consequential=hints.get("consequential")),
    )


async def call_tool(attempt: ActContext, step: Tool) -> Mapping[str, Any]:
    """Call a tool of the page, waiting for the page to offer it.

    A page that leaves for another one takes its answer along: `{"navigated": <address>}` is the answer then.
    """
    clock, watch = attempt.clock, attempt.tab.watch
    names = await _names(attempt, step.tool)
    if step.tool not in names:
        raise Failed(unknown(step.tool, names))
    began, lines = clock.now(), watch.lines.dropped + len(watch.lines)
    try:
        result = await attempt.page.webmcp.call_tool(step.tool, dict(step.arguments), timeout=attempt.ms())
    except PlaywrightTimeoutError as error:
        raise TimeoutError from error  # the call was sent, so it may take effect; Playwright's words do not say so
    except PlaywrightError as error:
        if _THREW in error.message:
            thrown = thrown_text(list(watch.lines)[max(0, lines - watch.lines.dropped) :])
            return {ANSWER: ToolAnswer(thrown or _THREW, is_error=True, seconds=clock.now() - began)}
        if _VANISHED.search(error.message):
            raise Failed(unknown(step.tool, await _names(attempt, None))) from error
        if not (_LEFT in error.message and await _navigated(attempt)):
            raise
        result = {"navigated": attempt.page.url}
    if result is None and await _navigated(attempt):  # a form that is a tool
        result = {"navigated": attempt.page.url}
    return {ANSWER: answer_of(step.tool, result, clock.now() - began)}


async def _names(attempt: ActContext, awaited: str | None) -> tuple[str, ...]:
    found = await offered(attempt.page, awaited, attempt.deadline, attempt.clock)
    return tuple(tool.name for tool in found)


async def _navigated(attempt: ActContext) -> bool:
    """Return whether the call has led to another page, which is there then, or is not to come."""
    watch = attempt.tab.watch
    left = await poll_until(attempt.clock, lambda: watch.frame.navigation is not None, 0.01, _NAVIGATION_START)
    if left:
        await watch.frame.settled()
    return left


def unknown(name: str, known: Sequence[str]) -> Failure:
    """The failure if the page offers no tool of that name. Pure."""
    shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
    offers = f"it offers {shown}" if known else "it offers none"
    details = {"tool": name, "tools": list(known[:_SHOWN]), "similar": get_close_matches(name, known, n=3)}
    return Failure("TOOL_UNKNOWN", f"the page offers no tool {name!r}: {offers}", details=details)


def thrown_text(lines: Sequence[LoggedLine]) -> str:
    """What a tool has thrown, by the console; empty if it does not say. Pure."""
    said = (_SAID.match(line.text) for line in reversed(lines))
    return next((found["why"] for found in said if found), "")


def answer_of(tool: str, result: Any, seconds: float) -> ToolAnswer:
    """The answer by what a tool has returned: the form of MCP, a text, or any other JSON value. Pure.

    Raises Failed (TOOL_PROTOCOL) for one that is too large.
    """
    size = len(json.dumps(result, ensure_ascii=False, default=str))
    if size > LARGEST:
        message = f"the page's tool {tool!r} answered with {size:,} characters; at most {LARGEST:,} are taken"
        raise Failed(Failure("TOOL_PROTOCOL", message, details={"tool": tool}, effect=Effect.DONE))
    if not (isinstance(result, dict) and isinstance(result.get("content"), list)):
        text = result if isinstance(result, str) else "" if result is None else json.dumps(result, default=str)
        return ToolAnswer(text, None if isinstance(result, str) else result, seconds=seconds)
    parts = (each for each in result["content"] if isinstance(each, dict) and each.get("type") == "text")
    text = "\n".join(str(each.get("text", "")) for each in parts)
    return ToolAnswer(text, result.get("structuredContent"), bool(result.get("isError")), seconds)


def tool_failure(tool: str, failure: Failure) -> Failure:
    """The failure of a call: a page that answers while the tool does not is the tool's fault. Pure.

    The tool goes on in the page: its call cannot be taken back, but the page can be used.
    """
    if failure.code != "STEP_TIMEOUT":
        return failure
    message = f"the page's tool {tool!r} gave no answer: {failure.message.removeprefix('Step timeout: ')}"
    return replace(failure, code="TOOL_TIMEOUT", message=message, tainted=False)
