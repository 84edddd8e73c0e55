"""The command `harness`: new, validate, run, show, explain, schema, report, demo."""

from harness.cli.main import app, main

__all__ = ["app", "main"]
