"""Campaigns: tasks tried clean and with faults, side by side, and what can be said of them then."""

from harness.campaign.cells import attacks
from harness.campaign.document import Campaign, Trial
from harness.campaign.running import Running, Size

__all__ = ["Campaign", "Running", "Size", "Trial", "attacks"]
