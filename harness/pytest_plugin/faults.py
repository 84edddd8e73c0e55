"""Faults in users' own tests: a fixture, and no fault outlives the test that has injected it (specs/003 7.1)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.injection import Injection

API = "harness.api"


@pytest.fixture
def inject_fault() -> Iterator[Callable[..., Injection]]:
    """`inject_fault({"kind": "refuse", "host": "shop.local", "seconds": 2})`: strikes every `execute_task` of the test.

    Takes what `harness.inject` takes. `with inject_fault(...):` ends earlier.
    """
    from harness.api import inject  # not loaded in a session that needs no tasks from Python

    with ExitStack() as standing:

        def inject_one(*faults: Any) -> Injection:
            return standing.enter_context(inject(*faults))

        yield inject_one


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """What a test has injected for its next task, and has not run, is not for the next test."""
    if API in sys.modules:
        sys.modules[API].PENDING.forget()
