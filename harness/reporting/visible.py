"""Text of pages, tasks and files as people may see it: nothing in it steers a terminal."""

from __future__ import annotations


def visible(text: str) -> str:
    """Lines as they are; control characters, and those that turn writing round, become blanks."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def printable(text: str) -> str:
    """The same in one line."""
    return " ".join(visible(text).split())
