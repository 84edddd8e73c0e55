"""Keys that acts share: the answer and the request that are wanted, when a page counts as opened, an option."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, JsonValue, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.url_patterns import OF_URL

LONGEST = 3600
"""The longest wait or delay, in seconds."""
LATER = "${"
"""A text with a reference is checked when it is filled in."""
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_PathsT = TypeVar("_PathsT", bound=Iterable[str])


def checked_paths(body: _PathsT) -> _PathsT:
    """Return the paths, which may be the keys of a mapping; raises ValueError for one that is no path."""
    from harness.criteria.paths import PathError, segments  # few steps expect a request

    for path in body:
        try:
            segments(path)
        except PathError as error:
            raise ValueError(f"{path!r} is not a path: {error.problem}") from None
    return body


with warnings.catch_warnings():  # `json` hides a method of pydantic's models that pydantic itself has given up
    warnings.filterwarnings("ignore", message='Field name "json"')

    class ExpectedRequest(Declaration):
        """A request that the step must cause."""

        url: str = Field(min_length=1, max_length=2000, description=OF_URL)
        method: Method | None = Field(None, description="HTTP method. Default: any.")
        json: Annotated[dict[str, JsonValue], AfterValidator(checked_paths)] = Field(  # type: ignore[assignment]
            default_factory=dict,
            description="Path in the body -> value that it must have there. A mapping must be contained in the one "
            "found. The body is JSON, or a form with its fields as keys.",
        )
        status: int | None = Field(
            None, ge=100, le=599, description="Status of the answer, which is waited for, as an HTTP status."
        )
        within: float | None = Field(
            None,
            ge=0,
            le=LONGEST,
            description="How long to wait for the request after the act. Default: the time that the step has left, "
            "in seconds.",
        )

        @model_validator(mode="after")
        def _has_a_body(self) -> Self:
            if self.json and self.method in ("GET", "HEAD"):
                raise ValueError(f"a {self.method} request has no body: leave `json` out, or name another `method`")
            return self

        def describe(self) -> str:
            """Method and pattern in one line."""
            return f"{self.method} {self.url}" if self.method else self.url


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


class Option(Declaration):
    """One option of a list, named by exactly one of its value, its label and its place."""

    value: str | None = Field(None, description="The option's value.")
    label: str | None = Field(None, description="The option's label.")
    index: int | None = Field(None, ge=0, description="0 is the first option, as a place in the list.")

    @model_validator(mode="after")
    def _named_once(self) -> Option:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("an option is named by exactly one of `value`, `label`, `index`")
        return self

    def __repr__(self) -> str:
        """As a task file has it: `{label: 'Green'}`. Reports show steps with this."""
        return f"{{{', '.join(f'{name}: {value!r}' for name, value in self.model_dump(exclude_none=True).items())}}}"

    __str__ = __repr__


class Point(Declaration):
    """A place or a distance."""

    x: float = Field(ge=-100_000, le=100_000, description="To the right, in pixels.")
    y: float = Field(ge=-100_000, le=100_000, description="Down, in pixels.")
