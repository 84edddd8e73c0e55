"""One self-contained HTML page about a run, and about how it compares with the runs before it."""

from harness.reporting.dashboard.build import dashboard
from harness.reporting.dashboard.evidence import FoundEvidence, Shelf, with_pictures
from harness.reporting.dashboard.page import page
from harness.reporting.dashboard.view import Dashboard

__all__ = ["Dashboard", "FoundEvidence", "Shelf", "dashboard", "page", "with_pictures"]
