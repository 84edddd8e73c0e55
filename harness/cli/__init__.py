"""The command `harness`: new, validate, run, show, explain, schema, report, demo."""

import sys

try:
    from harness.cli.main import app, main
except KeyboardInterrupt:  # before there is a `main` that could say so
    sys.exit(130)

__all__ = ["app", "main"]
