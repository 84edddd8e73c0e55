"""A store that fails, for the tests of what writes to one."""

from __future__ import annotations

import threading

from harness.store import Store, StoreError

PATIENT = 20.0


class Unwilling(Store):
    """A store that fails so many times, or for ever, or does not answer until it is released."""

    def __init__(self, under: Store, failures: float = 0, answers: threading.Event | None = None) -> None:
        super().__init__(under.shown)
        self.under, self.failures, self.answers = under, failures, answers
        self.done: list[str] = []

    def _may_fail(self, name: str) -> None:
        if self.answers is not None:
            self.answers.wait(PATIENT)
        self.failures -= 1
        if self.failures >= 0:
            raise StoreError(f"{name}: no answer")
        self.done.append(name.split("/", maxsplit=1)[0])

    def put(self, name: str, data: bytes) -> None:
        self._may_fail(name)
        self.under.put(name, data)

    def put_new(self, name: str, data: bytes) -> bool:
        self._may_fail(name)
        return self.under.put_new(name, data)

    def get(self, name: str) -> bytes | None:
        return self.under.get(name)

    def sizes(self, below: str = "") -> dict[str, int]:
        return self.under.sizes(below)

    def matching(self, pattern: str) -> list[str]:
        return self.under.matching(pattern)

    def at(self, name: str) -> Store:
        return self.under.at(name)
