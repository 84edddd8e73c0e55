"""What a failure is judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from playwright.async_api import CDPSession, Page

from harness.browser.chromium import Chromium
from harness.browser.watch import PageWatch
from harness.resilience import Clock
from harness.spec.steps import Open, Step, Wait


@dataclass(frozen=True, slots=True)
class Scene:
    """All that may be looked at to name a failure."""

    page: Page
    watch: PageWatch
    chromium: Chromium
    control: CDPSession
    """The standing session to the page."""
    driver_alive: Callable[[], bool]
    clock: Clock
    policed: bool
    """Whether allowed_domains hold."""
    selector: str | None = None
    frame: str | None = None
    acts: bool = False
    """Whether the step may change something."""
    opens: bool = False
    """Whether the step is a navigation of its own."""
    waits: bool = False
    """Whether the step only waits: then being late is all that can go wrong."""
    within: float = 0.0
    what: str = ""
    patience: float = 0.0

    def of_step(self, step: Step, patience: float) -> Scene:
        """The same scene, with a step in it."""
        target = step.target
        return replace(
            self,
            selector=target,
            frame=getattr(step, "frame", None),
            acts=not step.looks_only,
            opens=isinstance(step, Open),
            waits=isinstance(step, Wait),
            what=_what(step, target),
            patience=min(patience, self.within),
        )


def _what(step: Step, target: str | None) -> str:
    if target is None:
        return step.describe()
    return f"wait for {target}" if isinstance(step, Wait) else f"{step.act} {target}"
