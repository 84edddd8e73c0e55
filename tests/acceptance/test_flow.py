"""`until`, `when`, `for_each` and `count` of task files, in Chromium."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.acceptance.warm import warm

PAGE = """<!doctype html><title>Shop</title>
<button id=more>More</button><ul id=rows></ul>
<button id=pay>Pay</button>
<div id=banner hidden>Cookies <button id=accept>Accept</button><button id=shut>Close</button></div>
<div id=promo hidden onclick="promo.hidden = true; log.textContent += 'promo '">Buy now</div>
<div id=cart></div><p id=log></p>
<script>
let ready = false, clicks = 0;
setTimeout(() => { ready = true; }, 900);           // the page is hydrated late: clicks before are lost
if (location.search === '?promo') promo.hidden = false;
more.onclick = () => { clicks += 1; document.title = `clicked ${clicks}`;
  if (ready) rows.insertAdjacentHTML('beforeend', '<li class=row>row</li>'); };
pay.onclick = () => fetch('/pay', {method: 'POST'});
const show = () => { banner.hidden = false; };
if (/banner|late/.test(location.search)) setTimeout(show, location.search === '?late' ? 500 : 0);
if (location.search === '?late') Object.assign(banner.style, {position: 'fixed', inset: 0, background: 'white'});
accept.onclick = () => { banner.querySelector('#accept').hidden = true; log.textContent += 'accepted '; };
shut.onclick = () => { banner.hidden = true; log.textContent += 'closed '; };
for (const sku of ['a', 'b', 'c']) {
  cart.insertAdjacentHTML('beforeend', `<button class=sku id=buy-${sku} data-sku=${sku}>${sku}</button>`);
  document.getElementById(`buy-${sku}`).onclick = () => { log.textContent += `${sku} `; };
}
</script>"""
FILES = {
    "pytest.ini": "[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n",
    "steps/cookies.steps.yaml": "steps:\n  - click: '#accept'\n  - click: '#shut'\n",
    "steps/buy.steps.yaml": """parameters: {sku: {}}
steps:
  - {act: click, selector: "#buy-${with.sku}"}
  - {act: assert, expr: "text('#log') includes '${each}'"}
""",
    "tasks/until.task.yaml": """steps:
  - open: /
  - {click: "#more", until: "count('.row') >= 2", at_most: 20}
  - {act: assert, expr: "count('.row') == 2"}
""",
    "tasks/due.task.yaml": """steps:
  - open: /
  - {use: cookies, when: "visible('#banner')"}
  - {click: "#nowhere", when: "exists('#nowhere')"}
  - open: /?banner
  - {wait: "#banner"}
  - {use: cookies, when: "visible('#banner')"}
  - {act: assert, expr: "text('#log') includes 'accepted closed'"}
""",
    "tasks/each.task.yaml": """memory: {skus: [c, {sku: b}]}
steps:
  - open: /
  - {use: buy, for_each: [a, b], with: {sku: "${each}"}}
  - {use: buy, for_each: "mem('skus')", at_most: 4, with: {sku: "${each}"}, when: "mem('for_each_1[0]') == ${each}"}
  - {use: twice, count: 2}
  - {act: assert, expr: "text('#log') == 'a b c a a'"}
""",
    "steps/twice.steps.yaml": "steps: [{act: click, selector: '#buy-a', note: 'round ${each}'}]\n",
    "tasks/handled.task.yaml": """handlers: [{when: "visible('#banner')", steps: [{use: cookies}], times: 2}]
steps:
  - open: /?late
  - {act: wait, value: 0.8}
  - {click: "#more"}
  - {act: assert, expr: "text('#log') includes 'accepted closed'"}
  - {act: assert, expr: "title() == 'clicked 1'"}
""",
    "tasks/promo.task.yaml": """steps:
  - open: /?promo
  - {click: "#more"}
  - {act: assert, expr: "text('#log') includes 'promo'"}
""",
    "tasks/numbered.task.yaml": """memory: {skus: [z]}
checkpoints: ["1.3"]
error_recovery: {on_timeout: {strategy: retry_from_checkpoint}}
steps:
  - open: /
  - {use: buy, for_each: [a, b], with: {sku: "${each}"}}
  - {use: buy, for_each: "mem('skus')", at_most: 3, with: {sku: a}}
  - open: /
""",
    "tasks/pay.task.yaml": """steps:
  - open: /
  - {click: "#pay", until: "exists('#thanks')"}
""",
    "tasks/unknown.task.yaml": """steps:
  - open: /
  - {click: "#more", when: "text('#status') == 'open'"}
""",
}
HANDLERS = """handlers = [{when = "visible('#promo')", steps = [{act = "click", selector = "#promo"}]}]"""
BAD = """steps:
  - open: /
  - {submit: form, until: "exists('#a')"}
  - {click: "#a", until: "count('.row' > 2"}
  - {click: "#a", at_most: 3}
  - {use: buy, when: "visble('#a')", with: {sku: a}}
  - {use: cookies, for_each: [a], count: 2}
handlers:
  - {when: "visible('#b'", steps: [{click: "#c"}]}
"""


def numbered_steps(project: Path, stdout: str) -> None:
    """The steps that stand for one of the file have sub-numbers wherever they are told."""
    folder = project / "errors" / "numbered"
    assert "at step 5.2 (6 of 0-11)" in stdout
    shown = warm().run("tests.acceptance.command", "show", "numbered", cwd=project).stdout
    for text in (stdout, shown):
        found = re.findall(r"^ +>? +([15]\.\d) +(click|assert)", text, re.MULTILINE)
        assert "1.4 assert 5.1 click 5.2 assert" in " ".join(" ".join(each) for each in found), text
    steps = "".join(each.read_text("utf-8") for each in (project / "allure").glob("*-result.json"))
    assert '"name": "5.2. assert' in steps or '"name":"5.2. assert' in steps
    report = json.loads((folder / "error_report.json").read_text("utf-8"))
    metrics = report["metrics"]
    assert (report["step_index"], report["step_number"]) == (6, "5.2")
    assert (metrics["steps_completed"], metrics["steps_total"], metrics["steps_unused"]) == (6, 8, 4)
    lines = json.loads((folder / "partial_trace.json").read_text("utf-8"))["steps"]
    assert [each.get("step_number") for each in lines] == [None, "1.1", "1.2", "1.3", "1.4", "5.1", "5.2"]


def test_tasks_repeat_leave_out_and_go_through_lists(tmp_path: Path, httpserver: HTTPServer) -> None:
    paid: list[str] = []

    def pay(request: Request) -> Response:
        paid.append(request.method)
        return Response("{}")

    httpserver.expect_request("/").respond_with_data(PAGE, content_type="text/html")
    httpserver.expect_request("/pay", method="POST").respond_with_handler(pay)
    settings = f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\n{HANDLERS}\n'
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    done = warm().run("pytest", "--alluredir=allure", cwd=tmp_path)
    assert "3 failed, 5 passed" in done.stdout, done.stdout + done.stderr
    assert "step_skipped" not in done.stdout
    assert paid == ["POST"]  # what was seen to write is not done twice
    numbered_steps(tmp_path, done.stdout)
    report = json.loads((tmp_path / "errors" / "pay" / "error_report.json").read_text("utf-8"))
    assert report["code"] == "ASSERTION_FAILED"
    assert "the act was not repeated, because it sent POST" in json.dumps(report)
    report = json.loads((tmp_path / "errors" / "unknown" / "error_report.json").read_text("utf-8"))
    assert "so `when` of step 1 cannot be judged" in json.dumps(report)
    (tmp_path / "tasks" / "bad.task.yaml").write_text(BAD, "utf-8")
    checked = warm().run("tests.acceptance.command", "validate", "tasks/bad.task.yaml", cwd=tmp_path)
    assert checked.returncode == 1
    for place, said in {
        "bad.task.yaml:3": "a step that writes is never repeated",
        "bad.task.yaml:4": "count('.row' > 2",
        "bad.task.yaml:5": "`at_most` goes with `until`",
        "bad.task.yaml:6": "visble",
        "bad.task.yaml:7": "`use` takes either `for_each` or `count`",
        "bad.task.yaml:9": "visible('#b'",
    }.items():
        found = checked.stdout.partition(place)[2].partition("bad.task.yaml")[0]
        assert said in found, checked.stdout
