"""The contestants that do one task after the other in this process: raw Playwright, and the harness as it records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from playwright.async_api import Browser, async_playwright

from benchmarks import raw
from benchmarks.ground import Ground, our_project
from benchmarks.traffic import TRAFFIC
from benchmarks.workload import Job
from harness.model.settings import Recording, load_settings
from harness.runner.compile import compile_plan
from harness.runner.loop import LoopThread
from harness.runner.sync import SyncHarness
from harness.spec.load import load_file

RAW = "raw"
RECORDINGS: tuple[Recording, ...] = ("minimal", "auto")


@dataclass(frozen=True, slots=True)
class Contestant:
    """A contestant; `do` does a job, and raises RuntimeError if the job does not end as it should."""

    name: str
    do: Callable[[Job], None]

    def timed(self, job: Job) -> float:
        """Seconds for a job."""
        began = time.perf_counter()
        self.do(job)
        return time.perf_counter() - began

    def calls(self, job: Job) -> Counter[str]:
        """The messages to Playwright's driver by name."""
        before = Counter(TRAFFIC.methods)
        self.do(job)
        return TRAFFIC.methods - before


@contextmanager
def contestants(
    ground: Ground, work: Sequence[Job], first: Sequence[Job] | None = None
) -> Iterator[dict[str, Contestant]]:
    """All contestants by name; each has its own browser, and has done each job once to warm up, or those of `first`."""
    project = our_project(ground, work)
    with ExitStack() as stack:
        found = [stack.enter_context(_raw(ground))]
        found += [stack.enter_context(_ours(ground, project, recording)) for recording in RECORDINGS]
        for contestant in found:
            for job in work if first is None else first:
                contestant.do(job)
        yield {each.name: each for each in found}


@contextmanager
def _raw(ground: Ground) -> Iterator[Contestant]:
    loop = LoopThread()
    manager = async_playwright()
    playwright = loop.call(manager.start())
    browser: Browser = loop.call(playwright.chromium.launch(executable_path=ground.executable, args=ground.args))

    def do(job: Job) -> None:
        if loop.call(raw.task(browser, job, ground.agent)) is job.fails:
            raise RuntimeError(f"raw: {job.name} did not end as it should")

    yield Contestant(RAW, do)
    loop.call(browser.close())
    loop.call(playwright.stop())
    loop.close()


@contextmanager
def _ours(ground: Ground, project: Path, recording: Recording) -> Iterator[Contestant]:
    """The harness in this process, set up as pytest and the CLI do it."""
    browser = {"executable": str(ground.executable)}
    settings = load_settings(project, recording=recording, browser=browser, artifacts=Path("errors"))
    harness = SyncHarness(settings)
    loaded: dict[str, Any] = {}

    def do(job: Job) -> None:
        if job.name not in loaded:
            loaded[job.name] = load_file(project / "tasks" / f"{job.name}.task.yaml")
        plan = compile_plan(loaded[job.name], settings=settings, run_id=harness.run_id)
        result = harness.run(plan, lambda _event: None)
        if (result.failure is not None) is not job.fails:
            raise RuntimeError(f"{recording}: {job.name} did not end as it should: {result.failure}")

    try:
        yield Contestant(cast("str", recording), do)
    finally:
        harness.close()
