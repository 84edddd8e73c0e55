"""What a failure is judged by."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from playwright.async_api import CDPSession, Page

from harness.browser.chromium import Chromium
from harness.browser.watch import PageWatch
from harness.resilience import Clock, Deadline
from harness.spec.names import ANYWHERE, Domains
from harness.spec.steps import Open, Step, Submit, Type, Wait

TEXT_LENGTH = 80
LOOK_SECONDS = 2.0
"""How long the page may be looked at while the attempt has time left."""
OVERTIME = 0.4
"""Seconds after the attempt's limit at which the last look ends (DESIGN 4.3: half a second at most)."""
SHORTEST_LOOK = 0.05


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
    until: Deadline
    """The end of the attempt."""
    domains: Domains = ANYWHERE
    """Where the task may go."""
    selector: str | None = None
    frame: str | None = None
    acts: bool = False
    """Whether the step may change something."""
    opens: bool = False
    """Whether the step is a navigation of its own."""
    waits: bool = False
    """Whether the step only waits: then being late is all that can go wrong."""
    fills: bool = False
    """Whether the step types into a field."""
    submits: bool = False
    """Whether the step submits a form: a script may do it, of which no call log tells."""
    within: float = 0.0
    what: str = ""
    text: str | None = None
    """The text that a `wait` wants."""
    patience: float = 0.0
    world: str = ""
    """The task's own."""
    logins: Collection[str] = ()
    """Where the task has typed a password: hosts, or pages (host and path)."""

    @property
    def look(self) -> float:
        """Seconds that the next look at page or browser may take."""
        now = self.clock.now()
        return max(SHORTEST_LOOK, min(LOOK_SECONDS, self.until.at + OVERTIME - now))

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
            fills=isinstance(step, Type),
            submits=isinstance(step, Submit),
            text=wanted_text(step) if isinstance(step, Wait) else None,
            what=_what(step, target),
            patience=min(patience, self.within),
        )


def _what(step: Step, target: str | None) -> str:
    if target is None:
        return step.describe()
    if not isinstance(step, Wait):
        return f"{step.act} {target}"
    text = wanted_text(step)
    return f"wait for {target}" + ("" if text is None else f" with text {shortened(text)!r}")


def wanted_text(step: Wait) -> str | None:
    """The text that the awaited element is to have; a whole number is written without a point."""
    return f"{step.value:g}" if isinstance(step.value, float) else step.value


def shortened(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"


def seconds(value: float) -> str:
    """Seconds as people read them: one decimal at most."""
    return f"{value:.1f}".removesuffix(".0") + "s"
