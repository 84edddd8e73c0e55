"""Campaigns: tasks tried without and with faults, side by side, and the statistics of the results."""

from harness.runner.campaign.document import Campaign, Trial
from harness.runner.campaign.run import Running, Size
from harness.runner.campaign.trials import attacks

__all__ = ["Campaign", "Running", "Size", "Trial", "attacks"]
