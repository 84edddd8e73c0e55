"""The dialogs of a context: each is answered at once and recorded."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct
from playwright.async_api import BrowserContext, Dialog, Page
from playwright.async_api import Error as PlaywrightError

from harness.criteria import fold
from harness.criteria.patterns import has_match
from harness.masking import cut
from harness.model.dialogs import MetDialog
from harness.recovery.catalog import CATALOG, Effect
from harness.recovery.failure import Failure

DIALOGS = 20
"""The number of dialogs of one step that are recorded; a page may open them without end."""
_KEPT = 200
"""The number of dialogs of a context that are kept: the newest."""
TEXT_LENGTH = 2000
_TEXTLESS = "A `beforeunload` dialog has no text, whatever the page says: leave out `message` at the `dialog` step."


class DialogAnswer(Struct, frozen=True):
    """The answer to a dialog. `text` is typed into a prompt; None leaves the default text."""

    accept: bool = True
    text: str | None = None
    message: str | None = None
    """The text that the dialog must have; None: any."""
    pattern: str | None = None
    """A regular expression that must match its text; None: any."""
    demanded: bool = False
    """Whether the step after it fails if no dialog takes this answer."""

    def fits(self, message: str) -> bool:
        """Return whether it is the answer to a dialog with this text. White space is folded, as in every comparison."""
        if self.pattern is not None:
            try:
                return has_match(self.pattern, message)
            except TimeoutError:
                return False
        return self.message is None or fold(message) == fold(self.message)

    def describe(self) -> str:
        """The dialog that it waits for, in words."""
        if self.pattern is not None:
            return f"dialog whose text matches {self.pattern!r}"
        return "dialog" if self.message is None else f"dialog that says {self.message!r}"


_UNASKED = {
    "alert": DialogAnswer(),
    "beforeunload": DialogAnswer(),
    "confirm": DialogAnswer(accept=False),
    "prompt": DialogAnswer(accept=False),
}
"""The answers to dialogs that no step asked for, as Playwright gives them: a question that nobody expected is a no."""


class Dialogs:
    """Answers every dialog. `complain` is called with a description of each error."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._answers: set[asyncio.Task[None]] = set()
        self._open: Counter[Page | None] = Counter()
        self._seen: Counter[Page | None] = Counter()
        self.prepared: tuple[DialogAnswer, ...] = ()
        """The answers to the next dialogs; each is kept until a dialog comes that it fits."""
        self._used: tuple[type | None, tuple[DialogAnswer, ...]] | None = None
        """The kind of step that began with prepared answers, and the answers."""
        self.step = -1
        """The number of the step under way."""
        self._missed: int | None = None
        """The step that was told that no dialog took its answer."""
        self.told: list[MetDialog] = []
        """Dialogs since the step began, with the answers given."""
        self.all: deque[MetDialog] = deque(maxlen=_KEPT)
        """All dialogs of the context: the newest of them."""

    def leave_open(self, context: BrowserContext) -> None:
        """Let a person answer the dialogs. Without any listener, Playwright itself would dismiss them."""
        context.remove_listener("dialog", self.on_dialog)
        context.on("dialog", lambda _: None)

    def begin_step(self, index: int) -> None:
        """The step with this number begins. An answer that the step before missed is not waited for any more."""
        self.step = index
        if self._missed not in (None, index):
            self.prepared, self._missed = tuple(each for each in self.prepared if not each.demanded), None

    def begin(self, kind: type | None) -> None:
        """An attempt at a step of this kind begins: earlier dialogs do not belong to it.

        Answers that a failed attempt has used up are used again for the next one.
        """
        self.told = []
        self._seen.clear()
        if self._used and self._used[0] is kind:
            self.prepared = self._used[1]
        self._used = (kind, self.prepared) if self.prepared else None

    def passed(self) -> None:
        """The attempt has passed: the answers that it used up are gone."""
        self._used = None

    def missing(self) -> DialogAnswer | None:
        """An answer that no dialog has taken, although one must in the step under way."""
        return next((each for each in self.prepared if each.demanded), None)

    def tell_missing(self, wanted: DialogAnswer) -> Failure:
        """The failure of the step under way because of `missing`; the next step does not fail once more for it."""
        self._missed = self.step
        came = ", ".join(each.describe() for each in self.told if not each.declared)
        instead = f"what came instead: {came}" if came else "no other came"
        message = f"no {wanted.describe()} has opened by the end of this step; {instead}"
        textless = any(each.type == "beforeunload" and not each.declared for each in self.told)
        advice = CATALOG["DIALOG_MISSING"].hint  # a dialog is waited for: the hint for assertions would mislead
        advice = _TEXTLESS if textless and not wanted.fits("") else advice
        return Failure("DIALOG_MISSING", message, effect=Effect.DONE, act_done=True, advice=advice)

    def blocking(self, page: Page) -> bool:
        """Return whether dialogs block this page: one is open, or they open without end."""
        return self._open[page] + self._open[None] > 0 or self._seen[page] + self._seen[None] >= DIALOGS

    def on_dialog(self, dialog: Dialog) -> None:
        taken = next((each for each in self.prepared if each.fits(dialog.message)), None)
        if taken is not None:
            place = self.prepared.index(taken)
            self.prepared = (*self.prepared[:place], *self.prepared[place + 1 :])
        answer = taken or _UNASKED[dialog.type]
        self._seen[dialog.page] += 1
        self._open[dialog.page] += 1
        if len(self.told) < DIALOGS:
            told = (dialog.type, dialog.message, dialog.default_value, answer, self.step)
            met = met_dialog(*told, declared=taken is not None)
            self.told.append(met)
            self.all.append(met)
        if answer.text is not None and dialog.type != "prompt":
            self._complain(f"the {dialog.type} takes no text, so the text of the answer was not entered")
        task = asyncio.ensure_future(self._give_answer(dialog, answer))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _give_answer(self, dialog: Dialog, answer: DialogAnswer) -> None:
        try:
            if answer.accept:
                await dialog.accept(dialog.default_value if answer.text is None else answer.text)
            else:
                await dialog.dismiss()
        except PlaywrightError as error:  # the page closed with its dialog
            self._complain(f"dialog not answered: {error.message}")
        self._open[dialog.page] -= 1


def met_dialog(kind: str, message: str, default: str, answer: DialogAnswer, step: int, *, declared: bool) -> MetDialog:
    """The record of a dialog for reports. Pure."""
    text = None
    if kind == "prompt" and answer.accept:
        text = cut(default if answer.text is None else answer.text, TEXT_LENGTH)
    said = "accept" if answer.accept else "dismiss"
    return MetDialog(kind, cut(message, TEXT_LENGTH), said, step, text, declared)
