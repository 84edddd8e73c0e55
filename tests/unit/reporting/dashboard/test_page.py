"""The page as a file: whole, closed, and free of what others wrote."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from html.parser import HTMLParser

import pytest

from harness.reporting.dashboard.page import drawn_bars, durations, outcomes
from harness.reporting.dashboard.timeline import amount, duration, visible, with_code
from harness.reporting.dashboard.view import DrawnAttempt, Occurrence
from tests.unit.reporting.dashboard.pages import EVIL, hostile_run, page_of, trend
from tests.unit.reporting.history.runs import execution, failed, many, record, run


class Tags(HTMLParser):
    """All tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("made", [run(), hostile_run(), run(parts=())])
def test_nothing_is_loaded_from_anywhere(made: object) -> None:
    for tag, attributes in Tags(page_of(made, trend())).found:  # type: ignore[arg-type]
        assert tag not in ("iframe", "object", "embed", "base")
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "link" or attributes["href"] == "data:,"
        assert "src" not in attributes or str(attributes["src"]).startswith("data:image/png;")


def test_the_only_script_is_the_one_that_the_policy_names() -> None:
    text = page_of(hostile_run())
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(a["content"] for _, a in Tags(text).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")


def test_hostile_texts_stay_texts() -> None:
    text = page_of(hostile_run())
    links = [str(a["href"]) for tag, a in Tags(text).found if tag == "a"]
    assert all(link.startswith(("#", "../", "errors/")) for link in links)
    assert "{{ 7 * 7 }}" in text
    assert visible(EVIL) != EVIL
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2028]", text)


def test_a_failure_is_a_row_and_tasks_of_one_cause_stand_together() -> None:
    lone = execution(failed("LONE", "STEP_TIMEOUT", message="too long", suspect="task"))
    many_ = [execution(failed(name, "SERVICE_DOWN", message="`x` is down", service="x")) for name in ("A", "B")]
    text = page_of(run(parts=[lone, *many_]))
    causes = re.findall(
        r'<div class="cause" id="cause-\d">(.*?)(?=<div class="cause"|</section>)',
        text.replace(' role="group" aria-label="Cause 1"', "").replace(' role="group" aria-label="Cause 2"', ""),
        re.DOTALL,
    )
    rows = [re.findall(r'<details class="row">.*?<b class="id">(.*?)</b>', cause, re.DOTALL) for cause in causes]
    assert rows == [["A", "B"], ["LONE"]]
    assert "2 tasks, one cause: `x` is down</h3>" in causes[0]
    assert '<span class="chip task">task</span>' in causes[1]
    assert "<h3>" not in causes[1]


def test_the_attempts_of_a_task_are_drawn_where_they_were() -> None:
    bars = (DrawnAttempt(start=0, end=1, passed=True), DrawnAttempt(start=2, end=4, passed=False))
    task = Occurrence(task_id="T", cause="c", seconds=4, bars=bars)
    assert drawn_bars(task, passed=True) == "M0 0h25v10h-25z"
    assert drawn_bars(task, passed=False) == "M50 0h50v10h-50z"


def test_a_file_that_was_not_collected_is_a_row() -> None:
    text = page_of(run(parts=[execution(record("T-1"))], uncollected={"test_a.py": "ImportError: <b>"}))
    assert '<b class="id">test_a.py</b>' in text
    assert "ImportError: &lt;b&gt;" in text
    assert '<header class="bad">' in text


def test_ids_are_there_once_and_links_within_lead_somewhere() -> None:
    tags = Tags(page_of(run(), trend())).found
    ids = [str(a["id"]) for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))
    inner = {str(a["href"])[1:] for tag, a in tags if tag == "a" and str(a["href"]).startswith("#")}
    assert inner <= set(ids)
    referred = {name for _, a in tags for key in ("aria-labelledby", "for") for name in str(a.get(key) or "").split()}
    assert referred <= set(ids)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (run(parts=()), "No task was run, so nothing failed"),
        (run(parts=[execution(record("T-1"))]), "No task failed."),
        (run(parts=[execution(record("T-1"))]), "No flaky task, no healed selector."),
        (run(parts=[execution(record("T-1"))], happenings=()), "No circuit opened, no service went down"),
        (run(metrics={}), "The run wrote no figures."),
        (run(), "There is no history of runs: trends begin with the second."),
    ],
)
def test_what_there_is_nothing_of_is_said(found: object, words: str) -> None:
    assert words in page_of(found)  # type: ignore[arg-type]


def test_a_thousand_tasks_are_a_small_file() -> None:
    assert len(page_of(many(1000), trend(28)).encode()) < 1_000_000


def test_a_plot_has_no_script_no_style_and_no_comment() -> None:
    drawn = str(outcomes(trend()))
    assert not re.search(r"<script|<style|<!--|<desc|style=", drawn)
    assert 'role="img" aria-label="Tasks passed, failed and skipped in each run"' in drawn
    assert "<title>11-12 09:00:00: 5</title>" in drawn


def test_a_trend_names_the_last_run() -> None:
    assert ">11-12 09:00</text>" in str(durations(trend()[::-1]))


def test_plots_of_nothing_are_nothing() -> None:
    assert str(outcomes(())) == str(durations(())) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (38.2, "38 s"), (725, "12 min 5 s"), (3725, "1 h 2 min"), (59.7, "1 min 0 s")],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("use `wait` or `#a > b`", "use <code>wait</code> or <code>#a &gt; b</code>"),
        ("`<b>` {x}", "<code>&lt;b&gt;</code> {x}"),
        ("a lone ` <i>", "a lone ` &lt;i&gt;"),
    ],
)
def test_what_is_in_backticks_is_code(text: str, html: str) -> None:
    assert str(with_code(text)) == html


def test_amounts_have_the_right_number() -> None:
    assert (amount(1, "task"), amount(1200, "task"), amount(2, "retry", "retries")) == (
        "1 task",
        "1,200 tasks",
        "2 retries",
    )
