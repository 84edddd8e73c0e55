"""Two people in one task, on a site of its own that knows nothing of this project."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.acceptance.people_site import people_site
from tests.acceptance.warm import harness, warm

SETTINGS = """
[tool.harness]
base_url = "{url}"
isolation = "none"
[tool.harness.channels.shops]
url = "{url}/state"
"""
LOGIN = """
[tool.harness.logins.{name}]
check_url = "/in/orders"
check_timeout = 0
holds = "text('#who') == '{name}'"
steps = [
  {{act = "open", url = "/in"}}, {{act = "type", selector = "#name", value = "{name}"}},
  {{act = "submit", selector = "form"}},
]
"""
BOTH = "users:\n  ann: {login: buyer}\n  bob: {login: seller}\n"
SEES = """
steps:
  - assert: {'#who': '${with.who}'}
  - dialog: accept
  - click: '#ask'
  - see: 'true'
"""
TASKS = {
    "SALE": """
users:
  ann: {login: buyer, browser: {locale: en-US}}
  bob: {login: seller, browser: {device: iPhone 15, locale: de-DE}}
time: "2026-02-03T12:00:00Z"
expect_timeout: 5
routes: [{url: "**/SALE/price", body: free}]
handlers: [{when: visible('#banner'), steps: [{click: '#banner'}]}]
steps:
  - open: /SALE/orders
  - {open: /SALE/orders, as: bob}
  - {use: sees, with: {who: seller}, as: bob}
  - {assert: {'#asked': ''}, note: the dialog was that of the other page}
  - assert: NOT[visible('#banner')] && NOT[visible('#banner', as='bob')]
  - type: {'#note': two mice}
  - {click: '#act', effect: write, done_when: "json('shops', 'SALE') == 'ordered'"}
  - assert: text('#state', as='bob') == 'ordered'
  - {click: '#act', as: bob, when: text('#state') == 'ordered', remember: {seen: text('#state')}}
  - {open: /SALE/price, as: bob}
  - {open: /SALE/price}
  - {back: , as: bob}
  - back:
success_criteria:
  - text('#state') == 'confirmed' && text('#state', as='bob') == 'confirmed' && text('#state', as='ann') == 'confirmed'
  - text('#agent') == 'desk' && text('#agent', as='bob') == 'phone'
  - number(text('#price')) == 1234.5 && number(text('#price', as='bob')) == 1234.5
  - cookie('who') == 'buyer' && local_storage('seen', as='bob') == 'seller'
  - console('*', as='bob').length >= 1 && console('* page of buyer', as='bob').length == 0
  - requests('POST **/confirm', as='bob').length == 1 && requests('POST **/confirm').length == 0
  - dialogs(as='bob').length == 1 && dialogs().length == 0
  - text('#day') == '2026-02-03' && text('#day', as='bob') == '2026-02-03'
""",
    "SECOND-FAILS": BOTH + """
steps:
  - open: /F/orders
  - {open: /F/orders, as: bob}
  - {type: {'#note': unsent}, as: bob}
  - {click: '#nothing', as: bob, timeout: 1}
""",
    "AFTER-ANOTHER": BOTH + """
after_each: [{open: /A/orders, as: bob}]
steps: [{open: /A/orders}, {click: '#nothing', timeout: 1}]
""",
    "CRITERION-FAILS": BOTH + """
steps: [{open: /C/orders}, {open: /C/orders, as: bob}]
success_criteria: ["text('#who', as='bob') == 'ann'"]
""",
    "BACK": BOTH + """
checkpoints: [4]
faults: [{kind: browser_kill, step: 5}]
steps:
  - open: /B/orders
  - {open: /B/orders, as: bob}
  - type: {'#note': of ann}
  - {type: {'#note': of bob}, as: bob}
  - assert: visible('#act', as='bob')
  - {assert: visible('#act'), as: bob}
success_criteria: ["value('#note') == 'of ann' && value('#note', as='bob') == 'of bob'"]
""",
    "LOST": BOTH + """
faults: [{kind: page_crash, step: 3}]
steps:
  - open: /L/orders
  - {open: /L/orders, as: bob}
  - type: {'#note': kept}
  - {click: '#who', as: bob}
success_criteria: ["value('#note') == 'kept' && text('#who', as='bob') == 'seller'"]
""",
    "TWICE": BOTH + """
checkpoints: [2]
faults: [{kind: browser_kill, step: 3}]
steps:
  - open: /T/orders
  - {open: /T/orders, as: bob}
  - {click: '#act', until: text('#state') == 'ordered'}
  - {click: '#who', as: bob}
""",
    "FIRST-OF-TWO": BOTH + "episode_id: E\nsteps: [{open: /E/orders}, {open: /E/orders, as: bob}]\n",
    "SECOND-OF-TWO": """
users: {ann: {}, bob: {}}
episode_id: E
dependencies: [FIRST-OF-TWO]
steps: [{open: /E/orders}, {open: /E/orders, as: bob}]
success_criteria: ["text('#who') == 'buyer' && text('#who', as='bob') == 'seller'"]
""",
}  # fmt: skip


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """One run of all tasks."""
    folder = tmp_path_factory.mktemp("people")
    with people_site() as (url, site):
        settings = SETTINGS.format(url=url) + "".join(LOGIN.format(name=each) for each in ("buyer", "seller"))
        (folder / "pyproject.toml").write_text(settings, "utf-8")
        (folder / "sees.steps.yaml").write_text("parameters: {who: {}}\n" + SEES.lstrip(), "utf-8")
        for name, text in TASKS.items():
            (folder / f"{name}.task.yaml").write_text(f"task_id: {name}\n{text.lstrip()}", "utf-8")
        done = warm().run(
            "pytest", "-p", "no:faker", "--alluredir", "allure", "--task-video", "on", cwd=folder, timeout=600
        )
        validated = harness("validate", ".", cwd=folder)
        yield SimpleNamespace(folder=folder, done=done, validated=validated, posted=site.posted, logins=site.logins)


def report(ran: SimpleNamespace, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ran.folder / "errors" / name / "error_report.json").read_text("utf-8"))
    return found


def test_who_may_pass_passes(ran: SimpleNamespace) -> None:
    failed = {path.name for path in (ran.folder / "errors").iterdir() if path.name[0] != "."}
    assert failed == {"SECOND-FAILS", "AFTER-ANOTHER", "CRITERION-FAILS", "TWICE"}, ran.done.stdout + ran.done.stderr
    assert sorted(ran.logins) == ["buyer", "seller"]
    assert [each for each in ran.posted if " SALE" in each] == ["buyer order SALE two mice", "seller confirm SALE"]
    assert ran.validated.returncode == 0, ran.validated.stdout + ran.validated.stderr


def test_all_files_of_a_failure_are_of_the_user_who_failed_though_another_acts_after_it(ran: SimpleNamespace) -> None:
    folder = ran.folder / "errors" / "AFTER-ANOTHER"
    assert report(ran, "AFTER-ANOTHER")["context"]["user"] == "ann"
    assert "page of buyer" in (folder / "console_logs.txt").read_text("utf-8")
    of_bob = folder / "files" / "users" / "bob"
    assert "page of seller" in (of_bob / "console_logs.txt").read_text("utf-8")
    assert not (folder / "files" / "users" / "ann").exists()


def test_each_user_has_a_video(ran: SimpleNamespace) -> None:
    for name, other in (("SECOND-FAILS", "ann"), ("AFTER-ANOTHER", "bob")):
        folder = ran.folder / "errors" / name
        for video in (folder, folder / "files" / "users" / other):
            assert (video / "video.webm").stat().st_size > 1000, video
    kept = ran.folder / "errors" / ".kept" / "SALE"
    assert {str(path.relative_to(kept)) for path in kept.rglob("video.webm")} == {"video.webm", "users/bob/video.webm"}


def test_no_write_is_repeated_because_another_user_fails(ran: SimpleNamespace) -> None:
    """The order was seen to be sent by the page of the one, and going back for the other would send it again."""
    assert [each for each in ran.posted if " T" in each] == ["buyer order T"]
    assert report(ran, "TWICE")["code"] in ("OUTCOME_UNKNOWN", "BROWSER_CRASHED")


def test_reports_and_evidence_name_the_user_and_show_the_failing_one_first(ran: SimpleNamespace) -> None:
    found, folder = report(ran, "SECOND-FAILS"), ran.folder / "errors" / "SECOND-FAILS"
    assert (found["step"]["as"], found["context"]["user"]) == ("bob", "bob")
    steps = json.loads((folder / "partial_trace.json").read_text("utf-8"))["steps"]
    assert [step["as"] for step in steps] == ["ann", "bob", "bob", "bob"]
    assert "seller" in (folder / "dom_snapshot.html").read_text("utf-8")
    of_ann = folder / "files" / "users" / "ann"
    assert "buyer" in (of_ann / "dom_snapshot.html").read_text("utf-8")
    assert "page of buyer" in (of_ann / "console_logs.txt").read_text("utf-8")
    assert "page of seller" in (folder / "console_logs.txt").read_text("utf-8")
    for of, who, other in ((folder, "seller", "buyer"), (of_ann, "buyer", "seller")):
        har = json.loads((of / "network_logs.har").read_text("utf-8"))
        pages = [each["response"]["content"].get("text", "") for each in har["log"]["entries"]]
        assert any(f"page of {who}" in each for each in pages)
        assert not any(f"page of {other}" in each for each in pages)
        assert zipfile.ZipFile(of / "trace.zip").testzip() is None
        assert (of / "screenshot.png").stat().st_size > 1000
    listed = [each["name"] for each in json.loads((folder / "manifest.json").read_text("utf-8"))["files"]]
    assert "users/ann/screenshot.png" in listed
    assert "click #nothing as bob" in ran.done.stdout
    assert "url of bob: " in ran.done.stdout
    results = [json.loads(each.read_text("utf-8")) for each in (ran.folder / "allure").glob("*-result.json")]
    (told,) = (each for each in results if each["name"].startswith("SECOND-FAILS"))
    assert "ann: screenshot.png" in {each["name"] for each in told["attachments"]}
    assert any("as bob" in step["name"] for step in told["steps"])
    assert report(ran, "CRITERION-FAILS")["context"]["user"] == "bob"
    shown = harness("show", "SECOND-FAILS", cwd=ran.folder).stdout
    assert all(each in shown for each in ("as bob", "url of bob: ", "users/ann/trace.zip")), shown


def test_a_changed_criterion_is_never_judged_on_the_page_of_another_user(ran: SimpleNamespace) -> None:
    """The evidence has the page of the first user as criteria read it, and says of others that it does not know."""
    file = ran.folder / "CRITERION-FAILS.task.yaml"
    before = file.read_text("utf-8")
    file.write_text(before.replace("text('#who', as='bob') == 'ann'", "text('#who', as='bob') == 'seller'"), "utf-8")
    told = harness("regrade", ".", cwd=ran.folder)
    file.write_text(before, "utf-8")
    assert "the page of bob was not recorded" in told.stdout, told.stderr
