"""Where in an agent's own code an error came up: what its author looks for first."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from harness.agents.source import Source

_FOREIGN = ("site-packages", "dist-packages")
_HOUSE = Path(__file__).parents[1]


def scene(error: BaseException, source: Source) -> str:
    """`mine_agent.py:25, in propose: return 1/0`, of the innermost frame in the agent's code; empty without one.

    Its code is what lies in the project's folder, or beside its module.
    """
    beside = _folder_of_module(source)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        foreign = file.is_relative_to(_HOUSE) or any(part in _FOREIGN for part in file.parts)
        ours = file.is_relative_to(source.root) and not foreign
        if ours or (beside is not None and file.is_relative_to(beside)):
            base = source.root if ours else beside or source.root
            line = f": {frame.line}" if frame.line else ""
            return f"{file.relative_to(base)}:{frame.lineno}, in {frame.name}{line}"
    return ""


def _folder_of_module(source: Source) -> Path | None:
    """Of the package that the module is in; None when it was not imported, or stands among other packages."""
    file = getattr(sys.modules.get(source.module), "__file__", None)
    if file is None:
        return None
    folder = Path(file).parent
    return None if folder.name in _FOREIGN else folder
