"""A run costs what its tasks use: the harness imports neither faults nor a client of HTTP before one is needed."""

from __future__ import annotations

import subprocess
import sys

IMPORT = "import sys, harness.runner.harness; print(*sys.modules)"
LATER = {
    "allure_commons", "anthropic", "cryptography", "genai_prices", "httpx2", "jinja2", "lark", "mcp", "openai",
    "prometheus_client", "pydantic_ai", "pygal", "pytest", "rich", "tenacity", "typer", "uvicorn",
}  # fmt: skip


def test_a_run_without_faults_services_and_reports_imports_none_of_their_modules() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert "playwright" in found
    assert found & LATER == set()
    rooms = ("harness.faults", "harness.spec.faults", "harness.browser.faults", "harness.demo", "harness.pytest_plugin")
    rooms = (*rooms, "harness.models", "harness.tools")
    assert [each for each in found if each.startswith((*rooms, "harness.environment.http_channel"))] == []
