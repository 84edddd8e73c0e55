"""Faults at the socket, declared in task files and met in whole runs."""

from __future__ import annotations

import json

from tests.acceptance.conftest import Project

SHOP = "http://shop.local/*"


def test_a_task_outlasts_faults_of_the_network_and_broken_tls_is_its_failure(project: Project) -> None:
    faults = [
        {"kind": "status", "url": SHOP, "status": 503, "retry_after": 1, "times": 1},
        {"kind": "reset", "url": SHOP, "nth": 2, "times": 1},
        {"kind": "slow", "url": SHOP, "nth": 3, "times": 1, "seconds": 0.5},
    ]
    recovery = {"on_network_error": {"strategy": "retry", "retry_delay_ms": 500}}
    project.task("outlasts", faults=faults, error_recovery=recovery)
    steps = [{"act": "open", "url": "https://shop.local/"}]
    expect = {"final_state": "failed", "code": "NET_TLS"}
    project.task("tls", faults=[{"kind": "tls", "host": "shop.local"}], steps=steps, expect=expect)
    project.run().assert_outcomes(passed=2)
    report = json.loads((project.path / "errors/tls/error_report.json").read_text("utf-8"))
    assert "net::ERR_CERT_AUTHORITY_INVALID" in json.dumps(report)
    tls = report["context"]["tls"]
    assert (tls["reason"], tls["host"]) == ("unknown_issuer", "shop.local")
    assert "trust the issuer of the certificate of shop.local" in tls["suggested_action"]
