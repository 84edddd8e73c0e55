"""A `hang` fault: which requests it takes, and how many."""

from __future__ import annotations

from harness.faults.pattern import UrlPattern
from harness.spec.faults import Hang


class Hanging:
    """Takes requests once it is armed."""

    def __init__(self, fault: Hang) -> None:
        self.fault = fault
        self.pattern = UrlPattern.parse(fault.url)
        self.armed = False
        self._left = fault.times

    def takes(self, urls: tuple[str, ...]) -> bool:
        """Whether it holds the request that goes by these URLs; counts it when it does."""
        if not self.armed or self._left == 0 or not any(self.pattern.matches(url) for url in urls):
            return False
        self._left = None if self._left is None else self._left - 1
        return True
