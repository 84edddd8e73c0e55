"""The processor time of a tree of processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from benchmarks.processor import Meter, Tree, metered, settled

BUSY = 0.3
SPIN = f"import time\nwhile time.process_time() < {BUSY + 0.1}: pass\n"  # the clock of a tree ticks in hundredths
IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"
ORPHAN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SPIN!r}])"
Kind = Callable[[], AbstractContextManager[Meter]]


def summed() -> AbstractContextManager[Meter]:
    return contextlib.closing(Tree())


def spent(meter: Meter, code: str) -> float:
    before = meter.seconds()
    subprocess.run([sys.executable, "-c", code], check=True)
    return settled(meter) - before


@pytest.mark.parametrize("kind", [metered, summed])
@pytest.mark.parametrize("code", [SPIN, IN_A_CHILD])
@pytest.mark.sampled(2)
def test_a_child_and_its_child_count(kind: Kind, code: str) -> None:
    with kind() as meter:
        assert BUSY < spent(meter, code) < BUSY + 2


def test_only_a_cgroup_counts_a_process_whose_parent_ended_first() -> None:
    with metered() as meter:
        assert (spent(meter, ORPHAN) > BUSY) is (meter.name == "cgroup")


def test_what_ran_before_does_not_count() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            for kind in (metered, summed):
                with kind() as meter:
                    assert spent(meter, "import time; time.sleep(0.5)") < BUSY
        finally:
            other.kill()
