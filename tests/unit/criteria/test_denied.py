"""The selectors of which a criterion says only that nothing is there."""

from __future__ import annotations

import pytest

from harness.criteria import parse


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("NOT[visible('#a')]", "#a"),
        ("!exists('#a')", "#a"),
        ("visible('#a') == false", "#a"),
        ("NOT[visible('#a') == true]", "#a"),
        ("count('#a') == 0", "#a"),
        ("0 == count('#a')", "#a"),
        ("count('#a') < 1", "#a"),
        ("NOT[count('#a') > 0]", "#a"),
        ("EVENTUALLY(NOT[visible('#a')]) && text('#b') == 'x'", "#a"),
        ("visible('#a')", ""),
        ("NOT[NOT[visible('#a')]]", ""),
        ("count('#a') == 1", ""),
        ("NOT[count('#a') == 0]", ""),
        ("count('#a') == count('#b')", ""),
        ("NOT[text('#a') == 'x']", ""),
        ("NOT[visible('#a')] && text('#a') == 'x'", ""),
        ("visible('#a') == true", ""),
    ],
)
def test_what_a_criterion_denies(text: str, denied: str) -> None:
    assert [selector for selector, _ in parse(text).denied] == [each for each in [denied] if each]
