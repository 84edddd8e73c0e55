"""What the unit tests share: property tests that say the same on every run of the same code.

A gate that goes red for an input nobody has seen blocks work that is not to blame. Looking for such inputs is a run of
its own: `HYPOTHESIS_PROFILE=search .venv/bin/pytest tests/unit`. No test is red because the machine does other things.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", PATIENT, derandomize=True)
settings.register_profile("search", PATIENT, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))
