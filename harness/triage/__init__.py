"""What a run comes to for who has a minute: failures by cause, Markdown for a CI page, annotations."""

from harness.triage.causes import Cause, causes
from harness.triage.trouble import Trouble, of_record, troubles

__all__ = ["Cause", "Trouble", "causes", "of_record", "troubles"]
