"""The folders that every run writes into: whether they can be used."""

from __future__ import annotations

from harness.model.settings import Settings
from harness.reporting.names import shown_path
from harness.reporting.workspace import unusable


def unusable_folders(settings: Settings) -> list[str]:
    """A sentence for each that cannot be written into: what it is instead, and how to mend it."""
    own = settings.root / ".harness"
    folders = {own: "what happens in a run is kept there: move it away"}
    if not settings.artifacts.is_relative_to(own):
        advice = "failed tasks are kept there: move it away, or name another with `--task-artifacts`"
        folders = {settings.artifacts: advice, **folders}
    return [f"{shown_path(each)} {why}; {advice}" for each, advice in folders.items() if (why := unusable(each))]
