"""These tasks need a client of language models, which is an extra: without it the folder is one skipped line."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def pytest_collect_file() -> None:
    """Skip the folder with its first file if the extra is missing."""
    if find_spec("pydantic_ai") is None:
        pytest.skip("tasks/agents/ needs the extra `agents`: pip install 'pytest-taskspec[agents]'")
