"""Secrets that a display cut short or broke over lines, so that nobody finds them as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

LEAST = 6
"""Letters of its beginning (or end) by which a secret is known, when a sign of omission follows (or precedes)."""

LEAST_AT_AN_END = 10
"""The same, where the line or the text ends without such a sign."""

_GAP = r"[^\S\n]*+\n\s*+(?:[-+]\s*+)?"
"""A line break, with what an indented difference writes before its lines."""
_INSIDE, _BETWEEN = f"(?:{_GAP})?", rf"(?:{_GAP}|\s*+)"
_BREAKS = (re.compile(_GAP), re.compile(r"\s*\n\s*"))
_SPACES = (*_BREAKS, re.compile(r"\s*"))
_SIGN = re.compile(r"\s*(?:…|\.\.\.)")
_END = re.compile(r"[^\S\n]*(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class _Word:
    """The letters of a secret without its white space; `spaced` are the numbers of those that had some before."""

    letters: str
    spaced: frozenset[int]

    @classmethod
    def of(cls, secret: str) -> _Word:
        parts, spaced = secret.split(), set()
        length = 0
        for part in parts[:-1]:
            length += len(part)
            spaced.add(length)
        return cls("".join(parts), frozenset(spaced))

    def start(self) -> str:
        """A pattern for its first letters."""
        letters = enumerate(self.letters[:LEAST])
        return "".join((self._gap(number) if number else "") + re.escape(letter) for number, letter in letters)

    def reach(self, text: str, place: int) -> tuple[int, int]:
        """How many of its letters stand in the text from here on, and where the last of them ends."""
        count = 0
        while count < len(self.letters):
            after = self._after(text, place, count)
            if after is None:
                break
            place, count = after, count + 1
        return count, place

    def _after(self, text: str, place: int, number: int) -> int | None:
        """Where the letter of this number ends, which is to come next."""
        letter = self.letters[number]
        if text.startswith(letter, place):
            return place + 1
        if number and place < len(text) and text[place].isspace():
            for gap in _SPACES if number in self.spaced else _BREAKS:
                found = gap.match(text, place)
                if found and text.startswith(letter, found.end()):
                    return found.end() + 1
        return None

    def _gap(self, number: int) -> str:
        return _BETWEEN if number in self.spaced else _INSIDE


class _Beginnings:
    """Finds words that are whole but broken over lines, and the beginnings of those that were cut."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words: dict[str, list[_Word]] = {}
        for word in map(_Word.of, words):
            if len(word.letters) >= LEAST:
                self._words.setdefault(word.letters[0], []).append(word)
        starts = sorted({word.start() for words in self._words.values() for word in words})
        self._start = re.compile("|".join(starts)) if starts else None

    def sub(self, mark: str, text: str, *, at_ends: bool) -> str:
        if self._start is None:
            return text
        parts, place, kept = [], 0, 0
        while found := self._start.search(text, place):
            end = self._end(text, found.start(), at_ends)
            place = found.start() + 1 if end is None else end
            if end is not None:
                parts += [text[kept : found.start()], mark]
                kept = end
        return "".join([*parts, text[kept:]])

    def _end(self, text: str, place: int, at_ends: bool) -> int | None:
        """Where the secret that begins here ends in the text; None when it is something else."""
        ends = (_end_of(word, text, place, at_ends) for word in self._words[text[place]])
        return max((end for end in ends if end is not None), default=None)


class Cut:
    """Takes out what a cut has left of secrets: their beginning before a sign of omission, their end after one."""

    def __init__(self, words: Iterable[str]) -> None:
        """`words`: the secrets in all their spellings."""
        words = tuple(words)
        self._forward = _Beginnings(words)
        self._backward = _Beginnings(word[::-1] for word in words)

    def sub(self, mark: str, text: str) -> str:
        text = self._forward.sub(mark, text, at_ends=True)
        if "…" in text or "..." in text:
            text = self._backward.sub(mark[::-1], text[::-1], at_ends=False)[::-1]
        return text


def _end_of(word: _Word, text: str, place: int, at_ends: bool) -> int | None:
    count, end = word.reach(text, place)
    whole = count == len(word.letters)
    cut = count >= LEAST and _SIGN.match(text, end)
    ended = at_ends and count >= LEAST_AT_AN_END and _END.match(text, end)
    return end if whole or cut or ended else None
