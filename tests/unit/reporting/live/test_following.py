"""Lines of event files: whole ones, each once, from any offset."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reporting.live.following import Followers, RunFollower, lines_from, runs_with_events
from harness.reporting.telemetry.log import events_of

LINES = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1), max_size=30)


@given(lines=LINES, limit=st.integers(1, 200))
def test_each_line_comes_once_in_whatever_parts_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], limit: int
) -> None:
    file = tmp_path_factory.mktemp("events") / "R.jsonl"
    file.write_bytes("".join(f"{line}\n" for line in lines).encode() + b"half a li")
    offset, found = 0, []
    while (part := lines_from(file, offset, limit)).lines:
        found += part.lines
        offset = part.end
    assert found == lines


def test_an_offset_behind_the_end_belongs_to_another_file(tmp_path: Path) -> None:
    file = tmp_path / "R.jsonl"
    file.write_text("one\n", "utf-8")
    assert lines_from(file, 99).lines == ("one",)


def test_a_follower_gets_what_is_appended_and_waits_without_a_file(tmp_path: Path) -> None:
    file = tmp_path / "R.jsonl"

    async def follow() -> list[str]:
        found: list[str] = []
        follower = RunFollower(file)
        async for part in follower.lines(0):
            if part is not None:
                found += part.lines
            elif not file.exists():
                file.write_text("first\nsec", "utf-8")
            elif "first" in found:
                with file.open("a") as more:
                    more.write("ond\n")
            if len(found) >= 2:
                break
        return found

    assert asyncio.run(asyncio.wait_for(follow(), 20)) == ["first", "second"]


def test_only_runs_with_events_can_be_followed(tmp_path: Path) -> None:
    for run in ("20260101T000000-1", "20260102T000000-1"):
        events_of(tmp_path, run).parent.mkdir(parents=True, exist_ok=True)
        events_of(tmp_path, run).touch()
    assert runs_with_events(tmp_path) == ("20260102T000000-1", "20260101T000000-1")
    assert Followers(tmp_path).of("20260101T000000-1").file.name == "20260101T000000-1.jsonl"
    for strange in ("../../etc/passwd", "nothing"):
        with pytest.raises(LookupError, match="no events"):
            Followers(tmp_path).of(strange)
