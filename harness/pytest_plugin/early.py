"""Ctrl-C while pytest still loads its plugins and the project: nothing has begun, so one line says it all."""

from __future__ import annotations

import sys
from types import TracebackType

_TOLD = "interrupted before the run began"
_before = sys.excepthook


def in_one_line() -> None:
    """From now on, an interruption that nobody handles shows no traceback."""
    sys.excepthook = _tell


def end() -> None:
    """Pytest handles an interruption itself from now on."""
    if sys.excepthook is _tell:
        sys.excepthook = _before


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write(f"\n{_TOLD}\n")
    else:
        _before(kind, error, trace)
