"""The keys of acts that bring another page: the answer that is wanted, and when a page counts as opened."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from harness.recovery.declaration import Declaration

_HttpStatus = Annotated[int, Field(ge=100, le=599)]
Statuses = _HttpStatus | Annotated[tuple[_HttpStatus, ...], Field(min_length=1, max_length=50)]
"""The value of `status`: one HTTP status, or a list of those of which one must come."""
Until = Literal["commit", "domcontentloaded", "load"]


def as_statuses(declared: Statuses | None) -> Collection[int]:
    """The statuses that a value of `status` names."""
    if declared is None:
        return ()
    return (declared,) if isinstance(declared, int) else declared


def any_of(statuses: Collection[int]) -> str:
    """`404`, or `401 or 403`."""
    return " or ".join(map(str, statuses))


class AnswerKeys(Declaration):
    """The answer that an act must bring, when it opens a page."""

    status: Statuses | None = Field(
        None,
        description="Status, or list of statuses, that the page must be answered with which the act opens; such a page "
        "is looked at like any other. Default: any below 400, as an HTTP status.",
    )


class ArrivalKeys(Declaration):
    """The moment at which an address counts as opened; names and meanings are those of Playwright's `wait_until`."""

    until: Until = Field(
        "load",
        description="When the page counts as opened: `load` (everything is there, the pictures too), "
        "`domcontentloaded` (the document is there) or `commit` (it begins to arrive).",
    )
