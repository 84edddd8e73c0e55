"""What is done to a report that Allure built."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.reporting.allure.build import finish_report, with_policy

LOCAL = 'new URL("trace-viewer/index.html",location.href.split("#")[0]).href'


def built(folder: Path, script: str = "") -> Path:
    (folder / "widgets").mkdir(parents=True)
    (folder / "widgets/nav.json").write_text("[]")
    (folder / "index.html").write_text('<html><head></head><script>a("<script>")</script><script src=app.js></script>')
    (folder / "app-1.js").write_text(script)
    return folder


def test_only_the_reports_own_scripts_run() -> None:
    page = with_policy('<head></head><script async>start("<b>")</script><SCRIPT src="app.js"></SCRIPT>')
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", page)
    assert nonce is not None
    assert page.count(f'nonce="{nonce[1]}"') == 2
    assert "default-src 'none'" in page
    assert with_policy("<head></head>") != with_policy("<head></head>")


def test_allure_3_opens_traces_in_the_viewer_beside_it(tmp_path: Path) -> None:
    script = 'x=1;const Rs="https://trace.playwright.dev",Ns=`${Rs}/`,y=2'
    finish_report(built(tmp_path / "r", script), viewer=True)
    assert (tmp_path / "r/app-1.js").read_text() == f"x=1;const Rs=location.origin,Ns={LOCAL},y=2"


def test_without_a_viewer_scripts_stay_as_they_are(tmp_path: Path) -> None:
    script = "ws=`https://trace.playwright.dev`"
    finish_report(built(tmp_path / "r", script), viewer=False)
    assert (tmp_path / "r/app-1.js").read_text() == script


def test_a_file_that_allure_asks_for_is_there(tmp_path: Path) -> None:
    finish_report(built(tmp_path / "r"), viewer=False)
    assert json.loads((tmp_path / "r/widgets/metrics.json").read_text()) == {"current": [], "history": []}
