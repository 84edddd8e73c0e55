"""`message:` of a `dialog` step: the text that the dialog must have."""

from __future__ import annotations

from pydantic import Field, field_validator

from harness.recovery.declaration import Declaration

LATER = "${"
"""A text with a reference is checked when it is filled in."""


class DialogText(Declaration):
    """A pattern for the text of a dialog."""

    matches: str = Field(min_length=1, max_length=1000, description="Regular expression that must match the text.")

    @field_validator("matches")
    @classmethod
    def _is_a_pattern(cls, pattern: str) -> str:
        from harness.criteria.patterns import PatternError, compiled  # few dialogs have a pattern

        try:
            compiled(pattern) if LATER not in pattern else None
        except PatternError as error:
            raise ValueError(str(error)) from None
        return pattern
