"""Which parts of a divided suite (`--task-shard I/N`) are not among the runs that are put together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count, islice

_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_NAMED = 10


def missing_parts(shards: Iterable[str]) -> list[str]:
    """A line for each division of which parts are missing. `shards`: as runs record them, `1/3` or `1/3, 2/3`."""
    there: dict[int, set[int]] = {}
    for part in (part for shard in shards for part in shard.split(", ")):
        if (found := _PART.fullmatch(part)) and 1 <= int(found[1]) <= int(found[2]):
            there.setdefault(int(found[2]), set()).add(int(found[1]))
    return [_told(known, of) for of, known in sorted(there.items()) if len(known) < of]


def _told(known: set[int], of: int) -> str:
    """The first ones are named: files from elsewhere may say any number."""
    number = of - len(known)
    first = ", ".join(map(str, islice((each for each in count(1) if each not in known), min(number, _NAMED))))
    if number == 1:
        return f"part {first} of {of} is missing"
    more = f" and {number - _NAMED} more" if number > _NAMED else ""
    return f"parts {first}{more} of {of} are missing"
