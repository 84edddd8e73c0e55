"""One self-contained HTML page about a run, and about how it compares with the runs before it."""
