"""`allowed_writes:` of a task: the changes that an agent's steps may cause on the sites."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.url_patterns import RequestPattern, UrlPattern

REFERENCE = "${"


class AllowedWrite(Declaration):
    """Requests that may leave, an element on which an act may write, or both: then it is these requests from there."""

    url: str | None = Field(
        None,
        min_length=1,
        max_length=2000,
        description="Pattern for the whole URL; `*` matches anything. A pattern with `http://` also matches https "
        "requests.",
    )
    method: Literal["POST", "PUT", "PATCH", "DELETE"] | None = Field(None, description="HTTP method. Default: any.")
    selector: str | None = Field(
        None, min_length=1, max_length=2000, description="The element: CSS, XPath or any Playwright engine."
    )
    frame: str | None = Field(
        None,
        min_length=1,
        max_length=2000,
        description="Selector of the iframe that contains the element. `a >>> b` is the frame b inside the frame a.",
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.url is None and self.selector is None:
            raise ValueError("an allowed write needs `url`, `selector`, or both")
        if self.method is not None and self.url is None:
            raise ValueError("`method` is only for an allowed write with a `url`")
        if self.frame is not None and self.selector is None:
            raise ValueError("`frame` is only for an allowed write with a `selector`")
        if named := [each for each in (self.url, self.selector, self.frame) if each and REFERENCE in each]:
            raise ValueError(f"references are not filled in here: write `*` in the place of the one in {named[0]}")
        return self

    @property
    def request(self) -> RequestPattern | None:
        """The requests that it names; None: all."""
        if self.url is None:
            return None
        return RequestPattern((self.method,) if self.method else (), UrlPattern.parse(self.url))

    def describe(self) -> str:
        """Element and requests in one line."""
        requests = " ".join(part for part in (self.method, self.url) if part)
        place = f"{self.selector}" + (f" in the frame {self.frame}" if self.frame else "")
        return " from ".join(part for part in (requests, place if self.selector else "") if part)


def allowed_write_of(value: Any) -> Any:
    """`"POST http://shop.test/cart"` is short for `{method: POST, url: http://shop.test/cart}`."""
    if not isinstance(value, str):
        return value
    method, _, url = value.strip().partition(" ")
    return {"method": method, "url": url.strip()} if method.isupper() and url else {"url": value.strip()}
