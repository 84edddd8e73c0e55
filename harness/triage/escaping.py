"""Text of pages and tasks inside of GitHub's and GitLab's Markdown: it is read, and does nothing."""

from __future__ import annotations

import re

from harness.reporting.table import shortened
from harness.reporting.visible import printable

_MARKDOWN = re.compile(r"([\\`*_\[\]#!|~$@^])|\A([-+=]|\d+(?=[.)]))")
_AHEAD = 4
"""So much more of a text is looked at than is shown: blanks are taken out of it."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(text: str, longest: int = 200) -> str:
    """In one line of at most so many characters before they are escaped: no markup, no link, no mention, no cell."""
    short = shortened(printable(text[: _AHEAD * longest]), longest)
    plain = "".join(_ENTITIES.get(letter, letter) for letter in short)
    return _MARKDOWN.sub(_marked, plain).replace("://", r":\//").replace("www.", r"www\.")


def _marked(found: re.Match[str]) -> str:
    """A number that would begin a list cannot be escaped itself: a blank of no width stands before it."""
    return f"&#8203;{found[2]}" if found[2] and found[2].isdigit() else f"\\{found[0]}"


def code(text: str, longest: int = 200) -> str:
    """The same, in the letters of a program."""
    return f"<code>{escaped(text, longest)}</code>" if text else ""
