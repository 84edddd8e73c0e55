"""A run as Markdown for the page of a CI job."""

from __future__ import annotations

import pytest

from harness.reporting.history.record import RunRecord
from harness.reporting.markdown import LIMIT, Page, code, escape_markdown, markdown
from harness.reporting.triage import Trouble, causes, troubles
from tests.unit.reporting.history import runs


def page(run: RunRecord, **fields: object) -> Page:
    return Page(**{"run": run, "causes": causes(troubles(run)), "uncollected": {}, "reports": (), **fields})


def section(text: str, title: str) -> list[str]:
    """Its lines."""
    return [line for line in text.partition(f"### {title}\n")[2].partition("###")[0].splitlines() if line]


def test_the_first_lines_say_how_it_went() -> None:
    lines = markdown(page(runs.run())).splitlines()
    assert lines[0] == "## ❌ 10 of 18 tasks failed"
    assert lines[2] == (
        "7 passed (1 as declared), 10 failed, 1 skipped, 1 flaky, 1 healed in 90 s. "
        "Run <code>20251116T090000-4711</code>."
    )


def test_what_was_cut_off_from_outside_has_not_failed() -> None:
    parts = [runs.execution(runs.failed("A", "INTERRUPTED")), runs.execution(runs.failed("B", "STEP_TIMEOUT"))]
    lines = markdown(page(runs.run(parts=parts))).splitlines()
    assert lines[0] == "## ❌ 1 of 2 tasks failed"
    assert lines[2].startswith("1 failed, 1 not judged in ")
    assert "not judged: " in section("\n".join(lines), "Failures by cause")[-1]


@pytest.mark.parametrize("code", ["WORKER_CRASHED", "INTERRUPTED"])
def test_a_run_with_a_task_that_is_not_judged_is_not_green(code: str) -> None:
    parts = [runs.execution(runs.record("A")), runs.execution(runs.failed("B", code))]
    text = markdown(page(runs.run(parts=parts)))
    assert text.splitlines()[0] == "## ⚠️ 2 tasks, none failed, 1 not judged"
    assert section(text, "Tasks that are not judged")
    assert "Failed tasks" not in text


def test_a_rerun_that_did_not_come_about_has_failed() -> None:
    parts = [runs.execution(runs.failed("A", "STEP_TIMEOUT"), "rerun")]
    text = markdown(page(runs.run(parts=parts)))
    assert text.startswith("## ❌ 1 of 1 tasks failed\n\n1 failed in ")
    assert section(text, "Failed tasks")


def test_every_failure_has_its_cause_its_step_its_message_and_what_to_do() -> None:
    text = markdown(page(runs.run()))
    assert len(section(text, "Failures by cause")) == 12
    rows = section(text, "Failed tasks")
    assert len(rows) == 12
    (row,) = (each for each in rows if each.startswith("| T-FAILED-0 "))
    assert "<code>ELEMENT\\_NOT\\_FOUND</code> | 1 click | Element not found: \\#checkout |" in row


def test_a_criterion_is_at_the_end_as_in_the_terminal() -> None:
    steps = (runs.step(0, True), runs.step(3, False, code="CRITERIA_UNMET"))
    unmet = runs.failed("T-1", "CRITERIA_UNMET", step_index=3, steps=steps, steps_total=3)
    (row,) = (trouble.step for trouble in troubles(runs.run(parts=[runs.execution(unmet)])))
    assert row == "end assert"
    assert Trouble("T", "AGENT_FAILED", step_index=3, steps_total=3).step == "3"


def test_what_passed_and_still_needs_somebody() -> None:
    flaky, healed = section(markdown(page(runs.run())), "Flaky and healed")
    assert flaky == "- T-FLAKY passed at execution 2, after STEP\\_TIMEOUT: the step took longer than 10 s"
    assert healed == (
        "- T-HEALED healed: <code>\\#buy</code> matched nothing, <code>\\[data-test=buy\\]</code> was used "
        "(update tasks/T-HEALED.task.yaml step 1)"
    )


def test_what_healed_under_an_injected_fault_is_left_as_it_is() -> None:
    healed = runs.record("T-1", warnings=({**runs.HEALED, "under_fault": True},), faults={"late": "struck"})
    (line,) = section(markdown(page(runs.run(parts=[runs.execution(healed)]))), "Flaky and healed")
    assert line.endswith("was used (healed under an injected fault: nothing to change)")
    assert "update" not in line


def test_trouble_around_the_tasks_and_no_news_of_what_works_again() -> None:
    lines = section(markdown(page(runs.run())), "Circuits and services")
    assert [line[2:10] for line in lines] == ["09:00:26", "09:00:40"], "a threshold is neither"
    assert "origin:http:\\//bank.local" in lines[0]


def test_a_single_failure_is_one_table() -> None:
    text = markdown(page(runs.run(parts=[runs.execution(runs.failed("T-1", "STEP_TIMEOUT"))], happenings=())))
    assert "Failures by cause" not in text
    *rows, last = section(text, "Failed tasks")
    assert (len(rows), last) == (3, "Look first at <code>harness explain STEP\\_TIMEOUT</code>.")


def test_a_green_run_is_short() -> None:
    text = markdown(page(runs.run(parts=[runs.execution(runs.record("A"))], happenings=())))
    assert text.splitlines()[0] == "## ✅ 1 task, none failed"
    assert "###" not in text


def test_files_that_could_not_be_collected_and_where_the_reports_are() -> None:
    bare = runs.run(parts=(), happenings=())
    text = markdown(page(bare, uncollected={"a.task.yaml": "a.task.yaml:3: bad"}, reports=[("JUnit", "j.xml")]))
    assert text.startswith("## No task ran\n")
    assert section(text, "Files that could not be collected") == ["- <code>a.task.yaml</code>: a.task.yaml:3: bad"]
    assert section(text, "Reports") == ["- JUnit: <code>j.xml</code>"]


def test_a_page_never_outgrows_what_github_takes() -> None:
    long = "<&>|" * 500
    parts = [
        runs.execution(runs.failed(f"T-{n}", "CRITERIA_UNMET", message=f"mem('k{n}') {long}", hint=long))
        for n in range(2000)
    ]
    run = runs.run(parts=parts)
    whole = markdown(page(run))
    assert len(whole.encode()) <= LIMIT
    assert "more: `harness triage` lists them." in whole
    assert len(markdown(page(run), 20_000).encode()) <= 20_000
    assert markdown(page(run), 10) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a | b", "a \\| b"),
        ("![x](http://evil/)", "\\!\\[x\\](http:\\//evil/)"),
        ("@team see #12", "\\@team see \\#12"),
        ("line\n## two\x1b[31m", "line \\#\\# two \\[31m"),
        ("&amp; `c`", "&amp;amp; \\`c\\`"),
        ("- item", "\\- item"),
        ("1. item", "&#8203;1. item"),
        ("www.evil.example", "www\\.evil.example"),
    ],
)
def test_text_of_pages_is_text(text: str, shown: str) -> None:
    assert escape_markdown(text) == shown


def test_a_program_s_letters() -> None:
    assert code("`a|b`") == "<code>\\`a\\|b\\`</code>"
    assert code("") == ""
