"""The command `harness`: validate, schema, report, demo, explain."""

from harness.cli.main import app, main

__all__ = ["app", "main"]
