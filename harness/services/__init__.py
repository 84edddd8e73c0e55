"""The sites under test: find or start them, wait for their health, stop what was started (DESIGN 4.10)."""

from harness.services.services import Services

__all__ = ["Services"]
