"""`before_each` and `after_each`, of the settings and of tasks, in Chromium."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from harness.spec.load import load_file
from tests.acceptance.warm import warm

PAGE = """<!doctype html><title>Shop</title><h1>Shop</h1>
<div id=banner>Cookies <button id=accept onclick="banner.remove(); fetch('/accepted')">Accept</button></div>
<div id=promo hidden onclick="promo.hidden = true; fetch('/promo')">Buy</div>
<script>if (location.search === '?promo') promo.hidden = false;</script>"""
SETTINGS = """\
[tool.harness]
base_url = "{url}"
handlers = [{{when = "visible('#promo')", steps = [{{click = "#promo"}}]}}]
before_each = ["banner", {{use = "mark", for_each = ["a", "b"], with = {{name = "before-${{each}}"}}}}]
after_each = ["tidy"]
"""
NO_STEP = "{act: click, selector: '#none'}"
FILES = {
    "pytest.ini": "[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n",
    "steps/banner.steps.yaml": """steps:
  - open: /?promo
  - {click: "#none", when: "exists('#none')"}
  - click: "#accept"
  - assert: "!exists('#banner')"
""",
    "steps/mark.steps.yaml": "parameters: {name: }\nsteps:\n  - api: /${with.name}\n",
    "steps/tidy.steps.yaml": "steps:\n  - open: /tidy\n  - {api: /reset, method: POST}\n",
    "tasks/passes.task.yaml": "steps:\n  - see: Shop\n  - api: /own\nsuccess_criteria: [exists('h1')]\n",
    "tasks/out.task.yaml": "before_each: []\nafter_each: []\nsteps:\n  - api: /own\n  - open: /\n",
    "tasks/unmet.task.yaml": "steps:\n  - open: /?unmet\nsuccess_criteria: [\"text('h1') == 'Cart'\"]\n",
    "tasks/late.task.yaml": "budget: {max_seconds: 3}\nsteps:\n  - open: /\n  - wait: 30\n",
    "tasks/before.task.yaml": f"before_each: [{NO_STEP}]\nsteps:\n  - api: /own\n",
    "tasks/after.task.yaml": f"after_each: [{NO_STEP}]\nsteps:\n  - open: /\n",
    "tasks/both.task.yaml": f"after_each: [{NO_STEP}, mark]\nsteps:\n  - open: /\n  - see: nothing\n".replace(
        "mark]", "{use: mark, with: {name: x}}]"
    ),
    "tasks/known.task.yaml": f"expected_failure: 'a known defect'\nbefore_each: [{NO_STEP}]\nsteps:\n  - api: /own\n",
    "tasks/declared.task.yaml": f"after_each: [{NO_STEP}]\nexpect: {{final_state: failed, code: ELEMENT_NOT_FOUND}}\n"
    "steps:\n  - open: /\n  - click: '#no-such'\n",
}  # fmt: skip
QUICK = "error_recovery: {on_element_not_found: {wait_seconds: 0.5}}\n"


@pytest.fixture
def project(tmp_path: Path, httpserver: HTTPServer) -> Path:
    def answer(request: Request) -> Response:
        return Response(PAGE if request.path == "/" else "<h1>other</h1>", content_type="text/html")

    httpserver.expect_request("/").respond_with_handler(answer)
    for name in ("tidy", "reset", "accepted", "promo", "own", "before-a", "before-b", "x"):
        httpserver.expect_request(f"/{name}").respond_with_handler(answer)
    settings = SETTINGS.format(url=httpserver.url_for("").rstrip("/"))
    for name, text in {**FILES, "pyproject.toml": settings}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text + (QUICK if file.name.endswith(".task.yaml") else ""), "utf-8")
    return tmp_path


def report(project: Path, task: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project / "errors" / task / "error_report.json").read_text("utf-8"))
    return found


def visits_of_tasks(httpserver: HTTPServer) -> dict[str, list[str]]:
    """Task -> what it and its hooks have asked for: each has a world of its own, and they run in their order."""
    worlds = defaultdict[str, list[str]](list)
    for request, _ in httpserver.log:
        if "favicon" not in request.path:
            worlds[request.headers["User-Agent"].rpartition("harness-world/")[2]].append(request.path)
    names = sorted(name.partition("/")[2].partition(".")[0] for name in FILES if name.startswith("tasks/"))
    return dict(zip(names, worlds.values(), strict=True))


def test_hooks_are_done_around_each_task(project: Path, httpserver: HTTPServer) -> None:
    """One run of all tasks."""
    done = warm().run("pytest", "tasks", "-v", "--alluredir", "allure", cwd=project).stdout
    visits, ended = visits_of_tasks(httpserver), dict(re.findall(r"::(\w+) (PASSED|FAILED)", done))
    told = dict(re.findall(r"(?ms)^_+ (\w+) _+$(.*?)(?=^_{3}|^={3})", done))
    assert {name for name, outcome in ended.items() if outcome == "PASSED"} == {"passes", "out"}, done
    before, after = ["/", "/promo", "/accepted", "/before-a", "/before-b"], ["/tidy", "/reset"]
    assert visits["passes"] == [*before, "/own", *after], done
    assert visits["out"] == ["/own", "/"], done
    # Also after a failure, whose evidence is that of the failure; also when the task's time is over.
    assert visits["unmet"] == [*before, "/", *after]
    found = report(project, "unmet")
    assert (found["code"], found["context"]["url"].endswith("/?unmet")) == ("CRITERIA_UNMET", True)
    assert visits["late"][-3:] == ["/", *after]
    assert report(project, "late")["code"] == "BUDGET_EXCEEDED"
    # A failure in them is one of what the project provides, with the group and the step.
    assert visits["before"] == after
    assert "HOOK_FAILED in `before_each`" in told["before"]
    found = report(project, "before")
    assert (found["code"], found["step_index"]) == ("HOOK_FAILED", -1)
    assert "A step of `before_each` failed" in told["before"]
    assert "(ELEMENT_NOT_FOUND)" in told["before"]
    assert report(project, "after")["code"] == "HOOK_FAILED"
    assert visits["both"][-1] == "/", "the steps after one that failed are not done"
    found = report(project, "both")
    assert found["code"] != "HOOK_FAILED"
    assert "after_each_failed" in json.dumps(found)
    assert visits["known"] == after
    assert "A step of `after_each` failed" in told["declared"]
    # Reports name the group.
    names = "".join(file.read_text() for file in (project / "allure").glob("*-result.json"))
    for name in ("before_each: banner: click #accept", "before_each: mark: api ", "after_each: tidy: open "):
        assert f'"name": "{name}' in names
    (project / "steps" / "tidy.steps.yaml").write_text("steps:\n  - {click: '#none', timeout: 1}\n")
    done = warm().run("pytest", "tasks/passes.task.yaml", cwd=project).stdout
    assert "HOOK_FAILED in `after_each`" in done, done
    assert "A step of `after_each: tidy` failed" in done


def test_problems_are_told_where_they_stand(project: Path) -> None:
    settings = project / "pyproject.toml"
    settings.write_text(settings.read_text().replace('["tidy"]', '["tidi"]'))
    checked = warm().run("tests.acceptance.command", "validate", "tasks/passes.task.yaml", cwd=project)
    assert checked.returncode == 1
    expected = "error: pyproject.toml:5:1: after_each[0].use: there is no step group `tidi`"
    assert expected in checked.stdout + checked.stderr
    assert "did you mean `tidy`?" in checked.stdout + checked.stderr
    task = project / "tasks" / "own.task.yaml"
    for text, problem in {
        "before_each: [banner, nobody]\n": "own.task.yaml:1:23: before_each[1].use: there is no step group `nobody`",
        "after_each:\n  - {use: mark}\n": "own.task.yaml:2:11: after_each[0].use: the group `mark` needs a value",
        "after_each: [{clik: '#a'}]\n": "own.task.yaml:1:14: after_each[0]",
        "before_each: banner\n": "own.task.yaml:1:14: before_each: wrong type",
        "after_each: [{assert: \"text('#a' == 1\"}]\n": "own.task.yaml:1:38: after_each[0].expr",
    }.items():
        task.write_text(f"{text}steps: [open: /]\nsuccess_criteria: [exists('h1')]\n")
        with pytest.raises(Exception, match=r"task\.yaml") as raised:
            load_file(task)
        assert problem in str(raised.value)
    settings.write_text('[tool.harness.defaults]\nbefore_each = ["banner"]\n')
    checked = warm().run("tests.acceptance.command", "validate", "tasks/passes.task.yaml", cwd=project)
    assert "`before_each` stands in [tool.harness], not among the defaults" in checked.stdout + checked.stderr
