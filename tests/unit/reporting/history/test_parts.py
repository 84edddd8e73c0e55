"""Which parts of a divided suite are missing."""

from __future__ import annotations

import pytest

from harness.reporting.history.record import missing_parts


@pytest.mark.parametrize(
    ("shards", "lines"),
    [
        ([], []),
        (["", "3", "0/3", "4/3", "one/two", "9" * 5000 + "/" + "9" * 5000], []),
        (["1/1"], []),
        (["1/3", "3/3", "2/3"], []),
        (["1/3, 2/3", "3/3"], []),
        (["1/3", "2/3", "2/3"], ["part 3 of 3 is missing"]),
        (["2/2", "1/4"], ["part 1 of 2 is missing", "parts 2, 3, 4 of 4 are missing"]),
        (["2/999999999"], ["parts 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 999999988 more of 999999999 are missing"]),
    ],
)
def test_missing_parts(shards: list[str], lines: list[str]) -> None:
    assert missing_parts(shards) == lines
