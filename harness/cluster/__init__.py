"""Runs the items of a pytest session on the machines of a Ray cluster: `--task-cluster` (docs/design/cluster.md)."""
