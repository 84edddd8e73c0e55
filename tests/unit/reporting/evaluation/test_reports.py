"""An evaluation in the terminal, as Markdown, and as a page."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from harness.model.evaluation import Evaluation, EvaluationTrial, GateResult
from harness.reporting.evaluation.page import cost_plot, difference_plot, evaluation_page, rate_plot
from harness.reporting.evaluation.tables import evaluation_markdown, show_evaluation
from harness.reporting.evaluation.trials import write_trial_pages
from tests.unit.runner.evaluation.lines import evaluation, line, lines

WAY = (
    '{"line": "task", "task_id": "T[1]", "key": "k", "source": "t.yaml", "agent": "a", "run": "r", "trial": 0, '
    '"passed": true, "final_state": "completed", "code": null, "seconds": 1.0}\n'
    '{"line": "step", "index": 0, "agent": "careful", "at": "2026-01-01T00:00:00Z", "seconds": 0.1, '
    '"step": {"act": "click", "selector": "#buy <i>"}, "lasting": true, "passed": true, "code": null}\n'
)
HOSTILE = "<script>alert(1)</script> | `x` \x1b[31m"


def sample(**more: object) -> Evaluation:
    found = evaluation(
        lines("builder", ["ppp"] * 8 + ["ppf"] * 4),
        lines("builder-weak", ["pff"] * 6 + ["ppf"] * 6),
        lines("builder", ["pff"] * 12, "cut"),
        lines("builder-weak", ["fff"] * 11 + ["vvf"], "cut"),
    )
    return found.model_copy(update=more)


def terminal(found: Evaluation, width: int = 120) -> str:
    stream = io.StringIO()
    show_evaluation(found, Console(file=stream, width=width, highlight=False, markup=False))
    return stream.getvalue()


def test_the_terminal_tells_rates_pairs_and_costs() -> None:
    text = terminal(sample())
    assert re.search(r"builder +clean +89 % +\d\d to 9\d % +78 % +67 % +12", text)
    assert re.search(r"builder-weak +cut .* 36/36 +2 of 36: 0 to 6 %", text)
    assert "builder is better than builder-weak (clean): +38.9 points" in text
    assert "no verdict: builder-weak, cut: 2 of 36 trials are void (6%, at most 5% may be)" in text
    assert re.search(r"builder +72 +144 +72k / 720 +\$0.72", text)
    assert text.splitlines()[-1] == "no verdict"


def test_a_difference_is_told_as_the_better_one_sees_it() -> None:
    found = evaluation(lines("weak", ["pff"] * 12), lines("strong", ["ppp"] * 12))
    assert "strong is better than weak (clean): +66.7 points (95 %: +42.4 points to +90.9 points)" in terminal(found)


@pytest.mark.parametrize(
    ("several", "said"),
    [
        ((lines("a", ["pff"] * 12), lines("b", ["ppp"] * 12)), "b is better than a (clean)"),
        (
            (lines("a", ["f"] * 12), *(lines(name, ["p"] * 12) for name in "bcde")),
            "b is better than a (clean), c is better than a (clean), and 2 more",
        ),
        ((lines("a", ["f" * 9]), lines("b", ["p" * 9])), "b is better than a on this task (clean)"),
        ((lines("a", ["f" * 9] * 2), lines("b", ["p" * 9] * 2)), "b is better than a on these 2 tasks (clean)"),
        ((lines("a", ["p"]), lines("b", ["p"])), "no agent is better, as far as is known"),
        ((lines("a", ["pf"]),), "2 trials"),
        ((lines("a", ["v"]), lines("b", ["v"])), "no verdict"),
    ],
)
def test_the_headline(several: tuple[list[EvaluationTrial], ...], said: str) -> None:
    found = evaluation(*several)
    assert terminal(found).splitlines()[-1] == said
    assert f": {said}" in evaluation_markdown(found).splitlines()[0]
    assert f"<h1>{said}</h1>" in evaluation_page(found)


@pytest.mark.parametrize("width", [60, 100])
def test_narrow_terminals_lose_nothing(width: int) -> None:
    text = terminal(sample(), width)
    assert max(map(len, text.splitlines())) <= width


def test_the_gate_is_told_with_its_reasons() -> None:
    gate = (GateResult(key="min_pass", agent="builder", met=False, reason="70 % passed, wanted at least 0.8"),)
    found = sample(gate=gate, no_verdict=())
    assert "gate min_pass, builder: NOT met: 70 % passed, wanted at least 0.8" in terminal(found)
    assert "| min\\_pass | builder | **not met** | 70 % passed, wanted at least 0.8 |" in evaluation_markdown(found)
    page = evaluation_page(found)
    assert "gate NOT passed" in page
    assert '<header class="bad">' in page


def test_markdown_has_all_tables() -> None:
    text = evaluation_markdown(sample())
    for title in ("### Rates", "### Tasks", "### Failures by cause", "### Costs"):
        assert title in text
    assert "| T00 | cut | 1/3 | 0/3 |" in text
    assert "| AGENT\\_STUCK | clean | failed |" in text
    assert all(each.endswith("|") for each in text.splitlines() if each.startswith("|"))


def test_the_page_draws_intervals() -> None:
    page = evaluation_page(sample())
    assert page.count('class="interval"') >= 6
    assert 'class="bounds"' in page
    assert 'class="zero"' in page
    assert "Cost of a trial against the share that passes" in page
    assert page.count("<script>") == 1


def test_what_is_decided_comes_first_and_text_and_plot_have_one_direction() -> None:
    found = evaluation(
        lines("a", ["pf"] * 12), lines("b", ["pp", "pf"] + ["pf"] * 10), lines("c", ["pp"] * 12),
        lines("a", ["pf"] * 12, "cut"), lines("b", ["pf"] * 12, "cut"), lines("c", ["pp"] * 12, "cut"),
    )  # fmt: skip
    page = evaluation_page(found)
    told = re.findall(r"<li(?: class=\"open\")?><strong>(.*?)</strong>(\S+) points", page)
    differences = difference_plot(found)
    assert differences is not None
    drawn = [(row.label, row.text.partition(" ")[0]) for row in differences.rows]
    assert [number for _, number in told] == [number for _, number in drawn]
    assert all(not number.startswith("-") for _, number in told)
    for (sentence, _), (label, _) in zip(told, drawn, strict=True):
        one, other = label.partition(",")[0].split(" minus ")
        assert sentence.startswith((f"{one} is better than {other}", "whether "))
    opened = [sentence.startswith("whether") for sentence, _ in told]
    assert opened == sorted(opened)
    assert "+4.2 points for b (95 %: " in page
    lines_told = [line for line in terminal(found, 400).splitlines() if "(clean)" in line or "(cut)" in line]
    assert [line.startswith("whether") for line in lines_told][:6] == opened


def test_more_trials_are_told_with_the_condition() -> None:
    few = terminal(evaluation(lines("a", ["pp", "pp"]), lines("b", ["pf", "pp"])), 400)
    assert "more trials of each task: 13 would show this difference and " in few
    assert "on these tasks in four of five evaluations, if pairs go on to differ as often as here" in few
    many = evaluation(lines("a", ["pp"] * 12), lines("b", ["pf", *["pp"] * 11]))
    assert "more trials" not in terminal(many) + evaluation_page(many) + evaluation_markdown(many)


def test_columns_that_the_caption_explains_are_there() -> None:
    assert "<td>0</td></tr>" in evaluation_page(sample()), "none of the first agent's trials is void"
    assert "pass^k" in evaluation_page(sample())
    assert "pass^k" not in evaluation_page(evaluation(lines("a", ["p"] * 2)))


def test_a_cell_leads_to_its_trials_and_to_what_the_agent_did(tmp_path: Path) -> None:
    way = tmp_path / "trajectories" / "T--a--clean--0"
    way.mkdir(parents=True)
    (way / "trajectory.jsonl").write_text(WAY, "utf-8")
    (tmp_path / "errors/T--b").mkdir(parents=True)
    (tmp_path / "errors/T--b/error_report.json").write_text("{}", "utf-8")
    trials = [
        line("T[1]", "a", 0, "p", trajectory="trajectories/T--a--clean--0/trajectory.jsonl"),
        line("T[1]", "b", 0, "f", artifacts="errors/T--b", message=HOSTILE),
        line("T[1]", "c d", 0, "p", trajectory="../../etc/passwd"),
    ]
    write_trial_pages(trials, tmp_path)
    page = evaluation_page(evaluation(trials), trials)
    links = re.findall(r'<a href="(trials/[^"]+)">([^<]*)</a>', page)
    assert [text for _, text in links] == ["1/1", "0/1", "1/1", "AGENT_STUCK"]
    (file,) = (tmp_path / "trials").iterdir()
    text = file.read_text("utf-8")
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for href, _ in links:
        name, _, anchor = href.partition("#")
        assert tmp_path / name == file
        assert anchor in ids
    assert "careful: click #buy &lt;i&gt; -&gt; passed" in text
    assert "No trajectory of it is kept." in text
    assert 'href="../errors/T--b/error_report.json"' in text
    assert 'href="../trajectories/T--a--clean--0/trajectory.jsonl"' in text
    assert "<script>alert" not in text
    assert "etc/passwd" not in text


def test_a_code_leads_to_the_artifacts_of_its_first_trial() -> None:
    found = evaluation([line("T", "a", 0, "f", artifacts="errors/T--a b--0"), line("T", "a", 1, "v")])
    page = evaluation_page(found)
    assert '<a href="errors/T--a%20b--0/">AGENT_STUCK</a>' in page
    assert '<th scope="row">MODEL_UNAVAILABLE</th>' in page


def test_positions_are_within_the_drawing() -> None:
    found = sample()
    differences = difference_plot(found)
    assert differences is not None
    for plot in (rate_plot(found), differences):
        places = [place for row in plot.rows for place in (row.value, *(row.interval or ()), *(row.bounds or ()))]
        assert all(8 <= place <= 392 for place in places if place is not None)
        assert [row.y for row in plot.rows] == sorted(row.y for row in plot.rows)
    costs = cost_plot(found)
    assert costs is not None
    assert [dot.agent for dot in costs.dots] == ["builder", "builder-weak"]


def test_one_agent_without_a_model_has_no_pairs_and_no_costs() -> None:
    free = sample().totals[0].models.model_copy(update={"cost_usd": 0})
    found = evaluation(lines("scripted", ["pp"], models=free))
    assert difference_plot(found) is None
    assert cost_plot(found) is None
    page = evaluation_page(found)
    assert "There are no pairs of trials to compare." in page
    assert "No intervals: there are fewer than 10 tasks." in page


def test_texts_of_others_are_escaped() -> None:
    found = evaluation([line("<b>T", "a", 0, "f", message=HOSTILE)])
    assert "<script>alert" not in evaluation_page(found)
    assert "<b>T" not in evaluation_page(found)
    assert "<script>" not in evaluation_markdown(found)
    assert "\x1b" not in evaluation_page(found) + evaluation_markdown(found) + terminal(found)
