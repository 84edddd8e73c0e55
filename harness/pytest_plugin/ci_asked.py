"""Whether a CI system is to be told of the run. How that is done is loaded only then."""

from __future__ import annotations

import pytest

from harness.pytest_plugin import summary_file
from harness.pytest_plugin.annotations import is_wanted


def asked_for(config: pytest.Config) -> bool:
    """Whether this process, which is no worker of xdist, is to tell a CI system of its run."""
    if hasattr(config, "workerinput"):
        return False
    return summary_file.place(config) is not None or is_wanted(config)
