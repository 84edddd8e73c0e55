"""Campaigns: tasks tried without and with faults, side by side, and the statistics of the results."""
