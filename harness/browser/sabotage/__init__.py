"""Faults done to a task's browser: its pages, its context, its processes (ports.Hands)."""

from harness.browser.sabotage.hands import Sabotage

__all__ = ["Sabotage"]
