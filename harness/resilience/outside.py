"""Numbers from outside: of providers, servers, sites and files that nobody here has written.

They may be negative, endless, no numbers at all, or larger than any column of a database. One that cannot be true is
unknown, and no caller sees it.
"""

from __future__ import annotations

import math
from typing import Final

MOST_COUNT: Final = 10**12
"""No count of tokens, bytes or calls is larger."""
LONGEST_WAIT: Final = 366 * 86400.0
"""Nobody means a longer wait, in seconds."""


def count_of(value: object) -> int | None:
    """The value if it is a count that can be true, else None. `12.0` is one; `true`, `"12"` and `-1` are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MOST_COUNT or value != int(value):  # nan is in no range
        return None
    return int(value)


def seconds_of(value: object) -> float | None:
    """The seconds that a text or a number says, if they can be true, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= LONGEST_WAIT else None
