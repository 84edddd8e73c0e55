"""Judges changed criteria by the records of runs, without a browser; it reports what cannot be decided."""

from harness.reporting.regrade.recorded import evidence_folders
from harness.reporting.regrade.regrading import TaskFiles, lines, regrade

__all__ = ["TaskFiles", "evidence_folders", "lines", "regrade"]
