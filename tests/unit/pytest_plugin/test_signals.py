"""A signal whose interruption was lost: what the next test says to it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.signals import Signals
from harness.pytest_plugin.state import STATE, SessionState

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def after(tmp_path: Path) -> Iterator[Callable[[int], Signals]]:
    """The signals of a session after one that came while an object was deleted: Python has ignored the interruption."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in NUMBERS}
    config: Any = SimpleNamespace(
        stash={STATE: SessionState(Settings(root=tmp_path))},
        getoption=lambda _name, default=None: default,
        pluginmanager=SimpleNamespace(getplugin=lambda _name: None),
    )
    signals = Signals(config)
    signals.begin()

    def lost(number: int) -> Signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        return signals

    yield lost
    signals.pytest_unconfigure()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_no_further_test_begins_on_a_machine_that_is_taken_away(after: Callable[[int], Signals], number: int) -> None:
    signals = after(number)
    with pytest.raises(KeyboardInterrupt):
        signals.pytest_runtest_logstart()


def test_a_test_may_handle_ctrl_c_itself(after: Callable[[int], Signals]) -> None:
    after(signal.SIGINT).pytest_runtest_logstart()
