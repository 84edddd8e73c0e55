"""Faults of the browser: pages and processes that crash, hang, stop or are killed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.spec.faults.base import LONGEST, StepFault


class PageCrash(StepFault):
    """The page's process crashes."""

    kind: Literal["page_crash"] = "page_crash"


class EndlessLoop(StepFault):
    """A script of the page does not end."""

    kind: Literal["endless_loop"] = "endless_loop"


class BrowserStop(StepFault):
    """The browser's processes are stopped (SIGSTOP), and go on after some seconds."""

    kind: Literal["browser_stop"] = "browser_stop"
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, they never go on, in seconds."
    )


class BrowserKill(StepFault):
    """The browser's process is killed (SIGKILL)."""

    kind: Literal["browser_kill"] = "browser_kill"


class DriverKill(StepFault):
    """Playwright's driver process is killed, and with it every browser of the run."""

    kind: Literal["driver_kill"] = "driver_kill"
