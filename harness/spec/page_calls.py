"""A call of Playwright in an ordinary test, as reports show it: it stands where a task has its step."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from harness.spec.step_base import EffectClass, StepBase

LOOKS = ("expect.", "wait_for", "is_", "get_", "inner_", "all_", "text_content", "input_value", "count", "title",
    "content", "screenshot", "pdf", "query_", "bounding_box", "aria_snapshot")  # fmt: skip
"""How the names of calls begin that only look at a page."""
OPENS = ("goto", "reload", "go_back", "go_forward")
FILLS = ("fill", "type", "press_sequentially", "clear")


class PageCall(StepBase):
    """A call of Playwright, or the line of Python that failed."""

    usual_effect: ClassVar[EffectClass] = "idempotent"

    selector: str | None = Field(None, description="The locator, as Playwright's call log names it.")
    url: str | None = Field(None, description="The address of a navigation.")
    file: str = Field("", description="The file of the test, or of a page object or fixture, that made the call.")
    line: int = Field(0, description="The line of the call, counted from 1.")

    @property
    def effect_class(self) -> EffectClass:
        """`read` for a call that only looks."""
        return "read" if self.act.startswith(LOOKS) else self.usual_effect

    @property
    def waits(self) -> bool:
        """Whether it only waits for something on the page."""
        return self.act.startswith("wait_for")
