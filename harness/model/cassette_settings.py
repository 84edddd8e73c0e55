"""`[tool.harness.cassettes]`: whether models are asked, or recordings of their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from harness.recovery.declaration import Declaration

CassetteMode = Literal["live", "record", "replay", "auto"]

CASSETTES = "cassettes"
"""The folder of the recordings, beside the task's file."""
_DIFFERENT = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
    r"(?m)^Left: .*$",
)
"""Times, UUIDs, and the line about the budget that is left: they differ in every run of the same task."""


def _pattern(text: str) -> str:
    """Return the text; raises ValueError if it is no regular expression, or matches everywhere."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if found.search(""):
        raise ValueError("matches the empty text, so it would match everywhere")
    return text


class CassetteSettings(Declaration):
    """`[tool.harness.cassettes]`: the recordings of what agents asked models."""

    mode: CassetteMode | None = Field(
        None,
        description="Where the answers of models come from. live: from the providers; record: from the providers, "
        "and they are recorded; replay: only from recordings; auto: from recordings, and what is missing is asked and "
        "recorded. Default: replay if the environment variable `CI` is set, else live.",
    )
    ignore: tuple[Annotated[str, AfterValidator(_pattern)], ...] = Field(
        _DIFFERENT,
        description="Regular expressions for parts of a request that differ in every run. They do not count when a "
        "recording is looked for.",
    )

    def mode_in(self, environ: Mapping[str, str]) -> CassetteMode:
        """The mode of a run in this environment."""
        in_ci = environ.get("CI", "").lower() not in ("", "0", "false")
        return self.mode or ("replay" if in_ci else "live")
