"""Finding Allure, without the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.allure import build as npm
from harness.reporting.allure.build import Allure, ReportError, find_allure, install


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine has what a test puts into its `bin`, and a shell."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(npm, "cache_folder", lambda: folder / "allure-3")
    for name in ("sh", "mkdir", "cp", "echo"):
        found = Path("/bin", name)
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(found)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    return folder


def test_the_projects_own_comes_first(tmp_path: Path, cache: Path) -> None:
    own = program(tmp_path / "node_modules/.bin/allure", "echo 3.1.0")
    program(cache / "allure-3/node_modules/.bin/allure", "echo 3.18.0")
    assert find_allure(tmp_path) == Allure(own, "3.1.0")


def test_allure_2_is_passed_over_where_3_is_there(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "node_modules/.bin/allure", "echo 2.46.1")
    cached = program(cache / "allure-3/node_modules/.bin/allure", "echo 3.18.0")
    assert find_allure(tmp_path) == Allure(cached, "3.18.0")


def test_one_on_the_path(tmp_path: Path) -> None:
    found = program(tmp_path / "bin/allure", "echo 3.2.0")
    assert find_allure(tmp_path) == Allure(found, "3.2.0")


def test_installed_once_by_npm(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "allure", f"echo {npm.VERSION}")
    folder = "node_modules/.bin"
    script = f'mkdir -p "$3/{folder}" && cp "{tmp_path}/allure" "$3/{folder}" && echo "$@" > "$3/args"'
    program(tmp_path / "bin/npm", script)
    said: list[str] = []
    first = find_allure(tmp_path, said.append)
    assert first == Allure(cache / "allure-3" / folder / "allure", npm.VERSION)
    assert "--ignore-scripts" in (cache / "allure-3/args").read_text()
    assert len(said) == 1
    assert find_allure(tmp_path, said.append) == first
    assert len(said) == 1
    assert [path.name for path in cache.iterdir()] == ["allure-3"]


def test_allure_2_alone_is_none(tmp_path: Path) -> None:
    program(tmp_path / "bin/allure", "echo 2.30.0")
    with pytest.raises(ReportError, match="Allure 3 is not installed, and there is no npm: install Node"):
        find_allure(tmp_path)


def test_npm_fails(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "bin/npm", "echo 'npm error network getaddrinfo ENOTFOUND' >&2; exit 1")
    with pytest.raises(ReportError, match=r"ENOTFOUND.*npm install allure@") as caught:
        install(lambda _text: None)
    assert "\n" not in str(caught.value)
    assert not (cache / "allure-3").exists()


def test_npm_installs_something_else(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "bin/npm", "exit 0")
    with pytest.raises(ReportError, match="no allure"):
        install(lambda _text: None)
    assert not (cache / "allure-3").exists()
