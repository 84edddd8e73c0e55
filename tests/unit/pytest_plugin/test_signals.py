"""A signal whose interruption was lost: what the next test says to it."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.signals import Signals
from harness.pytest_plugin.state import STATE, SessionState


def interrupted(tmp_path: Path, number: int) -> Signals:
    """After a signal that came while an object was deleted: Python has ignored the KeyboardInterrupt."""
    config: Any = SimpleNamespace(
        stash={STATE: SessionState(Settings(root=tmp_path))}, getoption=lambda _name, default=None: default
    )
    signals = Signals(config)
    with pytest.raises(KeyboardInterrupt):
        signals.handle_signal(number, None)  # as Python does
    return signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_no_further_test_begins_on_a_machine_that_is_taken_away(tmp_path: Path, number: int) -> None:
    signals = interrupted(tmp_path, number)
    with pytest.raises(KeyboardInterrupt):
        signals.pytest_runtest_logstart()


def test_a_test_may_handle_ctrl_c_itself(tmp_path: Path) -> None:
    interrupted(tmp_path, signal.SIGINT).pytest_runtest_logstart()
