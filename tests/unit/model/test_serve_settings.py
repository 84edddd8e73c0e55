"""`[tool.harness.serve]`: what it may say, and what overrides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.serve_settings import ServeSettings
from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError


def loaded(root: Path, *lines: str) -> ServeSettings:
    (root / "pyproject.toml").write_text("\n".join(["[tool.harness.serve]", *lines]), "utf-8")
    return load_settings(root).serve


def test_tasks_may_be_anywhere_in_the_project(tmp_path: Path) -> None:
    assert loaded(tmp_path, 'tasks = [".", "a/../b", "..tasks"]').tasks == (".", "a/../b", "..tasks")


def test_only_this_machine_reaches_the_server_by_default(tmp_path: Path) -> None:
    serve = loaded(tmp_path)
    assert (serve.host, serve.port, serve.is_local, serve.certificate(tmp_path)) == ("127.0.0.1", 0, True, None)
    assert not loaded(tmp_path, 'host = "0.0.0.0"').is_local


def test_the_files_of_tls_are_relative_to_the_project(tmp_path: Path) -> None:
    serve = loaded(tmp_path, 'tls_cert = "c.pem"', 'tls_key = "k.pem"')
    assert serve.certificate(tmp_path) == (tmp_path / "c.pem", tmp_path / "k.pem")


def test_the_port_of_the_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SERVE_PORT", "7890")
    serve = loaded(tmp_path, "port = 1", "sessions = 3")
    assert (serve.port, serve.sessions) == (7890, 3)
    monkeypatch.setenv("HARNESS_SERVE_PORT", "many")
    with pytest.raises(SettingsError, match="HARNESS_SERVE_PORT: 'many' is no port from 0 to 65535"):
        loaded(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('tls_cert = "c.pem"', "`tls_cert` needs `tls_key` beside it"),
        ("port = 70000", "serve.port"),
        ("grace = -1", "serve.grace"),
        ("sessions = 0", "serve.sessions"),
        ("workers = true", "serve.workers: must not be true or false (found: True)"),
        ("grace = false", "serve.grace: must not be true or false"),
        ('tasks = ["tasks", "../.."]', "serve.tasks: '../..' is outside of the project"),
        ('tasks = ["a/../../b"]', "serve.tasks: 'a/../../b' is outside of the project"),
        ('tasks = ["/tmp"]', "serve.tasks: '/tmp' is outside of the project"),
        ('tasks = [""]', "serve.tasks: an entry is empty"),
        ("hosts = 1", "unknown key `hosts` (did you mean `host`?)"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded(tmp_path, line)
    assert message in str(refused.value)
