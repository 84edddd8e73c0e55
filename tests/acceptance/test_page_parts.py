"""Pages that lack a part, and tasks that must fail, in whole runs: what is repeated, what is said, what is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm
from tests.browser.parts_site import PartsSite

HOST = "parts.test"


class Played(NamedTuple):
    """The one run that all tests look at, its site, and what the terminal showed."""

    project: Project
    parts: PartsSite
    text: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Iterator[Played]:
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=tmp_path_factory.mktemp("parts"))), sites)
    site = PartsSite()
    file = project.path / "pyproject.toml"
    service = (
        f'\n[tool.harness.services.parts]\nhosts = {{ "{HOST}" = {site.port} }}\nhealth = "http://{HOST}/ok/health"\n'
    )
    file.write_text(file.read_text("utf-8") + service, "utf-8")
    for tasks in (parts_that_did_not_come, tasks_that_must_fail, waits_whose_page_breaks):
        tasks(project)
    text = project.play("-v", "--task-workers", "4", "--junitxml=junit.xml", "--alluredir=allure")
    yield Played(project, site, text)
    site.shutdown()
    site.server_close()


def page(html: str) -> str:
    return f"http://{HOST}/page?{quote(html)}"


def opens(html: str) -> dict[str, Any]:
    return {"act": "open", "url": page(html)}


def script(path: str) -> str:
    return f"<script src={path}></script>"


def declared(project: Project, task_id: str, *steps: dict[str, Any], **keys: Any) -> None:
    rules = {"on_network_error": {"strategy": "retry", "retry_delay_ms": 100}}
    project.task(task_id, steps=steps, allowed_domains=[HOST], error_recovery=rules, **keys)


def said(name: str) -> list[str]:
    return [f"text('#said') == '{name}'"]


def parts_that_did_not_come(project: Project) -> None:
    link = f"<a id=go href='{page(script('/once-reset/clicked.js'))}'>go</a>"
    declared(project, "OPENED", opens(script("/once-reset/opened.js")), success_criteria=said("opened"))
    declared(project, "CLICKED", opens(link), {"act": "click", "selector": "#go"}, success_criteria=said("clicked"))
    fault = {"kind": "reset", "url": f"http://{HOST}/ok/struck.js", "times": 2}
    declared(project, "STRUCK", opens(script("/ok/struck.js")), success_criteria=said("struck"), faults=[fault])
    route = {"url": f"http://{HOST}/reset/routed.js", "body": "said.textContent = 'routed'", "status": 200}
    declared(project, "ROUTED", opens(script("/reset/routed.js")), success_criteria=said("routed"), routes=[route])
    form = f"<form method=post action='/posted?{quote(script('/reset/after.js'))}'><button id=send>go</button></form>"
    declared(project, "POSTED", opens(form), {"act": "submit", "selector": "#send"})
    declared(project, "NAMED", opens(script("/404/none.js")), success_criteria=said("none"))
    late = {**opens(script("/once-reset/late.js")), "until": "commit"}
    declared(project, "LATE", late, success_criteria=said("late"), expect_timeout=2)
    for task_id, part in (("AFTERWARDS", "/once-reset/afterwards.js"), ("NEVER", "/500/never.js")):
        soon = f"<button id=go onclick=\"setTimeout(() => location = '{page(script(part))}', 400)\">go</button>"
        steps = [opens(f"<i>{task_id}</i>{soon}"), {"act": "click", "selector": "#go"}]
        declared(project, task_id, *steps, success_criteria=["NOT[exists('i')]"], expect_timeout=5)


def test_a_part_that_did_not_come_is_recovered_or_named(played: Played) -> None:
    project, parts, text = played
    assert "7 failed, 9 passed" in text
    assert re.search(r"7 completed \(.*recovered", text)
    assert parts.hits["POST /posted"] == 1
    assert parts.hits["GET /reset/after.js"] == 1
    posted, named = project.report("POSTED"), project.report("NAMED")
    assert (posted["code"], posted["step_index"]) == ("NET_CONNECTION_RESET", 1)
    assert posted["context"]["resource"] == f"http://{HOST}/reset/after.js"
    assert "the answer to a request that is not sent again" in posted["error_message"]
    assert len(posted["tried"]) == 1
    never = project.report("NEVER")
    assert (never["code"], never["context"]["resource"]) == ("HTTP_SERVER_ERROR", f"http://{HOST}/500/never.js")
    assert never["step_index"] == 2, "a criterion does not hold on a page that is not there"
    assert parts.hits["GET /once-reset/afterwards.js"] == 2
    assert named["code"] == "CRITERIA_UNMET"
    assert f"the page came without its script http://{HOST}/404/none.js: HTTP 404" in named["error_message"]
    assert named["context"]["missing_parts"] == [f"script http://{HOST}/404/none.js: HTTP 404"]


def tasks_that_must_fail(project: Project) -> None:
    refused = {"act": "open", "url": f"http://{HOST}/403/x?{quote('<p id=said>wrong password</p>')}"}
    fails = {"final_state": "aborted", "code": "AUTHENTICATION_FAILED"}
    declared(project, "SHOWN", refused, expect={**fails, "criteria": said("wrong password")})
    declared(project, "OTHER", refused, expect={**fails, "criteria": [*said("welcome"), "exists('p')"]})
    gone = {"act": "api", "url": f"http://{HOST}/404/x", "method": "GET"}
    blank = {"final_state": "failed", "code": "HTTP_NOT_FOUND", "criteria": ["exists('#said')"]}
    declared(project, "BLANK", gone, expect=blank)
    declared(project, "UNJUDGED", refused, expect=fails, success_criteria=said("anything"))


def test_a_task_that_must_fail_says_what_its_page_must_show(played: Played) -> None:
    project, _, text = played
    assert "OTHER did not end as it declares: Assertion failed: text('#said') == 'welcome'" in text
    assert "'wrong password'" in text
    assert "BLANK did not end as it declares" in text
    unjudged = "The `success_criteria` were not judged: the task failed before, as its `expect` declares"
    assert f"UNJUDGED: {unjudged}" in text
    assert [each["message"] for each in project.report("UNJUDGED")["warnings"]] == [unjudged]
    shown = [path.read_text("utf-8") for path in (project.path / "allure").iterdir() if path.suffix == ".json"]
    assert any("UNJUDGED" in each and "criteria_not_judged" in json.dumps(json.loads(each)) for each in shown)
    checked = warm().run("tests.acceptance.command", "validate", ".", cwd=project.path).stdout
    assert "success_criteria: never judged: the task must fail before, as its `expect` declares" in checked


def waits_whose_page_breaks(project: Project) -> None:

    def leads(name: str) -> dict[str, Any]:
        return opens(f"<script>setTimeout(() => location = '/once-reset/{name}.js', 300)</script>")

    there = {"act": "wait", "selector": "body", "value": "textContent", "timeout": 30}
    declared(project, "THERE", leads("there"), there)
    declared(project, "NOT-THERE", leads("not-there"), {"act": "wait", "selector": "#none", "timeout": 16})
    gone = opens("<script>setTimeout(() => location = '/reset/gone', 300)</script>")
    declared(project, "GONE", gone, success_criteria=["STABLE(5, NOT[exists('#none')])"], step_timeout=20)


def test_a_wait_whose_page_breaks_waits_again_on_the_page_that_came(played: Played) -> None:
    """The page is requested again, which alone would be no answer to what was waited for.

    Criteria do not look at the browser's own error page either, which has none of the elements that must not be there.
    """
    project, parts, _ = played
    assert project.report("NOT-THERE")["code"] == "STEP_TIMEOUT"
    assert parts.hits["GET /once-reset/there.js"] == parts.hits["GET /once-reset/not-there.js"] == 2
    assert project.report("GONE")["code"] == "NET_CONNECTION_RESET"
