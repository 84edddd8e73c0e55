"""The rival without a framework: Playwright's async API, a context for each task, nothing recorded.

As a program: `python -m benchmarks.raw FILE` does the work of a file, so many tasks at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import APIResponse, Browser, Page, async_playwright, expect
from playwright.async_api import Error as PlaywrightError

from benchmarks.workload import MISSING, PATIENCE, PICTURE, Act, Job, Kind, from_json

DOING: dict[Kind, Callable[[Page, Act], Awaitable[object]]] = {
    "open": lambda page, act: page.goto(act.target),
    "fill": lambda page, act: page.locator(act.target).fill(act.value),
    "press": lambda page, act: page.locator(act.target).press(act.value),
    "select": lambda page, act: page.locator(act.target).select_option(act.value),
    "check": lambda page, act: page.locator(act.target).check(),
    "uncheck": lambda page, act: page.locator(act.target).uncheck(),
    "wait": lambda page, act: page.locator(act.target).first.wait_for(),
    "click": lambda page, act: page.locator(act.target).click(
        timeout=PATIENCE * 1000 if act.target == MISSING else None
    ),
    "text": lambda page, act: expect(page.locator(act.target)).to_have_text(act.value),
    "upload": lambda page, act: page.locator(act.target).set_input_files(PICTURE.parent / act.value),
    "api": lambda page, act: _text_of(page.request.get(act.target)),
}
"""Each kind of step as the documentation of Playwright shows it."""


async def _text_of(asked: Awaitable[APIResponse]) -> str:
    return await (await asked).text()


async def task(browser: Browser, job: Job, agent: str) -> bool:
    """Open a context and a page, do all steps, and close everything; return whether the task passed."""
    context = await browser.new_context(
        user_agent=f"{agent} harness-world/raw-{os.getpid()}-{job.name}",
        viewport={"width": 1280, "height": 720},
    )
    try:
        page = await context.new_page()
        for act in job.steps:
            await DOING[act.kind](page, act)
    except (PlaywrightError, AssertionError):
        return False
    finally:
        await context.close()
    return True


@dataclass(frozen=True, slots=True)
class Order:
    """The order for the program."""

    work: tuple[Job, ...]
    at_once: int
    executable: str
    args: list[str]
    agent: str


async def all_of(order: Order) -> dict[str, Any]:
    """Do the work; return a document like a witness's of pytest."""
    began = time.time()
    results: dict[str, list[dict[str, str]]] = {}
    waiting = list(reversed(order.work))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=order.executable, args=order.args)

        async def worker() -> None:
            while waiting:
                job = waiting.pop()
                passed = await task(browser, job, order.agent)
                results[job.name] = [{"outcome": "passed" if passed else "failed"}]

        await asyncio.gather(*(worker() for _ in range(order.at_once)))
        ended = time.time()
        await browser.close()
    return {"began": began, "ended": ended, "results": results}


def main(arguments: Sequence[str]) -> None:
    """Run the order in the JSON file; write the result where a witness would."""
    document = json.loads(Path(arguments[0]).read_text("utf-8"))
    order = Order(from_json(document.pop("work")), **document)
    Path(os.environ["BENCH_WITNESS"]).write_text(json.dumps(asyncio.run(all_of(order))), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
