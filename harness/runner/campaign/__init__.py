"""Campaigns: tasks tried clean and with faults, side by side, and what can be said of them then."""

from harness.runner.campaign.document import Campaign, Trial
from harness.runner.campaign.run import Running, Size
from harness.runner.campaign.trials import attacks

__all__ = ["Campaign", "Running", "Size", "Trial", "attacks"]
