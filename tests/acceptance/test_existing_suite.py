"""What a suite that was written for another runner needs, on an ordinary application."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import stranger_app
from tests.acceptance.conftest import Project

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(Path(stranger_app.__file__))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        process.terminate()
        process.stdout.close()


@pytest.mark.thorough
def test_keys_of_ones_own_what_comes_late_and_what_never_holds_together(project: Project, address: str) -> None:
    keys = '\n[tool.harness.extra_keys]\nquarantine = "skip"\narea = "tag"\nbug = "note"\n'
    file = project.path / "pyproject.toml"
    file.write_text(file.read_text("utf-8") + keys, "utf-8")
    shop = [{"act": "open", "url": f"{address}/shop"}, {"act": "click", "selector": "#fetch-order"}]
    placed = {"act": "assert", "selector": "#out", "value": "placed"}
    late = ["text('#out') == 'placed'", "url() includes '/shop'"]
    project.task("LATE", area="shop", steps=[*shop, placed], success_criteria=late, expect_timeout=5)
    project.task("RED", bug="SHOP-12", steps=shop[:1], success_criteria=["exists('#gone')"], expect_timeout=0.3)
    project.task("OUT", quarantine="the shop is being rebuilt", steps=shop)
    leaves = [{"act": "open", "url": f"{address}/leaves"}]
    retry = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 2}}
    apart = ["url() includes '/leaves'", "exists('#slow')"]
    project.task("APART", steps=leaves, success_criteria=apart, error_recovery=retry)
    fallbacks = {"wait_seconds": 0.5, "fallback_selectors": {"#gone": ["#form-order"]}}
    waits = [*shop[:1], {"act": "wait", "selector": "#gone"}]
    project.task("HEALED", steps=waits, error_recovery={"on_element_not_found": fallbacks})
    result = project.run("-rs", "--junitxml", "junit.xml")
    text = result.stdout.str()
    result.assert_outcomes(passed=2, failed=2, skipped=1)
    assert project.report("APART")["context"]["criterion"] == apart[0]
    assert "The success criteria do not hold together: criterion 1 held at" in project.report("APART")["error_message"]
    assert "HEALED.task.json step 1: `#gone` -> `#form-order`" in text
    assert "tasks: 5: 2 completed (1 of them recovered), 2 failed, 1 skipped\n" in text
    assert "skipped:\n  OUT: the shop is being rebuilt\n" in text
    assert "  bug: SHOP-12" in text
    assert "unknown key" not in text
    assert re.search(r"after 0\.\d+ s: no element matches '#gone'", text)
    junit = (project.path / "junit.xml").read_text("utf-8")
    assert 'name="bug" value="SHOP-12"' in junit
    assert project.run("-m", "shop", "--collect-only", "-q").stdout.str().count("::LATE") == 1


def test_values_and_a_script_are_there_before_the_pages_own(project: Project, address: str) -> None:
    """The application's page runs a script of its own as it is read, and shows what it found."""
    file = project.path / "pyproject.toml"
    text = file.read_text("utf-8")
    file.write_text(text.replace("[tool.harness]", '[tool.harness]\ninit_script = "init.js"', 1), "utf-8")
    (project.path / "init.js").write_text(
        "window.FLAGS = {...window.__taskspec?.flags, first: !document.body};", "utf-8"
    )
    steps = [{"act": "open", "url": f"{address}/flags"}]
    flags = {"flags": {"who": "${inputs.who}", "new": True}}
    shown = 'text(\'#flags\') == \'{"who":"a\\\'b","new":true,"first":true}\''
    project.task("GIVEN", inputs={"who": "a'b"}, page_values=flags, steps=steps, success_criteria=[shown])
    project.task("NONE", steps=steps, success_criteria=["text('#flags') == '{\"first\":true}'"])
    project.run().assert_outcomes(passed=2)
    (project.path / "init.js").unlink()
    assert "tool.harness.init_script: init.js cannot be read: No such file" in project.run().stderr.str()
