"""The history of runs: kept in `.harness/history.sqlite3`, read by dashboards, comparisons and triage."""
