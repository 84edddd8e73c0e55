"""How problems are shown to GitHub, and how they are counted."""

from __future__ import annotations

import pytest

from harness.cli.validate import Checked, Format, annotation, counts, show
from harness.spec.problems import Problem


def test_an_annotation_names_the_place() -> None:
    problem = Problem("tasks/a.task.yaml", 3, 7, "steps[0].act", "not a known act", hint="did you mean `click`?")
    assert annotation(problem) == (
        "::error file=tasks/a.task.yaml,line=3,col=7,title=steps[0].act::not a known act%0Ahint: did you mean `click`?"
    )


def test_what_github_would_read_as_its_own_is_escaped() -> None:
    problem = Problem("a,b:c%.yaml", 1, 1, "x['a:b,c']", "50 %\r\nof: it,", "::stop", severity="warning")
    assert annotation(problem) == (
        "::warning file=a%2Cb%3Ac%25.yaml,line=1,col=1,title=x['a%3Ab%2Cc']::50 %25%0D%0Aof: it,%0Aexpected: ::stop"
    )


def test_a_problem_without_a_place() -> None:
    assert annotation(Problem("", None, None, "", "no task files")) == "::error title=task file::no task files"


def test_a_file_with_several_errors_counts_once() -> None:
    problems = (
        Problem("a", 1, 1, "", "x"),
        Problem("a", 2, 1, "", "y"),
        Problem("b", 1, 1, "", "z", severity="warning"),
    )
    assert counts(Checked(("a", "b"), (), problems)) == {
        "files": 2, "loaded": 0, "with_errors": 1, "errors": 2, "warnings": 1,
    }  # fmt: skip


def test_errors_come_last_and_the_same_warning_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    files = [f"t{number}" for number in range(6)]
    own = [Problem(file, 2, 3, "meta", "unknown key `meta`", hint="drop it", severity="warning") for file in files]
    errors = [Problem(file, 1, 1, "steps", "no steps") for file in files[:2]]
    show(Checked(tuple(files), (), (errors[0], *own, errors[1])), Format.TEXT)
    assert capsys.readouterr().out.splitlines() == [
        "warning: t0:2:3: meta: unknown key `meta`",
        "  hint: drop it",
        "  5 times more: t1:2:3, t2:2:3, t3:2:3 and 2 more",
        "error: t0:1:1: steps: no steps",
        "error: t1:1:1: steps: no steps",
        "6 task files, 0 loaded, 2 with errors, 6 warnings",
    ]
