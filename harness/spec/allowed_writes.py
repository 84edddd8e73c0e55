"""`allowed_writes` of a task: what an agent may write."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from harness.recovery.declaration import Declaration
from harness.recovery.locators import Selector
from harness.spec.url_patterns import OF_URL

_TOOL = re.compile(r"[^.\s]+\.\S+")


class AllowedWrite(Declaration):
    """Requests that may leave, an element on which an act may write, or both: then it is these requests from there.

    Or a tool that may be called although it writes.
    """

    url: str | None = Field(None, min_length=1, max_length=2000, description=OF_URL)
    method: Literal["POST", "PUT", "PATCH", "DELETE"] | None = Field(None, description="HTTP method. Default: any.")
    selector: Selector | None = Field(None, description="The element, as a step names it.")
    frame: Selector | None = Field(
        None,
        description="Selector of the iframe that contains the element. `a >>> b` is the frame b inside the frame a.",
    )

    tool: str | None = Field(
        None,
        min_length=1,
        max_length=300,
        description="A tool that an agent may call although it writes: `server.tool`, in which `*` matches anything.",
    )

    done_when: str | None = Field(
        None,
        min_length=1,
        max_length=10_000,
        description="Only with `tool`: criterion that tells whether the call took effect, if the agent gives none.",
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.tool is not None and (self.url or self.method or self.selector or self.frame):
            raise ValueError("an allowed write with `tool` needs no other key: write another entry for the rest")
        if self.tool is None and self.url is None and self.selector is None:
            raise ValueError("an allowed write needs `url`, `selector`, both, or `tool`")
        if self.tool is not None and not _TOOL.fullmatch(self.tool):
            raise ValueError(f"`tool` must be written `server.tool`, not {self.tool!r}")
        if self.done_when is not None and self.tool is None:
            raise ValueError("`done_when` is only for an allowed write with a `tool`")
        if self.method is not None and self.url is None:
            raise ValueError("`method` is only for an allowed write with a `url`")
        if self.frame is not None and self.selector is None:
            raise ValueError("`frame` is only for an allowed write with a `selector`")
        texts = filter(None, (self.url, self.selector, self.frame, self.tool, self.done_when))
        if named := [each for each in texts if "${" in each]:
            raise ValueError(f"references are not filled in here: write `*` in the place of the one in {named[0]}")
        return self

    def describe(self) -> str:
        """Element and requests, or the tool, in one line."""
        if self.tool is not None:
            return f"tool {self.tool}"
        requests = " ".join(part for part in (self.method, self.url) if part)
        place = f"{self.selector}" + (f" in the frame {self.frame}" if self.frame else "")
        return " from ".join(part for part in (requests, place if self.selector else "") if part)


def allowed_write_of(value: Any) -> Any:
    """`"POST http://shop.test/cart"` is short for `{method: POST, url: http://shop.test/cart}`.

    `"tool shop.place_order"` is short for `{tool: shop.place_order}`.
    """
    if not isinstance(value, str):
        return value
    method, _, url = value.strip().partition(" ")
    if method == "tool" and url:
        return {"tool": url.strip()}
    return {"method": method, "url": url.strip()} if method.isupper() and url else {"url": value.strip()}
