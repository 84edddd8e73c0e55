"""The store of a run (`--task-store`) in several processes: what its workers are given, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from harness.reporting.history.file import HistoryError
from harness.runner.store_writer import StoreWriter
from harness.runner.stored_part import Earlier
from harness.store import Store, StoreError, StoreUnusable, open_store

OF_THE_MACHINE = 75
"""The exit status of a run that its machine has ended, or kept from storing something: it is to be repeated.

It is EX_TEMPFAIL of sysexits.h."""
URL, PART, ATTEMPT = "taskspec_store", "taskspec_part", "taskspec_attempt"
"""Keys of `workerinput`: the store, the name of the part in it, and that of the attempt."""
EARLIER = "taskspec_earlier"
"""Key of `workerinput`: what earlier attempts have done. A process of a cluster does not get it: its driver acts on it.
"""
UNNOTED = "taskspec_unnoted"
"""Key of `workeroutput`: ids of tasks that were seen to write, and of which the store did not know that in the end."""
_REFUSED = "taskspec_refused"
"""Key of `workeroutput`: why a worker of xdist cannot use the store, and the exit status."""


class StorePlace(Struct, frozen=True):
    """The place where the processes of a run keep what they do of its part."""

    url: str
    """The store of the run: a URL, or an absolute path."""
    part: str
    attempt: str
    """The name of what this run does of the part."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> StorePlace:
        """The place that a worker was given."""
        return cls(given[URL], given[PART], given[ATTEMPT])

    def given(self) -> dict[str, str]:
        """What other processes of the run need to see the same store: for their `workerinput`."""
        return {URL: self.url, PART: self.part, ATTEMPT: self.attempt}

    def whole(self) -> Store:
        """The store of all parts. Raises StoreUnusable."""
        return open_store(self.url)

    def open(self) -> Store:
        """The store of the part. Raises StoreUnusable."""
        return self.whole().at(self.part)

    @property
    def folder(self) -> Path | None:
        """The folder of all parts, if this machine has it."""
        return self.whole().local


class WorkerOfStore:
    """A plugin of a worker, of xdist or of a cluster: what it could not note itself, its controller or driver notes."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config: Any = session.config
        config.workeroutput[UNNOTED] = list(self._writer.unnoted)


class WorkersOfStore:
    """A plugin of the controller of xdist: its workers go on with the same, whenever they start."""

    def __init__(self, place: StorePlace, earlier: Earlier, take_over: Callable[[Iterable[str]], None]) -> None:
        """`take_over` notes that these tasks were seen to write."""
        self._place = place
        self._earlier = earlier
        self._take_over = take_over

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[EARLIER] = msgspec.to_builtins(self._earlier)
        node.workerinput.update(self._place.given())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told: Mapping[str, Any] = getattr(node, "workeroutput", {})
        self._take_over(told.get(UNNOTED, ()))
        if refused := told.get(_REFUSED):
            pytest.exit(*refused)


@contextmanager
def refusing(config: pytest.Config) -> Iterator[None]:
    """End pytest if the store cannot be used. The controller of an xdist worker says why."""
    told: dict[str, Any] = getattr(config, "workeroutput", {})
    try:
        yield
    except (StoreUnusable, HistoryError) as error:
        told[_REFUSED] = f"--task-store: {error}", int(pytest.ExitCode.USAGE_ERROR)
        raise pytest.UsageError(told[_REFUSED][0]) from error
    except StoreError as error:
        told[_REFUSED] = f"--task-store: {error}", OF_THE_MACHINE
        pytest.exit(*told[_REFUSED])
