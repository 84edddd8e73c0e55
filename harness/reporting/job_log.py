"""The log of a job on GitHub, where a line can be a command: text of pages, tasks and files gives none."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_NOTHING = "\u200b"
"""A blank without width."""
_COMMAND = re.compile(r"((?:^|\r)[^\S\n]*:)(?=:)", re.MULTILINE)
"""`::error::`, at the beginning of a line or behind blanks."""
_OLD_COMMAND = re.compile(r"##(?=\[)")
"""`##[error]`, anywhere."""


def commandless(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text, which looks the same and commands nothing; as it is where no GitHub runner reads it."""
    if not environment.get("GITHUB_ACTIONS"):
        return text
    return _OLD_COMMAND.sub(f"##{_NOTHING}", _COMMAND.sub(rf"\1{_NOTHING}", text))
