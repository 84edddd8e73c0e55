"""Categories of failed calls in events, by which thresholds count."""

from __future__ import annotations

NETWORK = frozenset({"network", "timeout", "unavailable"})
"""Categories of network failures."""
SESSION, VALIDATION = "session", "validation"
"""Categories: a session was lost; a proposal of a hook or an agent was refused."""
