"""Recorded actions, in the words of Playwright's recorder. What records them does not matter: a browser, or a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from harness.spec.recorded.locators import Locator, Target, target_of

ActionName = Literal[
    "navigate", "click", "fill", "press", "check", "uncheck", "select", "setInputFiles", "hover", "drag", "scroll",
    "wait", "waitFor", "screenshot", "assertText", "assertValue", "assertVisible", "assertChecked", "assertCount",
    "assertExists", "assertEnabled", "assertFocused", "assertAttribute", "assertUrl", "assertTitle", "assertSnapshot",
    "missing",
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
    """What was typed, the key, the address, the name of an attribute, the number of elements; or what is missing."""
    values: tuple[str, ...] = ()
    """Options that were chosen, file names, the value of an attribute."""
    onto: Locator = ()
    """The element on which another one was dropped."""
    exact: bool = True
    """Whether a text must be the whole text."""
    pattern: bool = False
    """Whether a text to compare with is a regular expression."""
    negated: bool = False
    """Whether an assertion claims the opposite."""
    force: bool = False
    by: str = ""
    """How an option is named: `label` or `index`; empty: by its value, or its label."""
    timeout: float | None = None
    """The limit that was set for it, in seconds."""
    statuses: tuple[int, ...] = ()
    """The statuses of which the page that it opened must have one."""
    until: str = ""
    """When the page that it opened counts as opened, if that was set."""
    note: str = ""
    """What a reader of the task should know."""
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
    place: str = ""
    """The line of the source that says so, as `file:line`; empty for a browser."""
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
