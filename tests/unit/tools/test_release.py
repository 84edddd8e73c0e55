"""A release: what stands in its way, what an index shows of it, and the documentation of several versions."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tools.release.__main__ import obstacles
from tools.release.description import described
from tools.release.site import index

ROOT = Path(__file__).parents[3]
README = """# It

<picture>
  <source srcset="docs/images/dark.png">
  <img alt="A red run" src="docs/images/light.png">
</picture>

`pip install /path/to/this/clone`; see [start](docs/start.md#now), [spec](https://spec.test/) and
[more](docs/red.md).
"""


@pytest.mark.parametrize("source", ["https://git.test/qa/it", "https://git.test/qa/it.git", "https://git.test/qa/it/"])
def test_an_index_gets_the_picture_and_the_links_of_this_version(source: str) -> None:
    said = described(README, {"name": "it", "version": "1.2", "urls": {"Source": source}})
    assert "\n![A red run](https://git.test/qa/it/raw/v1.2/docs/images/light.png)\n" in said
    assert "[start](https://git.test/qa/it/blob/v1.2/docs/start.md#now), [spec](https://spec.test/)" in said
    assert "[more](https://git.test/qa/it/blob/v1.2/docs/red.md)" in said
    assert "`pip install it`" in said
    assert "<picture>" not in said


def test_without_an_address_it_gets_no_link_that_leads_nowhere() -> None:
    said = described(README, {"name": "it", "version": "1.2"})
    assert said == "# It\n\n`pip install it`; see start, [spec](https://spec.test/) and\nmore.\n"


READY = ("1.2", "# Changelog\n\n## 1.3\n\n## 1.2 (2026-12-01)\n", "", "v1.0\nv1.2.1\n")


def test_nothing_stands_in_the_way_of_a_release_that_is_ready() -> None:
    assert obstacles(*READY) == []


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        (1, "## 1.2.1\n", "no section `## 1.2`"),
        (1, "## 1.2 (unreleased)\n", "write the day"),
        (2, " M README.md\n?? new.py\n", "2 files are not committed"),
        (3, "v1.0\nv1.2\n", "the tag v1.2 exists"),
    ],
)
def test_what_stands_in_the_way_is_said(place: int, text: str, said: str) -> None:
    values = [*READY]
    values[place] = text
    (found,) = obstacles(*values)
    assert said in found


def test_the_documentation_lists_the_versions_newest_first_and_leads_to_the_newest_final_one(tmp_path: Path) -> None:
    for version, pages in (("0.9.0", ["index"]), ("0.10.0", ["index", "design/why"]), ("0.11.0rc1", ["index"])):
        for page in pages:
            place = tmp_path / version / f"{page}.html"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    (tmp_path / "assets").mkdir()
    assert index(tmp_path) == ["0.11.0rc1", "0.10.0", "0.9.0"]
    _, _, document = (tmp_path / "versions.js").read_text("utf-8").partition(" = ")
    assert json.loads(document.rstrip(";\n")) == {
        "0.11.0rc1": ["index.html"],
        "0.10.0": ["design/why.html", "index.html"],
        "0.9.0": ["index.html"],
    }
    assert 'url=0.10.0/index.html"' in (tmp_path / "index.html").read_text("utf-8")


def test_ci_runs_the_pythons_that_the_metadata_name_and_the_ends_of_every_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["suite"]["strategy"]["matrix"]
    classified = (re.search(r":: (3\.\d+)$", each) for each in project["classifiers"])
    assert matrix["python"] == [each[1] for each in classified if each]
    assert matrix["python"][0] == project["requires-python"].removeprefix(">=")
    assert matrix["versions"] == ["lowest-direct", "highest"]
    (pytest_range,) = (each for each in project["dependencies"] if each.startswith("pytest>"))
    assert pytest_range == f"pytest>={matrix['pytest'][0]},<{int(matrix['pytest'][-1]) + 1}"
