"""Intended breakdowns of the checkout: before or after it has placed the order, by the world's settings."""

from __future__ import annotations

from typing import Final, Literal

from starlette.responses import Response

from harness.demo.connection import ConnectionReset, Silence
from harness.demo.rows import Document

Moment = Literal["before_commit", "after_commit"]

NONE: Final = "none"
_ONCE: Final = "_once"
_ANSWERS: Final = {"reset": ConnectionReset, "hang": Silence}


def strike(shop: Document, moment: Moment) -> Response | None:
    """Return the broken answer if the checkout breaks down now, else None; a ``..._once`` setting is used up by it."""
    settings = shop["settings"].get("checkout", {})
    breakdown = settings.get(moment, NONE)
    if breakdown == NONE:
        return None
    if breakdown.endswith(_ONCE):
        settings[moment] = NONE
    return _ANSWERS[breakdown.removesuffix(_ONCE)]()
