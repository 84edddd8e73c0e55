"""What is published: the wheel and the source distribution have what a user needs, and nothing else."""

from __future__ import annotations

import re
import subprocess
import tarfile
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.runtime import PROJECT, ROOT, built

LARGEST = 2_500_000
"""Bytes of the wheel."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def sources(folder: str) -> set[str]:
    """The files of a folder that are published: those that git has; of a source distribution, all but caches."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, check=True, capture_output=True, text=True)
        return set(filter(None, listed.stdout.split("\0")))
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as files:
        names = {name for name in files.namelist() if ".dist-info/" not in name}
        rest = {name.partition(".dist-info/")[2] for name in files.namelist()} - {""}
    assert names == sources("harness") | {"harness/bridge/client/bridge.mjs"}
    assert {"harness/py.typed", "harness/demo/server.py"} <= names
    assert rest == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert wheel.stat().st_size < LARGEST


def test_its_metadata_are_those_of_the_project(wheel: Path) -> None:
    with ZipFile(wheel) as files:
        (place,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(files.read(place).decode())
    assert (metadata["Name"], metadata["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    description = metadata.get_payload()
    assert re.findall(r"\]\((?!https:)[^)]*\)|srcset=|/path/to/this/clone", description) == [], "an index has no files"
    examples = re.findall(r"```yaml.*?```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert [each for each in examples if each not in description] == []


def test_the_extra_all_has_each_of_them_and_one_table_says_what_they_are_for() -> None:
    extras = PROJECT["optional-dependencies"]
    (all_,) = extras["all"]
    assert set(re.findall(r"\w+", all_.partition("[")[2])) == set(extras) - {"all"}
    table = (ROOT / "docs/install.md").read_text("utf-8")
    assert [name for name in extras if f"\n| `{name}` |" not in table] == []


@pytest.mark.thorough
def test_the_source_distribution_can_be_tested(tmp_path: Path) -> None:
    with tarfile.open(built(tmp_path, "sdist")) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    needed = ("harness", "tests", "tasks", "schemas", "docs", "bootstrap", "tools", "examples", ".ci", ".github")
    assert [name for folder in needed for name in sources(folder) - names] == []
    assert not [name for name in names if re.search(r"__pycache__|\.venv|^site/|^errors/.+/|\.harness", name)]
