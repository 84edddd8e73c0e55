"""The condition of `skip_if`: on which machine, with which browser profile, in which environment a task is skipped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from harness.recovery.declaration import Declaration

SLOW = 3
"""The factor for the limits of a task with `slow: true`, as Playwright's `test.slow()` has it."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=.*)?", re.DOTALL)


def in_ci(environ: Mapping[str, str]) -> bool:
    """Return whether the process runs on a CI system, which sets `CI`."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def stated(reason: Any) -> Any:
    """Return a reason as it is. Raises ValueError for one that says nothing."""
    if isinstance(reason, bool) or (isinstance(reason, str) and not reason.strip()):
        raise ValueError("must be the reason, as text, such as `the shop is being rebuilt`; reports show it")
    if isinstance(reason, str) and "${" in reason:
        raise ValueError("takes no references: write the reason out")
    return reason


Reason = Annotated[str, BeforeValidator(stated), Field(max_length=1000)]
"""Why a task is skipped, or why it fails; never empty."""


class SkipIf(Declaration):
    """A condition, and why the task is skipped where all that it names holds."""

    reason: Reason = Field(description="Why the task is skipped; reports show it.")
    platform: Literal["linux", "darwin", "win32"] | None = Field(
        None, description="The operating system, as Python's `sys.platform` names it."
    )
    profile: str | None = Field(None, min_length=1, description="The browser profile of `--browser-profile`.")
    env: str | None = Field(
        None,
        max_length=1000,
        description="`NAME`: this environment variable is set and not empty. `NAME=value`: it has this value; `NAME=`: "
        "it is not set, or empty.",
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.platform is None and self.profile is None and self.env is None:
            raise ValueError(
                "`skip_if` needs `platform`, `profile` or `env`: what always holds is written `skip: REASON`"
            )
        if self.env is not None and not _VARIABLE.fullmatch(self.env):
            raise ValueError(f"`env` is written NAME or NAME=value, not {self.env!r}")
        return self

    def holds(self, profile: str | None, environ: Mapping[str, str], platform: str) -> bool:
        """Return whether everything that it names is so."""
        name, equals, value = (self.env or "").partition("=")
        there = environ.get(name, "")
        return (
            self.platform in (None, platform)
            and self.profile in (None, profile)
            and (self.env is None or (there == value if equals else bool(there)))
        )


def as_list(value: Any) -> Any:
    """One condition stands for a list of it."""
    return tuple(value) if isinstance(value, list) else (value,) if isinstance(value, dict) else value


class OrOne:
    """Adds to the JSON Schema of a list that one of its items may stand for it."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        return {"anyOf": [found["items"], found]}
