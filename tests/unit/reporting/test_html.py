"""Building the report; Allure itself is a stand-in here (tests/acceptance/test_report_command.py has the real one)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.reporting.allure import build as html
from harness.reporting.allure.build import Allure, ReportError, Wanted, build_report
from harness.reporting.allure.serve import HERE_SCRIPT, viewer_folder
from harness.reporting.files import TRACE_MIME as TRACE
from harness.reporting.task_record import LAST_RUN, write_last_run
from tests.unit.reporting.test_allure_results import result, run_id
from tests.unit.reporting.test_npm import program

INDEX = (
    "<html><head></head><script>start()</script><script async src='https://www.googletagmanager.com/gtag/js?id=G-1'></script>"
    "<script>\nfunction gtag(){}\ngtag('config', 'G-1', {})\n</script><script>end()</script></html>"
)
ALLURE_3 = (
    'cp "$4" "$6/seen"; sed -n "s/.*historyPath: .\\(.*\\).,/\\1/p" "$4" | while read h; do echo "$POINT" >> "$h"; done'
)


@pytest.fixture
def allure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies what it was given beside its index.html: `allure generate RESULTS -c RC -o OUT`."""
    (tmp_path / "index").write_text(INDEX)
    script = f'mkdir -p "$6/seen" && cp -RL "$2"/* "$6/seen" && {ALLURE_3} && cp "{tmp_path}/index" "$6/index.html"'
    made = program(tmp_path / "allure", script)
    monkeypatch.setattr(html, "find_allure", lambda project, say: Allure(made, "3.18.0"))
    return made


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    attached = [{"name": "trace", "type": TRACE, "source": "t-attachment.zip"}]
    result(folder, "a", name="T <1>", status="broken", attachments=attached)
    result(folder, "b")
    (folder / "t-attachment.zip").write_bytes(b"PK")
    return folder


@pytest.mark.usefixtures("allure")
def test_a_report(results: Path, tmp_path: Path) -> None:
    before = (results / "a-result.json").read_text()
    built = build_report(results, tmp_path / "report", project=tmp_path)
    assert (built.index, built.results, built.left_out, built.allure) == (
        tmp_path / "report/index.html",
        2,
        (),
        "3.18.0",
    )
    page = built.index.read_text()
    assert "googletagmanager" not in page
    assert "gtag" not in page
    assert HERE_SCRIPT.split("\n")[1] in page
    seen = json.loads((tmp_path / "report/seen/a-result.json").read_text())
    assert [link["name"] for link in seen["links"]] == ["Open trace"]
    assert (results / "a-result.json").read_text() == before
    assert "Timeouts" in (tmp_path / "report/seen/allurerc.mjs").read_text()


@pytest.mark.usefixtures("allure")
def test_the_traces_lie_beside_it_with_their_viewer(results: Path, tmp_path: Path) -> None:
    report = build_report(results, tmp_path / "report", project=tmp_path).index.parent
    assert (report / "traces/t-attachment.zip").read_bytes() == b"PK"
    assert (report / "trace-viewer/index.html").is_file()
    assert "T &lt;1&gt;" in (report / "traces/index.html").read_text()


@pytest.mark.usefixtures("allure")
def test_what_is_broken_is_named_and_does_not_reach_allure(results: Path, tmp_path: Path) -> None:
    (results / "half-result.json").write_text('{"uuid": "h", "na')
    (results / "evil.mjs").write_text("process.exit(1)")
    built = build_report(results, tmp_path / "report", project=tmp_path)
    assert [line.split(":")[0] for line in built.left_out] == ["evil.mjs", "half-result.json"]
    assert not (tmp_path / "report/seen/half-result.json").exists()


@pytest.mark.usefixtures("allure")
def test_history_is_kept_and_a_run_counts_once(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = json.loads((results / "a-result.json").read_text())["start"]
    monkeypatch.setenv("POINT", json.dumps({"testResults": {"id": {"fullName": "t#a", "start": start}}}))
    for _ in range(2):
        build_report(results, tmp_path / "report", project=tmp_path)
    history = tmp_path / ".harness/allure-history.jsonl"
    assert len(history.read_text().splitlines()) == 1
    for path in results.glob("*-result.json"):
        path.unlink()
    result(results, "a", 60)
    build_report(results, tmp_path / "report", project=tmp_path)
    assert len(history.read_text().splitlines()) == 2


@pytest.mark.usefixtures("allure")
def test_a_report_of_all_runs_is_no_run(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = json.loads((results / "a-result.json").read_text())["start"]
    history = tmp_path / ".harness/allure-history.jsonl"
    history.parent.mkdir()
    before = json.dumps({"testResults": {"id": {"fullName": "t#a", "start": start}}}) + "\n"
    history.write_text(before)
    monkeypatch.setenv("POINT", json.dumps({"testResults": {}}))
    build_report(results, tmp_path / "report", Wanted(all_runs=True), project=tmp_path)
    assert history.read_text() == before


@pytest.mark.usefixtures("allure")
def test_a_last_run_that_is_not_among_the_results_is_told(results: Path, tmp_path: Path) -> None:
    run_id(results)
    write_last_run(tmp_path / LAST_RUN, "20260501T120000-77", [])
    assert build_report(results, tmp_path / "report", project=tmp_path).notes == ()
    write_last_run(tmp_path / LAST_RUN, "20260502T120000-8", [])
    (note,) = build_report(results, tmp_path / "report", project=tmp_path).notes
    assert note.startswith("the last run of the project, 20260502T120000-8, wrote no results here")
    (tmp_path / LAST_RUN).write_text("{")
    assert build_report(results, tmp_path / "report", project=tmp_path).notes == ()


@pytest.mark.usefixtures("allure")
def test_the_projects_own_configuration_is_used_and_that_among_results_is_not_run(
    results: Path, tmp_path: Path
) -> None:
    (tmp_path / "allurerc.mjs").write_text("export default {}")
    (results / "allurerc.mjs").write_text("process.exit(1)")
    built = build_report(results, tmp_path / "report", project=tmp_path)
    assert (tmp_path / "report/seen/allurerc.mjs").read_text() == "export default {}"
    assert built.left_out == (
        "allurerc.mjs: a program, which is not run; the project's own configuration belongs into its folder",
    )


@pytest.mark.usefixtures("allure")
def test_a_single_file_has_nothing_beside_it(results: Path, tmp_path: Path) -> None:
    report = build_report(results, tmp_path / "report", Wanted(single_file=True), project=tmp_path).index.parent
    assert "singleFile: true" in (report / "seen/allurerc.mjs").read_text()
    assert not (report / "trace-viewer").exists()


@pytest.mark.usefixtures("allure")
def test_an_old_report_is_deleted_first(results: Path, tmp_path: Path) -> None:
    build_report(results, tmp_path / "report", project=tmp_path)
    (tmp_path / "report/stale.html").write_text("")
    build_report(results, tmp_path / "report", project=tmp_path)
    assert not (tmp_path / "report/stale.html").exists()


@pytest.mark.usefixtures("allure")
def test_other_peoples_folders_are_not_deleted(results: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("x")
    (tmp_path / "mine/index.html").write_text("mine")
    with pytest.raises(ReportError, match="contains no report"):
        build_report(results, tmp_path / "mine", project=tmp_path)
    with pytest.raises(ReportError, match="the results themselves"):
        build_report(results, tmp_path, project=tmp_path)
    assert (tmp_path / "mine/thesis.txt").exists()


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="--alluredir"):
        build_report(tmp_path / "nothing", tmp_path / "report")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/x-result.json").write_text("{")
    with pytest.raises(ReportError, match=r"x-result\.json: not JSON"):
        build_report(tmp_path / "bad", tmp_path / "report")


def test_allure_fails(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = program(tmp_path / "bad", "echo 'TypeError: no' >&2; exit 1")
    (tmp_path / "report").mkdir()
    (tmp_path / "report/.taskspec-report").write_text("the report before")
    monkeypatch.setattr(html, "find_allure", lambda project, say: Allure(bad, "3.18.0"))
    with pytest.raises(ReportError, match="TypeError: no"):
        build_report(results, tmp_path / "report", project=tmp_path)
    assert not (tmp_path / ".harness").exists()
    assert (tmp_path / "report/.taskspec-report").is_file()


def test_playwright_has_a_viewer() -> None:
    folder = viewer_folder()
    assert folder is not None
    assert (folder / "sw.bundle.js").is_file()
