"""Plots, as far as they concern others."""

from __future__ import annotations

import sys

from harness.dashboard.plots import breakdown


def test_the_library_leaves_no_finder_behind() -> None:
    """pygal's own knows no `find_spec`: under `-W error` every import that fails would raise an ImportWarning."""
    assert "<svg" in breakdown({"timeout_step": 2})
    assert all(hasattr(finder, "find_spec") for finder in sys.meta_path)
