"""Files in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.recovery.catalog import Effect
from tests.browser.moments import stretched
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.thorough
async def test_upload(stage: Stage) -> None:
    (stage.folder / "a.txt").write_text("A")
    (stage.folder / "sub").mkdir()
    (stage.folder / "sub" / "b.txt").write_text("B")
    session = await stage.at()
    outcome = await passed(session, {"act": "upload", "selector": "#file", "value": ["a.txt", "sub/b.txt"]})
    assert outcome.details["files"] == ["a.txt", "b.txt"]
    names = await session.tab.page.evaluate("[...file.files].map(f => f.name)")
    assert names == ["a.txt", "b.txt"]


async def test_upload_stays_in_the_folder(stage: Stage) -> None:
    inside = stage.folder / "task"
    inside.mkdir()
    (stage.folder / "secret.txt").write_text("S")
    (inside / "link.txt").symlink_to(stage.folder / "secret.txt")
    session = await stage.at(uploads=inside)
    for value in ("../secret.txt", str(stage.folder / "secret.txt"), "link.txt", "missing.txt"):
        failure = await failed(session, {"act": "upload", "selector": "#file", "value": value})
        assert failure.code == "INVALID_INPUT", value
    assert await session.tab.page.evaluate("file.files.length") == 0


async def test_download_keeps_the_file(stage: Stage) -> None:
    session = await stage.at()
    outcome = await passed(session, {"act": "download", "selector": "#file-link", "value": "*.csv"})
    assert outcome.details == {"file": "report.csv", "bytes": 4}
    again = await passed(session, {"act": "download", "selector": "#file-link"})
    assert again.details["file"] == "report-2.csv"
    folder = stage.folder / "s0" / "downloads"
    assert session.files == (folder / "report.csv", folder / "report-2.csv")
    assert Path(session.files[0]).read_bytes() == b"a,b\n"


async def test_download_failures(stage: Stage) -> None:
    session = await stage.at()
    none = await failed(session, {"act": "download", "selector": "#plain"}, within=stretched(1))
    wrong = await failed(session, {"act": "download", "selector": "#file-link", "value": "other.csv"}, within=3)
    broken = await failed(session, {"act": "download", "selector": "#broken-file"}, within=3)
    missing = await failed(session, {"act": "download", "selector": "#nowhere"}, within=3, patience=0.3)
    assert [each.code for each in (none, wrong, broken)] == ["DOWNLOAD_FAILED"] * 3
    assert [each.effect for each in (none, wrong, broken)] == ["done", "done", "possible"]
    assert wrong.details["file"] == "report.csv"
    assert missing.code == "ELEMENT_NOT_FOUND"


@pytest.mark.parametrize(
    ("selector", "files", "shown"),
    [
        ("#label", "a.txt", "a.txt"),
        ("#single", "a.txt", "a.txt"),
        ("#one", "a.txt", "a.txt"),
        ("#many", ["a.txt", "b.txt"], "a.txt,b.txt"),
        ("#files", ["a.txt", "b.txt"], "a.txt,b.txt"),
        ("#pressed", ["a.txt", "b.txt"], "a.txt,b.txt"),
    ],
)
@pytest.mark.sampled(1)
async def test_upload_into_fields_labels_and_file_choosers(stage: Stage, selector: str, files: Any, shown: str) -> None:
    for name in ("a.txt", "b.txt"):
        (stage.folder / name).write_text(name)
    session = await stage.at("/files")
    await passed(session, {"act": "upload", "selector": selector, "value": files})
    assert await session.text("#out", None, 1) == shown


async def test_upload_failures(stage: Stage) -> None:
    for name in ("a.txt", "b.txt"):
        (stage.folder / name).write_text(name)
    session = await stage.at("/files")
    both = ["a.txt", "b.txt"]
    missing = await failed(session, {"act": "upload", "selector": "#nowhere", "value": both})
    single = await failed(session, {"act": "upload", "selector": "#single", "value": both})
    chooser = await failed(session, {"act": "upload", "selector": "#one", "value": both}, within=3)
    none = await failed(session, {"act": "upload", "selector": "#none", "value": both}, within=1)
    codes = [each.code for each in (missing, single, chooser, none)]
    assert codes == ["ELEMENT_NOT_FOUND", "INVALID_INPUT", "INVALID_INPUT", "ACTION_FAILED"]
    assert chooser.message == "the file chooser of #one takes one file, not 2"
    assert none.message == "#none is not a file field, and a click on it opened no file chooser"
    assert none.effect is Effect.DONE


@pytest.mark.parametrize("selector", ["#blank", "#window"])
@pytest.mark.thorough
async def test_a_download_in_a_new_page(stage: Stage, selector: str) -> None:
    session = await stage.at("/files")
    outcome = await passed(session, {"act": "download", "selector": selector, "value": "report.csv"})
    assert outcome.details == {"file": "report.csv", "bytes": 4}
    assert await session.read(PageQuery("title"), 2) == "Files"


@pytest.mark.thorough
async def test_a_download_that_does_not_end(stage: Stage) -> None:
    session = await stage.at("/files")
    failure = await failed(session, {"act": "download", "selector": "#endless"}, within=1.5)
    assert (failure.code, failure.effect, failure.tainted) == ("STEP_TIMEOUT", Effect.DONE, False)
    assert failure.message == "Step timeout: download #endless: endless.csv began, but did not end in time"
    assert session.files == ()
    await passed(session, {"act": "download", "selector": "#blank"})


@pytest.mark.thorough
async def test_open_of_a_file_says_what_to_do(stage: Stage) -> None:
    session = await stage.at("/files")
    failure = await failed(session, {"act": "open", "url": f"http://{SHOP}/report.csv"}, within=3)
    assert failure.code == "INVALID_INPUT"
    assert failure.message == "this URL is a download, not a page: use `download` on the link to it"
