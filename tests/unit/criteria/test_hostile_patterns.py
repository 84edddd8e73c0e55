"""Regular expressions that would fill the memory, overflow the stack or never end."""

from __future__ import annotations

import pytest

from harness.criteria.patterns import LARGEST, PatternError, compiled
from tests.unit.criteria.conftest import World
from tests.unit.criteria.test_hostile import in_bounded_time, refusal
from tests.unit.criteria.trees import Hand

LARGE = ["(?:a|bc){250000}", "(?:(?:a|bc){500}){500}", "(?:a|bc){300}{300}", "((a{1000}){1000}){1000}"]
HIDDEN = ["(?x)(?:a|bc){ 250000 }", "(?ix:(?:a|bc){2 5 0000})", "(?:" + "a|bc|" * 80 + "[(])" + "{9999}"]
HIDDEN += [
    "(?#[)(?:a|bc){99999}",
    "(?#[)(?:a|bc){99999}(?:])",
    r"\\(?#()a",
    "[[a](?:b|cd){99999}]",
    "[)]a|bc){250000}",
    "(?:[^]()]|bc){99999}",
]


@pytest.mark.parametrize("pattern", LARGE + HIDDEN)
def test_a_pattern_that_would_kill_python_is_refused(pattern: str) -> None:
    """`regex.compile("(?:a|bc){250000}")` overflows the stack."""
    with pytest.raises(PatternError):
        compiled(pattern)
    assert refusal(f"mem('a') matches {Hand().quoted(pattern)}")


@pytest.mark.parametrize(
    "pattern",
    [
        "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
        r"^\(\d{3}\) [0-9]{3}-[0-9]{4}$",
        "[(]{1,3}[^()]{1,80}[)]{1,3}",
        r"(?i)\p{L}{1,40}\s.{0,2000}",
        "(?:(?:a|bc){40}){40}",
        f".{{{LARGEST}}}",
        "[[:alpha:]]{2,50}",
        r"(total \(?x)?",
    ],
)
def test_a_pattern_of_a_reasonable_size_is_taken(pattern: str) -> None:
    assert compiled(pattern)


def test_many_large_patterns_compile_in_bounded_time() -> None:
    different = (f"mem('a') matches '(?:[a{chr(0x4E00 + number)}]|b){{3300}}'" for number in range(230))
    assert refusal("ANY[" + ",".join(different) + "]") is None


RUNAWAYS = ["(a+)+$", "(a|aa)+$", "(?:a|b|ab)*c$", "(a*)*b{3}$", r"(?=(a+)+$)x", "(?:abcde){e<=2}!!$"]


@pytest.mark.parametrize("pattern", RUNAWAYS)
def test_a_runaway_pattern_is_stopped(pattern: str, world: World) -> None:
    world.entries = {"many": ["a" * 20_000 + "!"] * 50}
    with in_bounded_time(4):
        assert not world.holds(f"ANY[mem('many.*').matches('{pattern}')]")


def test_many_runaway_patterns_share_their_time(world: World) -> None:
    world.entries = {"long": "a" * 20_000 + "!"}
    runaway = "mem('long') matches '(a+)+$'"
    with in_bounded_time(8):
        assert "took more than" in world.message(f"WITHIN(0.5, ALL[{f'!({runaway}),' * 20} {runaway}])")
