"""The tables of the history. Columns are what is asked for; `document` has the whole value, so nothing is lost."""

from __future__ import annotations

from typing import Final

SCHEMA: Final = 1
"""Its number is the file's `user_version`."""
APPLICATION: Final = 0x54534849
"""`application_id`: "TSHI"."""

TABLES: Final = (
    """CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    started TEXT NOT NULL,
    finished TEXT,
    ending TEXT NOT NULL,
    exit_status INTEGER,
    commit_id TEXT NOT NULL,
    branch TEXT NOT NULL,
    shard TEXT NOT NULL,
    note TEXT NOT NULL,
    pid INTEGER,
    host TEXT NOT NULL,
    process_started REAL,
    document TEXT NOT NULL
)""",
    "CREATE INDEX runs_by_time ON runs (started)",
    """CREATE TABLE executions (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    nodeid TEXT NOT NULL,
    task_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    worker TEXT NOT NULL,
    started TEXT,
    seconds REAL NOT NULL,
    final_state TEXT,
    code TEXT,
    healed INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    recovered INTEGER NOT NULL
)""",
    "CREATE INDEX executions_by_run ON executions (run, nodeid)",
    "CREATE INDEX executions_by_node ON executions (nodeid)",
    """CREATE TABLE documents (
    execution INTEGER PRIMARY KEY REFERENCES executions ON DELETE CASCADE,
    document BLOB NOT NULL
)""",
    """CREATE TABLE attempts (
    execution INTEGER NOT NULL REFERENCES executions ON DELETE CASCADE,
    position INTEGER NOT NULL,
    step INTEGER NOT NULL,
    act TEXT NOT NULL,
    number INTEGER NOT NULL,
    t REAL NOT NULL,
    seconds REAL NOT NULL,
    passed INTEGER NOT NULL,
    code TEXT,
    PRIMARY KEY (execution, position)
) WITHOUT ROWID""",
    """CREATE TABLE failures (
    execution INTEGER PRIMARY KEY REFERENCES executions ON DELETE CASCADE,
    code TEXT,
    error_type TEXT,
    family TEXT,
    step INTEGER,
    expected INTEGER NOT NULL,
    message TEXT NOT NULL
)""",
    """CREATE TABLE warnings (
    execution INTEGER NOT NULL REFERENCES executions ON DELETE CASCADE,
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    step INTEGER,
    message TEXT NOT NULL,
    PRIMARY KEY (execution, position)
) WITHOUT ROWID""",
    """CREATE TABLE happenings (
    run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    position INTEGER NOT NULL,
    at TEXT NOT NULL,
    type TEXT NOT NULL,
    level TEXT NOT NULL,
    task_id TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID""",
)
