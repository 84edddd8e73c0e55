"""`${now + 3d | %Y-%m-%d}`: shifts, zones and formats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.generated import Generated
from harness.spec.moments import moment
from harness.spec.references import BadReferenceError, reference, references
from harness.spec.task import TaskSpec

NOW = datetime(2026, 1, 31, 10, 30, 15, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("now", "2026-01-31T10:30:15+00:00"),
        ("now+3d", "2026-02-03T10:30:15+00:00"),
        ("now - 2h | %H:%M", "08:30"),
        ("now + 1w - 1d|%Y-%m-%d", "2026-02-06"),
        ("now + 30m | %H.%M", "11.00"),
        ("now + 10s | %S", "25"),
        ("now + 1mo | %d.%m.%Y", "28.02.2026"),
        ("now + 2mo | %d", "31"),
        ("now - 11mo | %Y-%m-%d", "2025-02-28"),
        ("now + 2y | %Y-%m-%d", "2028-01-31"),
        ("now | %y%j %I%p %A %a %B %b", "26031 10AM Saturday Sat January Jan"),
        ("now | %f %G-W%V-%u 100%% day", "000000 2026-W05-6 100% day"),
        ("now | %z %d. März", "+0000 31. März"),
    ],
)  # fmt: skip
def test_a_moment_is_shifted_and_written(body: str, text: str) -> None:
    assert moment(body).text(NOW, UTC) == text


def test_days_keep_the_time_of_day_and_hours_their_length_when_the_clocks_change() -> None:
    evening = datetime(2026, 3, 28, 18, tzinfo=BERLIN)
    assert moment("now + 1d").text(evening, BERLIN) == "2026-03-29T18:00:00+02:00"
    assert moment("now + 24h").text(evening, BERLIN) == "2026-03-29T19:00:00+02:00"
    left_out = datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN)
    assert moment("now + 1d").text(left_out, BERLIN) == "2026-03-29T03:30:00+02:00"


@given(st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)), st.integers(0, 999_999), st.sampled_from("smh"))
def test_there_and_back_is_the_same_moment(at: datetime, amount: int, unit: str) -> None:
    now = at.replace(microsecond=0, tzinfo=UTC).astimezone(BERLIN)
    assert moment(f"now + {amount}{unit} - {amount}{unit}").text(now, BERLIN) == now.isoformat()


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("at ${now + 3 days}", 9, "a whole number, and s, m (minutes)"),
        ("${now 3d}", 6, "after `now` may follow"),
        ("${now + 3d+x}", 10, "after `now` may follow"),
        ("${now + 1234567d}", 6, "after `now` may follow"),
        ("${now | }", 5, "no format after `|`"),
        ("${now | %Y-%-d}", 11, "`%-` is not a directive of every platform"),
        ("${now |%F}", 7, "write %Y-%m-%d"),
        ("${now | 5%}", 9, "write `%%` for a percent sign"),
        ("${now | %c}", 8, "`%c`"),
        ("${now | %Z}", 8, "`%Z`"),
    ],
)
def test_what_is_wrong_is_told_at_its_character(text: str, offset: int, words: str) -> None:
    with pytest.raises(BadReferenceError) as raised:
        list(references(text))
    assert raised.value.offset == offset
    assert words in str(raised.value)


def text(body: str, *, timezone: str | None = None, **spec: str) -> str:
    made = Generated(TaskSpec(task_id="T", **spec), NOW, timezone)(reference(body))
    assert isinstance(made, str)
    return made


def test_now_is_the_time_of_the_task_in_its_zone_else_the_start_in_the_zone_of_the_browser() -> None:
    time = "2025-11-16T23:00:00+09:00"
    assert text("now", time=time) == time
    assert text("now", time=time, timezone="Europe/Berlin") == time
    assert text("now", timezone="Asia/Tokyo") == "2026-01-31T19:30:15+09:00"


def test_without_any_zone_it_is_that_of_the_machine() -> None:
    assert datetime.fromisoformat(text("now")) == NOW
    assert text("now | %H:%M %z") == NOW.astimezone().strftime("%H:%M %z")
    assert text("now + 40d | %d") == (NOW.astimezone() + timedelta(40)).strftime("%d")


def test_a_moment_beyond_the_calendar_and_a_zone_that_is_missing_are_told() -> None:
    for far in ("now + 9999y", "now - 9999y", "now + 999999w", "now - 999999w"):
        with pytest.raises(BadReferenceError, match="years 1 to 9999"):
            text(far)
    with pytest.raises(BadReferenceError, match="no time zone `Mars/Base`"):
        text("now", timezone="Mars/Base")


def test_all_occurrences_have_the_same_instant() -> None:
    made = Generated(TaskSpec(task_id="T"), NOW.astimezone(timezone(timedelta(hours=1))))
    assert {made(reference("now | %f")), made(reference("now|%f"))} == {"000000"}
