"""A slot stores the directories of failed tasks, and no store holds it up without a bound."""

from __future__ import annotations

import threading
from uuid import uuid4

from harness.runner.slot_store import is_stored_within
from harness.store import open_store
from tests.unit.runner.stores import PATIENT, Unwilling


def test_something_is_stored_at_once_or_not_at_all() -> None:
    under = open_store(f"memory://{uuid4()}/part")
    assert is_stored_within(PATIENT, lambda: under.put("a", b""))
    assert not is_stored_within(PATIENT, lambda: Unwilling(under, failures=1).put("b", b""))
    answers = threading.Event()
    assert not is_stored_within(0.1, lambda: Unwilling(under, answers=answers).put("c", b""))
    answers.set()
