"""Timeouts by how much there is to do (specs/003 8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

TimeoutProfile = Literal["simple", "medium", "complex"]


class Limits(NamedTuple):
    """Seconds for the whole task, and for one attempt of a step."""

    timeout: int
    step_timeout: int


PROFILES: Mapping[str, Limits] = {"simple": Limits(300, 30), "medium": Limits(450, 45), "complex": Limits(600, 60)}
USUAL: TimeoutProfile = "simple"
