"""The dialogs of a context: each is answered at once and recorded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from msgspec import Struct
from playwright.async_api import BrowserContext, Dialog, Page
from playwright.async_api import Error as PlaywrightError

DIALOGS = 20
"""The number of dialogs of one step that are recorded; a page may open them without end."""
TEXT_LENGTH = 2000


class DialogAnswer(Struct, frozen=True):
    """The answer to a dialog. `text` is typed into a prompt; None leaves the default text."""

    accept: bool = True
    text: str | None = None


ACCEPT = DialogAnswer()
"""Accept, as a person doing the task would."""


class Dialogs:
    """Answers every dialog. `complain` is called with a description of each error."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._answers: set[asyncio.Task[None]] = set()
        self._open: Counter[Page | None] = Counter()
        self._seen: Counter[Page | None] = Counter()
        self.next: DialogAnswer | None = None
        """The answer to the next dialog; kept until one opens."""
        self._used: tuple[type | None, DialogAnswer] | None = None
        """The kind of step that began with a prepared answer, and the answer."""
        self.told: list[dict[str, str]] = []
        """Dialogs since the step began, with the answers given."""

    def leave_open(self, context: BrowserContext) -> None:
        """Let a person answer the dialogs. Without any listener, Playwright itself would dismiss them."""
        context.remove_listener("dialog", self.on_dialog)
        context.on("dialog", lambda _: None)

    def begin(self, kind: type | None) -> None:
        """An attempt at a step of this kind begins: earlier dialogs do not belong to it.

        An answer that a failed attempt has used up is used again for the next one.
        """
        self.told = []
        self._seen.clear()
        if self.next is None and self._used and self._used[0] is kind:
            self.next = self._used[1]
        self._used = (kind, self.next) if self.next else None

    def passed(self) -> None:
        """The attempt has passed: the answer that it used up is gone."""
        self._used = None

    def blocking(self, page: Page) -> bool:
        """Return whether dialogs block this page: one is open, or they open without end."""
        return self._open[page] + self._open[None] > 0 or self._seen[page] + self._seen[None] >= DIALOGS

    def on_dialog(self, dialog: Dialog) -> None:
        answer, self.next = self.next or ACCEPT, None
        self._seen[dialog.page] += 1
        self._open[dialog.page] += 1
        if len(self.told) < DIALOGS:
            self.told.append(dialog_record(dialog.type, dialog.message, dialog.default_value, answer))
        if answer.text is not None and dialog.type != "prompt":
            self._complain(f"the {dialog.type} takes no text, so the text of the answer was not entered")
        task = asyncio.ensure_future(self._give_answer(dialog, answer))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _give_answer(self, dialog: Dialog, answer: DialogAnswer) -> None:
        try:
            await _respond(dialog, answer)
        except PlaywrightError as error:  # the page closed with its dialog
            self._complain(f"dialog not answered: {error.message}")
        self._open[dialog.page] -= 1


async def _respond(dialog: Dialog, answer: DialogAnswer) -> None:
    if answer.accept:
        await dialog.accept(dialog.default_value if answer.text is None else answer.text)
    else:
        await dialog.dismiss()


def dialog_record(kind: str, message: str, default: str, answer: DialogAnswer) -> dict[str, str]:
    """The record of a dialog for reports. Pure."""
    said = {"type": kind, "message": message[:TEXT_LENGTH], "answer": "accept" if answer.accept else "dismiss"}
    if kind == "prompt" and answer.accept:
        said["text"] = (default if answer.text is None else answer.text)[:TEXT_LENGTH]
    return said
