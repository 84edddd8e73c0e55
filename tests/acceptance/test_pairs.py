"""Twelve tests as pytest-playwright has them, and the same as task files: both act, and the files are not longer."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from harness.spec.style import in_style
from tests.acceptance.warm import warm
from tests.conftest import FULL

HERE = Path(__file__).parent / "pairs"
NAMES = [
    "api", "dialog", "download", "drag", "emulation", "filter", "form", "login", "popup", "table", "todo", "upload",
]  # fmt: skip
SETTINGS = """\
[tool.harness]
base_url = "{url}"
[tool.harness.defaults]
expect_timeout = 1
error_recovery = {{ on_element_not_found = {{ wait_seconds = 1 }} }}
"""


def lines_of_the_test(name: str) -> int:
    """The lines of the function with its decorators, without imports."""
    text = (HERE / f"{name}.py").read_text("utf-8")
    made = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]
    assert [each.name for each in made] == [f"test_{name}"]
    first = min(each.lineno for each in (made[0], *made[0].decorator_list))
    return len([line for line in text.splitlines()[first - 1 :] if line.strip() and not line.strip().startswith("#")])


def lines_of_the_task(name: str) -> int:
    """All lines of the file."""
    text = (HERE / f"{name}.task.yaml").read_text("utf-8")
    assert in_style(text) == text, "it is as `harness fmt` writes it"
    return len([line for line in text.splitlines() if line.strip() and not line.startswith("#")])


def test_task_files_are_not_longer_than_the_tests() -> None:
    assert sorted(each.name.removesuffix(".task.yaml") for each in HERE.glob("*.task.yaml")) == NAMES
    lines = {name: (lines_of_the_task(name), lines_of_the_test(name)) for name in NAMES}
    assert sum(task / test for task, test in lines.values()) / len(lines) <= 1, lines
    assert [name for name, (task, test) in lines.items() if task > test] == [], lines


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_both_halves_pass_and_fail_with_the_site(tmp_path: Path, httpserver: HTTPServer, right: bool) -> None:
    """On the wrong site each page does one thing wrong, which each task must notice, and in a full run each test."""

    def answer(request: Request) -> Response:
        if request.path == "/items":
            made = items if request.method == "GET" else json.loads(request.data)
            return Response(
                json.dumps(made), status=200 if request.method == "GET" else 201, mimetype="application/json"
            )
        page = (HERE / "site" / f"{request.path.strip('/')}.html").read_text("utf-8")
        head = f"<!doctype html><script>const right = {json.dumps(right)};</script>"
        return Response(head + page, mimetype="text/html")

    items = [{"name": "mug"}]
    for each in ("items", *(file.stem for file in (HERE / "site").glob("*.html"))):
        httpserver.expect_request(f"/{each}").respond_with_handler(answer)
    shutil.copytree(HERE, tmp_path / "pairs")
    url = httpserver.url_for("").rstrip("/")
    (tmp_path / "pyproject.toml").write_text(SETTINGS.format(url=url), "utf-8")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\naddopts = -p no:hypothesispytest -p no:faker --base-url {url}\npython_files = *.py\n"
    )
    both = right or FULL
    chosen = ["pairs"] if both else [f"pairs/{name}.task.yaml" for name in NAMES]
    done = warm().run("pytest", *chosen, "-rA", "--tb=line", cwd=tmp_path, timeout=300)
    word = "PASSED" if right else "FAILED"
    ended = {line.split()[1].rpartition("::")[2] for line in done.stdout.splitlines() if line.startswith(word)}
    expected = {*NAMES, *(f"test_{name}[chromium]" for name in NAMES if both)}
    assert {each.partition(" ")[0] for each in ended} == expected, done.stdout[-6000:]
