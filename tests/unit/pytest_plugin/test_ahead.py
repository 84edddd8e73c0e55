"""How many processes share the machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from harness.pytest_plugin.ahead import processes


def test_a_pytest_within_a_worker_of_xdist_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    assert processes(cast("pytest.Config", SimpleNamespace())) == 1
    assert processes(cast("pytest.Config", SimpleNamespace(workerinput={}))) == 4
