"""What is said of a run that still goes on."""

from __future__ import annotations


def still_running(tasks: int) -> str:
    """In the same words everywhere."""
    return f"still running ({tasks} task{'' if tasks == 1 else 's'} so far)"
