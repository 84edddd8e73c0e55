"""Recorded actions, in the words of Playwright's recorder. What records them does not matter: a browser, or a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from harness.spec.recorded.locators import Locator, Target, target_of

ActionName = Literal[
    "navigate", "click", "fill", "press", "check", "uncheck", "select", "setInputFiles", "hover",
    "assertText", "assertValue", "assertVisible", "assertChecked", "assertSnapshot", "missing",
]  # fmt: skip


class GivenAnswer(Struct, frozen=True):
    """What was answered to a dialog that an action opened."""

    accepted: bool = True
    text: str | None = None
    """The text that was entered into a prompt."""
    message: str | None = None
    """The text of the dialog, if it is known."""


class Action(Struct, frozen=True, kw_only=True):
    """One thing that was done or checked.

    Texts are written as in a task file: `${env:NAME}` is a reference, and `$${` stands for `${`.
    """

    name: ActionName
    locator: Locator = ()
    element: Target | None = None
    """The element, if no locator describes it."""
    text: str = ""
    """What was typed, the key, the address, the text to compare with; or what is missing."""
    values: tuple[str, ...] = ()
    """Options that were chosen, file names."""
    exact: bool = True
    """Whether a text must be the whole text."""
    negated: bool = False
    """Whether an assertion claims the opposite."""
    page: int = 0
    """The page of the action, in the order of opening."""
    newest: bool = False
    """Whether this page was the newest one."""
    sent: tuple[str, ...] = ()
    """Method and path of the unsafe requests that it sent."""
    dialogs: tuple[GivenAnswer, ...] = ()
    download: str | None = None
    """The name of the file that it downloaded; empty if it is not known."""
    reached: str = ""
    """The address of the page after it, if it changed."""
    why: str = ""
    """For what is missing: the reason."""

    @property
    def target(self) -> Target:
        """The element. Raises UnwritableError."""
        return self.element or target_of(self.locator)

    @property
    def asserts(self) -> bool:
        return self.name.startswith("assert")


class Recording(Struct, frozen=True):
    """What was recorded: the actions, and what is known about the pages."""

    actions: tuple[Action, ...]
    passwords: Mapping[str, str]
    """What was typed into a password field -> the field's name. Only texts that a task must not contain."""
    visited: tuple[str, ...]
    """The hosts of the pages."""
    loaded: tuple[str, ...]
    """The other hosts from which the pages have loaded something."""
    address: str
    """The address of the page that was shown last."""
