"""The command `harness`: new, validate, run, show, explain, schema, report, demo."""

import sys

try:
    from harness.cli.main import app, main
except KeyboardInterrupt:  # Ctrl-C during the import, before `main` can handle it
    sys.exit(130)

__all__ = ["app", "main"]
