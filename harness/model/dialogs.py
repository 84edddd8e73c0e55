"""The dialogs of a task (alert, confirm, prompt, beforeunload): what they said, and how they were answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from harness.recovery.failure import Failure
from harness.task_secrets import hidden
from harness.values import replace

_SHOWN = 3
"""The number of dialogs that a failure names."""
_LENGTH = 200
"""Characters of a dialog's text in a message."""


def with_dialogs(failure: Failure, dialogs: Sequence[MetDialog]) -> Failure:
    """The failure, with the dialogs of the task: what the page said that nobody had asked for is often the reason."""
    if not dialogs:
        return failure
    details = {**failure.details, "dialogs": [each.as_json() for each in dialogs]}
    unasked = [each for each in dialogs if not each.declared]
    if not unasked or failure.code in _TOLD:
        return replace(failure, details=details)
    shown = ", ".join(each.describe() for each in unasked[-_SHOWN:])
    more = f" (and {len(unasked) - _SHOWN} more before)" if len(unasked) > _SHOWN else ""
    return replace(failure, message=f"{failure.message}; the page had opened: {shown}{more}", details=details)


_TOLD = frozenset({"DIALOG_MISSING", "DIALOG_BLOCKED"})
"""Failures whose own message says which dialogs came."""


class MetDialog(Struct, frozen=True):
    """A dialog that a page of the task has opened."""

    type: str
    """`alert`, `confirm`, `prompt` or `beforeunload`."""
    message: str
    answer: str
    """`accept` or `dismiss`."""
    step: int = -1
    """The step under way; -1 before the first."""
    text: str | None = None
    """What was entered into a prompt."""
    declared: bool = False
    """Whether a `dialog` step had asked for it."""

    @property
    def said(self) -> tuple[str, str, str]:
        """What makes two dialogs the same for a reader."""
        return self.type, self.message, self.answer

    @property
    def answered(self) -> str:
        return "accepted" if self.answer == "accept" else "dismissed"

    def describe(self) -> str:
        """One line for people."""
        where = f" in step {self.step}" if self.step >= 0 else ""
        return f"{self.type} {shortened(self.message)!r} ({self.answered}{where})"

    def as_json(self) -> dict[str, Any]:
        """As reports and criteria have it."""
        found = {"type": self.type, "message": self.message, "answer": self.answer}
        given = {} if self.text is None else {"text": self.text}
        return {**found, **given, "step": self.step, "declared": self.declared}


def shortened(text: str) -> str:
    text = hidden(text)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."
