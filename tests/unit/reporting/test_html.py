"""Building the report; Allure itself is a stand-in here (tests/acceptance/test_report_command.py has the real one)."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path

import pytest

from harness.reporting import html
from harness.reporting.attachments import TRACE
from harness.reporting.html import build_report, trace_files
from harness.reporting.npm import ReportError
from harness.reporting.serving import report_server
from harness.reporting.trace_viewer import HERE_SCRIPT, viewer_folder
from tests.unit.reporting.test_npm import program

INDEX = (
    "<html><head></head><script>start()</script><script async src='https://www.googletagmanager.com/gtag/js?id=G-1'></script>"
    "<script>\nfunction gtag(){}\ngtag('config', 'G-1', {})\n</script><script>end()</script></html>"
)


@pytest.fixture
def allure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies what it was given beside its index.html: `allure generate RESULTS -c RC -o OUT`."""
    (tmp_path / "index").write_text(INDEX)
    script = f'mkdir -p "$6/seen" && cp -L "$2"/* "$4" "$6/seen" && cp "{tmp_path}/index" "$6/index.html"'
    made = program(tmp_path / "allure", script)
    monkeypatch.setattr(html, "allure_command", lambda project, say: made)
    return made


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    attached = [
        {"name": "trace", "type": TRACE, "source": "t-attachment.zip"},
        {"name": "x", "type": "text/plain", "source": "x"},
    ]
    (folder / "a-result.json").write_text(json.dumps({"name": "T <1>", "status": "broken", "attachments": attached}))
    (folder / "b-result.json").write_text(json.dumps({"name": "T2", "status": "passed"}))
    (folder / "t-attachment.zip").write_bytes(b"PK")
    return folder


@pytest.mark.usefixtures("allure")
def test_a_report(results: Path, tmp_path: Path) -> None:
    before = (results / "a-result.json").read_text()
    index = build_report(results, tmp_path / "report")
    assert index == tmp_path / "report/index.html"
    page = index.read_text()
    assert page.endswith("</head><script>start()</script><script>end()</script></html>")
    assert HERE_SCRIPT in page
    seen = json.loads((tmp_path / "report/seen/a-result.json").read_text())
    assert seen["links"] == [
        {
            "type": "link",
            "name": "Open trace",
            "url": "http://report.invalid/trace-viewer/index.html?trace=../traces/t-attachment.zip",
        }
    ]
    assert "links" not in json.loads((tmp_path / "report/seen/b-result.json").read_text())
    assert (results / "a-result.json").read_text() == before
    assert "Timeouts" in (tmp_path / "report/seen/allurerc.mjs").read_text()


@pytest.mark.usefixtures("allure")
def test_the_traces_lie_beside_it_with_their_viewer(results: Path, tmp_path: Path) -> None:
    report = build_report(results, tmp_path / "report").parent
    assert (report / "traces/t-attachment.zip").read_bytes() == b"PK"
    assert (report / "trace-viewer/index.html").is_file()
    assert "T &lt;1&gt;" in (report / "traces/index.html").read_text()


@pytest.mark.usefixtures("allure")
def test_the_projects_own_configuration_is_used(results: Path, tmp_path: Path) -> None:
    (results / "allurerc.mjs").write_text("export default {}")
    build_report(results, tmp_path / "report")
    assert (tmp_path / "report/seen/allurerc.mjs").read_text() == "export default {}"


@pytest.mark.usefixtures("allure")
def test_a_single_file_has_nothing_beside_it(results: Path, tmp_path: Path) -> None:
    report = build_report(results, tmp_path / "report", single_file=True).parent
    assert "singleFile: true" in (report / "seen/allurerc.mjs").read_text()
    assert not (report / "trace-viewer").exists()


@pytest.mark.usefixtures("allure")
def test_an_old_report_is_deleted_first(results: Path, tmp_path: Path) -> None:
    build_report(results, tmp_path / "report")
    (tmp_path / "report/stale.html").write_text("")
    build_report(results, tmp_path / "report")
    assert not (tmp_path / "report/stale.html").exists()


@pytest.mark.usefixtures("allure")
def test_other_peoples_folders_are_not_deleted(results: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("x")
    with pytest.raises(ReportError, match="holds no report"):
        build_report(results, tmp_path / "mine")
    with pytest.raises(ReportError, match="the results themselves"):
        build_report(results, tmp_path)
    assert (tmp_path / "mine/thesis.txt").exists()


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="--alluredir"):
        build_report(tmp_path / "nothing", tmp_path / "report")


def test_allure_fails(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = program(tmp_path / "bad", "echo 'TypeError: no' >&2; exit 1")
    monkeypatch.setattr(html, "allure_command", lambda project, say: bad)
    with pytest.raises(ReportError, match="TypeError: no"):
        build_report(results, tmp_path / "report")


def test_trace_files_stay_inside(results: Path) -> None:
    attached = [{"type": TRACE, "source": "../t-attachment.zip"}, {"type": TRACE, "source": "gone.zip"}]
    (results / "c-result.json").write_text(json.dumps({"attachments": attached}))
    (results / "d-result.json").write_text("no json")
    assert [trace.file for trace in trace_files(results)] == ["t-attachment.zip"]


def test_playwright_has_a_viewer() -> None:
    folder = viewer_folder()
    assert folder is not None
    assert (folder / "sw.bundle.js").is_file()


def test_the_server_serves_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    with report_server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
        connection.request("GET", "/")
        reply = connection.getresponse()
        assert (reply.read(), reply.headers["Cache-Control"]) == (b"hello", "no-store")
        connection.close()
        server.shutdown()
    assert server.server_address[0] == "127.0.0.1"
