"""Errors by which a test fails as with `pytest.fail`, with a failure of the harness. It is light to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _pytest.outcomes import Failed

if TYPE_CHECKING:
    from harness.recovery.failure import Failure


class ServicesFailedError(Failed):
    """A test cannot have the services, their state or their faults: it fails with the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.message}\n{failure.advice}".rstrip(), pytrace=False)
        self.failure = failure
