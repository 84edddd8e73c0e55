"""Why the evidence does not tell."""

from __future__ import annotations


class UndecidedError(Exception):
    """What was recorded does not tell the value that is asked for; the message says why, as part of a sentence."""
