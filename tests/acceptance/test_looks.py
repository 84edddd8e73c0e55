"""`assert` with `screenshot`, in whole runs: written, compared, shown, accepted."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from harness.spec.pictures import baseline_name, platform_of
from tests.acceptance.warm import warm
from tests.conftest import FULL

PAGE = """<!doctype html><meta name=viewport content="width=device-width"><title>Card</title><style>
#card{{width:50%;height:100px;background:#28c}}#dot{{width:40px;height:40px;background:{colour};
animation:move .3s infinite alternate}}@keyframes move{{to{{transform:translateX(90px)}}}}</style>
<div id=card><div id=dot></div><p id=now></p></div><script>now.textContent = Math.random()</script>"""
SETTINGS = """
[tool.harness]
base_url = "{url}"
[tool.harness.browser.profiles.phone]
viewport = [400, 300]
"""
TASK = """task_id: {name}
steps:
  - {{act: open, url: /}}
  - {{act: assert, selector: "#card", screenshot: looks/{name}.png, mask: ["#now"], soft: true}}
  - {{act: assert, screenshot: {name}-page.png, mask: ["#now"], max_diff_pixel_ratio: 0.5}}
"""


@pytest.fixture
def folder(tmp_path: Path, httpserver: HTTPServer) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS.format(url=httpserver.url_for("")), "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    for name in ("A", "B"):
        (tmp_path / f"{name}.task.yaml").write_text(TASK.format(name=name), "utf-8")
    return tmp_path


def serve(httpserver: HTTPServer, colour: str) -> None:
    httpserver.clear()
    httpserver.expect_request("/").respond_with_data(PAGE.format(colour=colour), content_type="text/html")


def run(folder: Path, *options: str) -> CompletedProcess[str]:
    return warm().run("pytest", *options, cwd=folder)


def image_diffs(results: Path) -> list[dict[str, str]]:
    """The comparisons that Allure shows."""
    parts = [json.loads(path.read_text("utf-8")) for path in results.glob("*-result.json")]
    found: list[Any] = list(parts)
    for part in found:
        found += part.get("steps", ())
    sources = [
        each["source"]
        for part in found
        for each in part.get("attachments", ())
        if each["type"] == "application/vnd.allure.image.diff"
    ]
    return [json.loads((results / source).read_text("utf-8")) for source in sources]


@pytest.mark.thorough
def test_each_profile_has_its_baselines_and_what_looks_the_same_is_not_written_again(
    folder: Path, httpserver: HTTPServer
) -> None:
    serve(httpserver, "#fc0")
    update = run(folder, "-n", "2", "--task-update-baselines", "--browser-profile", "phone")
    assert "2 passed" in update.stdout, update.stdout + update.stderr
    assert "4 baselines written" in update.stdout
    baseline = next((folder / "looks").glob("A-*-phone.png"))
    platform = baseline.name.removeprefix("A-").removesuffix("-phone.png")
    assert baseline.name == baseline_name("A.png", platform, "phone")
    phone = ("A.task.yaml", "--browser-profile", "phone")
    assert " written;" not in run(folder, *phone, "--task-update-baselines").stdout
    assert "1 passed" in run(folder, *phone).stdout


def test_a_look_is_written_compared_shown_and_accepted(folder: Path, httpserver: HTTPServer) -> None:
    serve(httpserver, "#fc0")
    missing = run(folder, "A.task.yaml")
    assert re.search(r"there is no baseline looks/A-\w+\.png beside the task", missing.stdout), missing.stdout
    assert "--task-update-baselines" in missing.stdout
    update = run(folder, "A.task.yaml", "--task-update-baselines")
    assert "1 passed" in update.stdout, update.stdout + update.stderr
    assert "2 baselines written" in update.stdout
    baseline = next((folder / "looks").glob("A-*.png"))
    platform = baseline.name.removeprefix("A-").removesuffix(".png")
    assert baseline.name == baseline_name("A.png", platform, "")
    assert platform in (platform_of(""), "darwin", "win32")

    serve(httpserver, "#f00")
    red = run(folder, "A.task.yaml", "--alluredir", "results")
    assert "1 failed" in red.stdout, red.stdout
    assert "1600 pixels of" in red.stdout
    assert "0 allowed" in red.stdout
    assert f"pictures: errors/A/files/comparisons/1-A-{platform} (expected.png, actual.png, diff.png)" in red.stdout
    pictures = folder / "errors" / "A" / "files" / "comparisons" / f"1-A-{platform}"
    (shown, again) = image_diffs(folder / "results")
    assert shown == again, "at the test, and at the step"
    for name, url in shown.items():
        assert base64.b64decode(url.removeprefix("data:image/png;base64,")) == (pictures / f"{name}.png").read_bytes()
    kept = json.loads((folder / "errors" / "A" / "manifest.json").read_text("utf-8"))["files"]
    assert [each["name"] for each in kept if "comparisons" in each["name"]] == [
        f"comparisons/1-A-{platform}/{name}.png" for name in ("actual", "diff", "expected")
    ]

    assert warm().run("tests.acceptance.command", "dashboard", cwd=folder).returncode == 0
    page = (folder / "dashboard.html").read_text("utf-8")
    links = dict(re.findall(r'<figure class="(\w+)"><figcaption><a href="([^"]+)"', page))
    assert {name: folder / link for name, link in links.items()} == {
        name: pictures / f"{name}.png" for name in ("expected", "actual", "diff")
    }
    assert page.count('<img src="data:image/png') == 3

    accepted = run(folder, "A.task.yaml", "--task-update-baselines")
    assert "1 baseline written" in accepted.stdout, "the other one is within its tolerance"
    assert f"  looks/A-{platform}.png" in accepted.stdout
    assert not FULL or "1 passed" in run(folder, "A.task.yaml").stdout
