"""A secret that a site gives back in every place and spelling is in no file of a run, whatever the run failed by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.spec.one_time import key_of
from tests.acceptance.conftest import Project
from tests.acceptance.planting import echo_site, leaks, spelt, zipped

SHORT, LONG = "k7#Q", 'p@ss/w0rd+"<&>é=?'
READY = {"act": "wait", "selector": "#ready"}


@pytest.fixture
def site() -> Iterator[str]:
    with echo_site() as url:
        yield url


class OneTime:
    """Two tasks that enter a one-time password, of which one fails."""

    URI = "otpauth://totp/Bank:ann?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&digits=8"

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch, site: str) -> None:
        self.project = project
        monkeypatch.setenv("BANK", self.URI)
        planted = [
            {"act": "open", "url": f"{site}/plant?s=${{totp:BANK}}"},
            READY,
            {"act": "type", "selector": "#typed", "value": "${inputs.code}"},
            {"act": "download", "selector": "#file"},
        ]
        wrong = {"act": "assert", "expr": "value('#typed') == '${totp:BANK}x'"}
        shot = {"act": "screenshot", "screenshot_id": "end"}
        keys: dict[str, Any] = {"inputs": {"code": "${totp:BANK}"}, "step_timeout": 5}
        self.started = int(time.time())
        rules = {"on_network_error": {"max_retries": 0}}
        project.task("OTP-FAILED", steps=[*planted, wrong], error_recovery=rules, **keys)
        project.task("OTP-PASSED", steps=[*planted, shot], **keys)

    def is_nowhere(self, shown: str) -> None:
        """Neither a code of this time nor the key is in what the run has left and shown."""
        moments = range(self.started - 30, int(time.time()) + 30, 30)
        codes = [key_of(self.URI).code(datetime.fromtimestamp(moment, UTC)) for moment in moments]
        secrets = (*codes, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
        for name in ("errors", "allure-results", ".harness"):
            assert leaks(self.project.path / name, *secrets) == []
        assert not [each for each in secrets if each in shown]
        assert b"[redacted]" in (self.project.path / "errors/OTP-FAILED/network_logs.har").read_bytes()
        assert "[redacted]x" in self.project.report("OTP-FAILED")["error_message"]


@pytest.mark.parametrize("secret", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.thorough
def test_neither_a_planted_secret_nor_a_one_time_password_is_anywhere(
    project: Project, monkeypatch: pytest.MonkeyPatch, site: str, secret: str
) -> None:
    monkeypatch.setenv("PLANTED", secret)
    (project.path / "pyproject.toml").write_text("", "utf-8")
    planted = [
        {"act": "open", "url": f"{site}/plant?s={quote(secret, safe='')}"},
        READY,
        {"act": "type", "selector": "#typed", "value": "${env:PLANTED}"},
        {"act": "download", "selector": "#file"},
    ]
    endings: dict[str, list[dict[str, Any]]] = {
        "ASSERTION": [{"act": "assert", "expr": "title() == 'nothing'"}],
        "ELEMENT": [{"act": "click", "selector": "text=missing-${env:PLANTED}"}],
        "POSTED": [{"act": "click", "selector": "#send"}, READY, {"act": "assert", "expr": "exists('#never')"}],
        "NETWORK": [{"act": "open", "url": "http://127.0.0.1:9/${env:PLANTED}"}],
        "KILLED": [{"act": "open", "url": f"{site}/die?s=k"}],
    }
    rules = {"on_network_error": {"max_retries": 0}, "on_browser_crash": "abort"}
    for name, steps in endings.items():
        memory = {"given": "${env:PLANTED}"}
        project.task(name, memory=memory, step_timeout=5, steps=[*planted, *steps], error_recovery=rules)
    one_time = OneTime(project, monkeypatch, site)
    result = project.run("--task-recording", "full", "--alluredir=allure-results", "-v", timeout=240)
    result.assert_outcomes(failed=len(endings) + 1, passed=1)
    one_time.is_nowhere(result.stdout.str() + result.stderr.str())
    assert leaks(project.path / "errors", secret) == []
    assert leaks(project.path / "allure-results", secret) == []
    for name in endings:
        folder = project.path / "errors" / name
        assert b"[redacted]" in (folder / "network_logs.har").read_bytes(), name
        assert (folder / "trace.zip").is_file(), name
        assert len(list((folder / "files" / "downloads").iterdir())) == 1, name


@pytest.mark.parametrize("secret", [SHORT, LONG], ids=["short", "long"])
def test_the_search_finds_what_is_planted(tmp_path: Path, secret: str) -> None:
    (tmp_path / "plain.txt").write_text("nothing")
    (tmp_path / "packed.zip").write_bytes(zipped(secret))
    for number, way in enumerate(spelt(secret).values()):
        (tmp_path / f"{number}.txt").write_text(f"it is {way}; {way} it is")
    assert {leak.partition("!")[0] for leak in leaks(tmp_path, secret)} == {
        path.name for path in tmp_path.iterdir() if path.name != "plain.txt"
    }
    assert len([leak for leak in leaks(tmp_path, secret) if leak.startswith("packed.zip")]) == 3
