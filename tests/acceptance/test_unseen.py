"""`harness validate` after a run: what criteria deny, and nothing has ever matched."""

from __future__ import annotations

from pathlib import Path

from pytest_httpserver import HTTPServer

from tests.acceptance.warm import warm

PAGE = """<!doctype html><title>Shop</title><p id=there>there</p><div id=shut hidden>x</div><p class=other>o</p>
<iframe srcdoc="<p id=inside>i</p>"></iframe>"""
TASKS = {
    "denies": """goal: Nothing went wrong
steps: [{act: open, url: /}, {act: assert, expr: "NOT[visible('#spiner')]"}]
success_criteria:
  - text('#there') == 'there'
  - count('.eror') == 0
  - NOT[visible('#shut')]
  - "!exists('.other-page')"
  - NOT[visible('#inside')] && exists('#inside', frame='iframe')
""",
    "finds": """goal: There is a mistake
steps: [{act: open, url: /wrong}]
success_criteria: ["exists('.other-page')"]
""",
}


def test_a_criterion_that_denies_what_nothing_matched_is_warned_of_after_a_run(
    tmp_path: Path, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/").respond_with_data(PAGE, content_type="text/html")
    httpserver.expect_request("/wrong").respond_with_data("<p class=other-page>no", content_type="text/html")
    (tmp_path / "pyproject.toml").write_text(f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\n', "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    for name, text in TASKS.items():
        (tmp_path / f"{name}.task.yaml").write_text(text, "utf-8")

    def warnings() -> list[str]:
        told = warm().run("tests.acceptance.command", "validate", ".", cwd=tmp_path)
        assert told.returncode == 0, told.stdout + told.stderr
        return [line.strip() for line in (told.stdout + told.stderr).splitlines() if "nothing has matched" in line]

    assert warnings() == []
    done = warm().run("pytest", cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout
    found = sorted(each.partition(": of a wrong")[0].partition("denies.task.yaml:")[2] for each in warnings())
    assert [each.partition(":")[0] for each in found] == ["2", "5", "8"]
    assert [each.rpartition("matched ")[2] for each in found] == [
        "'#spiner' in the last run", "'.eror' in the last run", "'#inside' in the last run",
    ]  # fmt: skip
