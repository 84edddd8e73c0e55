"""Finding Allure, without the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.allure import build as npm
from harness.reporting.allure.build import Allure, Major, ReportError, find_allure, install

BIN_2 = "node_modules/allure-commandline/dist/bin/allure"


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine has what a test puts into its `bin`, and a shell."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(npm, "cache_folder", lambda major=3: folder / f"allure-{major}")
    for name in ("sh", "mkdir", "cp", "echo"):
        found = Path("/bin", name)
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(found)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    return folder


@pytest.fixture
def java(tmp_path: Path) -> Path:
    return program(tmp_path / "bin/java", "echo 17")


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


@pytest.mark.parametrize(("major", "place"), [(3, "node_modules/.bin/allure"), (2, BIN_2)])
def test_installed_once_by_npm(tmp_path: Path, cache: Path, java: Path, major: Major, place: str) -> None:
    """Allure 2 comes without the right to be run: its package gives it in a script, and those are not run."""
    version = npm.VERSION if major == 3 else npm.VERSION_2
    (tmp_path / "allure").write_text(f"#!/bin/sh\necho {version}\n")
    folder = Path(place).parent
    script = f'mkdir -p "$3/{folder}" && cp "{tmp_path}/allure" "$3/{folder}" && echo "$@" > "$3/args"'
    program(tmp_path / "bin/npm", script)
    said: list[str] = []
    first = find_allure(tmp_path, said.append, major)
    assert first == Allure(cache / f"allure-{major}" / place, version)
    assert "--ignore-scripts" in (cache / f"allure-{major}/args").read_text()
    assert len(said) == 1
    assert find_allure(tmp_path, said.append, major) == first
    assert len(said) == 1
    assert [path.name for path in cache.iterdir()] == [f"allure-{major}"]


def test_where_only_java_is_allure_2_builds(tmp_path: Path, java: Path) -> None:
    found = program(tmp_path / "bin/allure", "echo 2.30.0")
    said: list[str] = []
    assert find_allure(tmp_path, said.append) == Allure(found, "2.30.0")
    assert len(said) == 1
    assert said[0].startswith("Allure 3 is not installed, and there is no npm: ")
    assert said[0].endswith("; so Allure 2.30.0 builds the report")


def test_allure_2_without_java_is_none(tmp_path: Path) -> None:
    program(tmp_path / "bin/allure", "echo 2.30.0")
    with pytest.raises(ReportError, match="Java"):
        find_allure(tmp_path, major=2)
    with pytest.raises(ReportError, match="there is no npm"):
        find_allure(tmp_path)


def test_who_asks_for_3_does_not_get_2(tmp_path: Path, java: Path) -> None:
    program(tmp_path / "bin/allure", "echo 2.30.0")
    with pytest.raises(ReportError, match="Allure 3 is not installed"):
        find_allure(tmp_path, major=3)


def test_npm_fails(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "bin/npm", "echo 'npm error network getaddrinfo ENOTFOUND' >&2; exit 1")
    with pytest.raises(ReportError, match=r"ENOTFOUND.*npm install allure@") as caught:
        install(3, lambda _text: None)
    assert "\n" not in str(caught.value)
    assert not (cache / "allure-3").exists()


def test_npm_installs_something_else(tmp_path: Path, cache: Path) -> None:
    program(tmp_path / "bin/npm", "exit 0")
    with pytest.raises(ReportError, match="no allure"):
        install(3, lambda _text: None)
    assert not (cache / "allure-3").exists()
