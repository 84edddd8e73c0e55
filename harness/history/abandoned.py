"""Runs whose process is gone without having ended them: a later run says so, and keeps what it can still find."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from harness.history.around import happenings_of
from harness.history.process import Process
from harness.history.record import RunRecord
from harness.history.statements import end_run

_UNFINISHED = "SELECT * FROM runs WHERE ending = 'unfinished' AND note = '' AND pid IS NOT NULL"


def note_abandoned(database: sqlite3.Connection, root: Path) -> None:
    """In a transaction of the caller's. Of processes of other machines nothing can be said."""
    for row in database.execute(_UNFINISHED).fetchall():
        process = Process.of_row(row)
        if process.gone:
            run = RunRecord.model_validate_json(row["document"])
            note = f"its process (pid {process.pid}) is gone; what it had done until then is kept"
            found = happenings_of(root, run.run)
            end_run(database, run.model_copy(update={"note": note, "happenings": found}))
