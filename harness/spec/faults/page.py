"""Faults of the page: what a step wants is not there, not where it was, or not to be had."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from harness.spec.faults.base import LONGEST, StepFault


class PageFault(StepFault):
    """One that lies on the page, on every page that comes after it, and ends after some seconds."""

    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, to the end of the task, in seconds."
    )

    @property
    def transient(self) -> bool:
        return self.seconds is not None


class ElementFault(PageFault):
    """One that strikes elements."""

    selector: str = Field(min_length=1, max_length=2000, description="CSS selector of the elements that it strikes.")

    @property
    def target(self) -> str:
        return self.selector


class Missing(ElementFault):
    """The elements are taken off the page; afterwards they are put back."""

    kind: Literal["missing"] = "missing"


class Renamed(ElementFault):
    """Ids, classes and names of fields are changed, the same way for the same seed; the page itself goes on working."""

    kind: Literal["renamed"] = "renamed"
    selector: str = Field(
        "*", min_length=1, max_length=2000, description="CSS selector of the elements whose names are shuffled."
    )


class Moved(ElementFault):
    """The elements move without end."""

    kind: Literal["moved"] = "moved"


class Covered(ElementFault):
    """Another element lies over them."""

    kind: Literal["covered"] = "covered"


class Disabled(ElementFault):
    """The elements are disabled."""

    kind: Literal["disabled"] = "disabled"


class Detached(ElementFault):
    """The elements are replaced by copies of themselves, over and over."""

    kind: Literal["detached"] = "detached"


class Late(ElementFault):
    """The elements appear on each page only after some seconds."""

    kind: Literal["late"] = "late"
    seconds: float = Field(
        gt=0,
        le=LONGEST,
        description="How long after their page has begun, or, on the open one, after the strike, in seconds.",
    )

    @property
    def lasts(self) -> float | None:
        return None


class Dialog(StepFault):
    """A dialog comes up on the page."""

    kind: Literal["dialog"] = "dialog"
    type: Literal["alert", "confirm", "prompt", "beforeunload"] = Field("alert", description="Which dialog.")
    message: str = Field("injected", max_length=1000, description="What it says.")


class AlertOnLoad(PageFault):
    """Pages raise an alert as they load."""

    kind: Literal["alert_on_load"] = "alert_on_load"
    message: str = Field("injected", max_length=1000, description="What it says.")


class Popup(StepFault):
    """The page opens a new one."""

    kind: Literal["popup"] = "popup"
    url: str = Field("about:blank", max_length=2000, description="What is opened, as a URL or a path (`/...`).")

    @property
    def target(self) -> str:
        return self.url

    @field_validator("url")
    @classmethod
    def _opens_a_page(cls, url: str) -> str:
        if url != "about:blank" and not url.startswith(("http://", "https://", "/")):
            raise ValueError(f"`url` must begin with http://, https:// or /, or be about:blank; found {url!r}")
        return url
