"""Finding Allure 3, without the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting import npm
from harness.reporting.npm import ReportError, allure_command, install


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(npm, "cache_folder", lambda: tmp_path / "cache" / "allure")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "cache" / "allure"


def test_the_projects_own_comes_first(tmp_path: Path, cache: Path) -> None:
    own = program(tmp_path / "node_modules/.bin/allure", "echo 3.1.0")
    program(cache / "node_modules/.bin/allure", "echo 3.18.0")
    assert allure_command(tmp_path) == own


def test_allure_2_is_passed_over(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "node_modules/.bin/allure", "echo 2.46.1")
    cached = program(cache / "node_modules/.bin/allure", "echo 3.18.0")
    assert allure_command(tmp_path) == cached


def test_one_on_the_path(tmp_path: Path) -> None:
    found = program(tmp_path / "bin/allure", "echo 3.2.0")
    assert allure_command(tmp_path) == found


def test_installed_once_by_npm(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "allure").write_text("#!/bin/sh\necho 3.18.0\n")
    (tmp_path / "allure").chmod(0o755)
    script = f'bin="$3/node_modules/.bin"; mkdir -p "$bin" && cp -p "{tmp_path}/allure" "$bin" && echo "$@" > "$3/args"'
    program(tmp_path / "bin/npm", script)
    said: list[str] = []
    first = allure_command(tmp_path, said.append)
    assert first == cache / "node_modules/.bin/allure"
    assert (cache / "args").read_text().split()[-1] == f"allure@{npm.VERSION}"
    assert len(said) == 1
    assert allure_command(tmp_path, said.append) == first
    assert len(said) == 1
    assert [p.name for p in cache.parent.iterdir()] == ["allure"]


def test_npm_fails(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "bin/npm", "echo 'npm error network getaddrinfo ENOTFOUND' >&2; exit 1")
    with pytest.raises(ReportError, match=r"ENOTFOUND.*npm install allure@") as caught:
        install(cache, lambda _text: None)
    assert "\n" not in str(caught.value)
    assert not cache.exists()


def test_no_npm(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ReportError, match="there is no npm"):
        install(cache)
