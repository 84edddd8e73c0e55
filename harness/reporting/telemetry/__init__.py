"""One stream of resilience events: engine and policies emit them, sinks receive them as records.

A run of pytest writes a line for each record to `.harness/events/<run>.jsonl`; `.harness/events.jsonl` is a link to the
file of the run that began last, and the files of the last five runs are kept:

    {"at": "2025-11-16T09:00:00.123456+00:00", "level": "WARNING", "type": "retry", "run": "...", "worker": "gw0",
     "task_id": "T-1", "step": 0, "faulted": false, "name": "open http://shop.local/", "attempt": 1, "retries": 3,
     "delay": 1.0, "error": "connection refused", "category": "network"}

`worker` is empty outside of pytest-xdist, `task_id` is empty for an event of no task, `step` is null for an event that
is outside of steps. `type` is a type of `harness.resilience.events`, or `task` (a task has ended), `step` (only with
`log_profile = "debug"`), `threshold` (a metric changed its level).
"""
