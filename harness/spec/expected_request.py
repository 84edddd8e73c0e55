"""`expect_request:` of a step: a request that a page must send because of it."""

from __future__ import annotations

import warnings
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.url_patterns import OF_URL

LONGEST = 3600
"""The longest wait or delay, in seconds."""
LATER = "${"
"""A text with a reference is checked when it is filled in."""
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def _paths(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the mapping; raises ValueError for a key that is no path."""
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
        json: Annotated[dict[str, JsonValue], AfterValidator(_paths)] = Field(  # type: ignore[assignment]
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
