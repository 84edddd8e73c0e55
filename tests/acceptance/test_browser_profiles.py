"""`--browser-profile` and `--device`: each task once per profile, with and without pytest-playwright."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.acceptance.warm import warm

PAGE = b"""<!doctype html><meta name=viewport content="width=device-width"><p id=width></p><p id=language></p>
<p id=agent></p><div style="height:3000px"></div><script>
width.textContent = innerWidth; language.textContent = navigator.language; agent.textContent = navigator.userAgent
</script>"""
SETTINGS = """
[tool.harness]
base_url = "{url}"
[tool.harness.browser]
locale = "de-DE"
[tool.harness.browser.profiles.small]
viewport = [400, 300]
[tool.harness.browser.profiles.phone]
device = "iPhone 13"
locale = "fr-FR"
"""
FIRST = """
task_id: FIRST
parametrize: [{id: a, path: /a}, {id: b, path: /b}]
steps:
  - {act: open, url: "${param.path}"}
success_criteria: ["text('#width') == '${env:WIDTH}'", "text('#language') == '${env:LANGUAGE}'"]
"""
SECOND = """
task_id: SECOND
dependencies: [FIRST]
episode_id: E
steps: [{act: open, url: /}]
success_criteria: ["text('#width') != '1280'"]
"""
TALL = """
task_id: TALL
steps: [{act: open, url: /}]
success_criteria: ["exists('#never')"]
expect_timeout: 0
"""


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path, url: str) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS.format(url=url), "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    first = FIRST.replace("", "")
    (tmp_path / "first.task.yaml").write_text(first, "utf-8")
    (tmp_path / "second.task.yaml").write_text(SECOND, "utf-8")
    return tmp_path


def run(folder: Path, *arguments: str, width: str = "400", language: str = "de-DE") -> CompletedProcess[str]:
    return warm().run("pytest", *arguments, cwd=folder, WIDTH=width, LANGUAGE=language)


def passed(done: CompletedProcess[str]) -> list[str]:
    """The names of the tasks that passed, in the order of the run."""
    lines = (line for line in done.stdout.splitlines() if " PASSED" in line)
    return [line.partition("::")[2].partition(" ")[0] for line in lines]


def test_each_task_runs_once_per_profile_and_after_what_it_depends_on(folder: Path) -> None:
    done = run(folder, "-v", "--browser-profile", "small", "--browser-profile", "phone", width="390", language="fr-FR")
    assert "2 failed, 3 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert passed(done) == ["FIRST[a][phone]", "FIRST[b][phone]", "SECOND[phone]"]
    assert "SECOND[small] SKIPPED" in done.stdout
    reports = [json.loads(each.read_text("utf-8")) for each in (folder / "errors").glob("*/error_report.json")]
    assert sorted(each["task_id"] for each in reports) == ["FIRST[a][small]", "FIRST[b][small]"]


@pytest.mark.thorough
def test_a_task_with_a_profile_is_chosen_by_its_id_and_repeated(folder: Path) -> None:
    chosen = ("first.task.yaml::FIRST[b][small]", "--browser-profile", "small")
    assert passed(run(folder, "-v", *chosen)) == ["FIRST[b][small]"]
    assert "1 failed" in run(folder, *chosen, width="1").stdout
    assert passed(run(folder, "-v", "--lf", "--browser-profile=small")) == ["FIRST[b][small]"]
    with_others = run(folder, "-v", "second.task.yaml", "--task-with-deps", "--browser-profile=small")
    assert passed(with_others) == ["FIRST[a][small]", "FIRST[b][small]", "SECOND[small]"]


@pytest.mark.thorough
def test_workers_of_xdist_run_the_same(folder: Path) -> None:
    done = run(folder, "-n", "2", "--task-workers", "2", "--browser-profile", "small")
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.thorough
def test_a_replay_knows_the_profile(folder: Path) -> None:
    assert "1 failed" in run(folder, "first.task.yaml::FIRST[a][small]", "--browser-profile=small", width="1").stdout
    done = warm().run(
        "tests.acceptance.command", "replay", "FIRST[a][small]", cwd=folder, WIDTH="400", LANGUAGE="de-DE"
    )
    shown = done.stdout + done.stderr
    assert "FIRST[a][small] in the present state" in shown, shown


def test_a_profile_that_the_project_lacks_is_refused(folder: Path) -> None:
    done = run(folder, "--browser-profile", "smal")
    assert done.returncode == 4
    assert (
        "--browser-profile smal: [tool.harness.browser.profiles] has no profile of this name (did you mean"
        in done.stderr
    )
    both = run(folder, "--browser-profile", "phone", "--device", "iPhone 13")
    assert "this profile has a device, so leave out --device" in both.stderr


@pytest.mark.parametrize("plugin", [pytest.param("playwright", marks=pytest.mark.thorough), "no:playwright"])
@pytest.mark.thorough
def test_a_device_and_the_whole_page_with_the_other_plugin_and_without_it(folder: Path, plugin: str) -> None:
    arguments = ("-p", plugin) if plugin.startswith("no:") else ()
    (folder / "tall.task.yaml").write_text(TALL, "utf-8")
    given = ("--device", "iPhone 13", "--full-page-screenshot", *arguments)
    done = run(folder, "first.task.yaml", "tall.task.yaml", *given, width="390")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    shot = (folder / "errors" / "TALL" / "screenshot.png").read_bytes()
    assert int.from_bytes(shot[20:24]) > 3000
    unknown = run(folder, "--device", "iPhone 99", *arguments)
    assert "Playwright has no device 'iPhone 99': did you mean" in unknown.stderr
