"""What the unit tests share: property tests that say the same on every run of the same code.

A gate that goes red for an input nobody has seen blocks work that is not to blame. Looking for such inputs is a run of
its own: `HYPOTHESIS_PROFILE=search .venv/bin/pytest tests/unit`.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("gate", derandomize=True)
settings.register_profile("search", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))
