"""One self-contained HTML page about a run, and about how it compares with the runs before it."""

from harness.dashboard.evidence import Found, Shelf
from harness.dashboard.making import dashboard
from harness.dashboard.page import page
from harness.dashboard.pictures import with_pictures
from harness.dashboard.view import Dashboard

__all__ = ["Dashboard", "Found", "Shelf", "dashboard", "page", "with_pictures"]
