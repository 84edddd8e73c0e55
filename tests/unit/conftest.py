"""What the unit tests share: property tests that say the same on every run of the same code.

A gate that goes red for an input nobody has seen blocks work that is not to blame. Looking for such inputs is a run of
its own: `HYPOTHESIS_PROFILE=search .venv/bin/pytest tests/unit`. No test is red because the machine does other things.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

FULL = os.environ.get("TASKSPEC_TESTS") == "full"


def examples(many: int) -> int:
    """How many examples a property is tried on: `many` in a full run, a tenth of them else, and no fewer than five."""
    return many if FULL else max(many // 10, 5)


PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", PATIENT, derandomize=True, max_examples=examples(100))
settings.register_profile("search", PATIENT, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections that are opened from now on: some limits of SQLite hold for one connection alone."""
    opened, connect = list[sqlite3.Connection](), sqlite3.connect

    def remembered(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", remembered)
    return opened
